"""Tools without a body: one runs in the page, one is done by an outside system.

Run it, open the printed address and say anything::

    waitpoint serve examples.done_elsewhere:chat

The bundled page has no handlers, so it shows both calls as questions that you can answer by hand. A page of your own
registers a handler, and runs the call in one tab of all that are open::

    client.tools({
      getLocation: async ({ accuracy }, { signal }) => {
        const { coords } = await new Promise((done, failed) =>
          navigator.geolocation.getCurrentPosition(done, failed, { enableHighAccuracy: accuracy === "fine" }));
        return { latitude: coords.latitude, longitude: coords.longitude };
      },
    });

The payment service answers over HTTP, as often as it likes under one key::

    curl http://localhost:8000/threads/$THREAD/actions/$ACTION/submit -H 'Content-Type: application/json' \\
      -H 'Idempotency-Key: payment-7' -d '{"data": {"paid": true, "receipt": "r-12"}}'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, Field

from waitpoint import Call, Chat, ModelRequest, ScriptedModel, client_tool, external_tool
from waitpoint.models import ToolTurn, to_turns


class Wish(BaseModel):
    """How exactly the model wants to know."""

    accuracy: Literal["coarse", "fine"] = "coarse"


class Position(BaseModel):
    """What the handler of the page returns."""

    latitude: float = Field(ge=-90, le=90)
    longitude: float = Field(ge=-180, le=180)


class Order(BaseModel):
    """What is to be paid."""

    number: int
    euros: int


class Receipt(BaseModel):
    """What the payment service answers."""

    paid: bool
    receipt: str | None = None


get_location = client_tool(
    "getLocation", input=Wish, output=Position, description="Find out where the user is.", expires_in=300
)
collect_payment = external_tool(
    "collectPayment", input=Order, output=Receipt, description="Have an order paid.", expires_in=24 * 3600
)


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: asks where to deliver, has the order paid, then tells the outcome."""
    turns = to_turns(request.messages)
    if request.step == 0:
        yield Call("getLocation", {"accuracy": "fine"})
    elif isinstance(turns[-1], ToolTurn):
        [result] = turns[-1].results
        if result.error_text:
            yield f"That did not work: {result.error_text}"
        elif result.tool_name == "getLocation":
            yield Call("collectPayment", {"number": 7, "euros": 30})
        else:
            yield "It is on its way." if result.output["paid"] else "Then I keep it."


chat = Chat(ScriptedModel(script), [get_location, collect_payment])
