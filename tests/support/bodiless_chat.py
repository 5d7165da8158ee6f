"""A chat with tools that are done elsewhere: in a page, or by an outside system. Scripted like ``chats.py``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from support.chats import approve, script
from waitpoint import Chat, ScriptedModel, client_tool, external_tool


class Wish(BaseModel):
    accuracy: Literal["coarse", "fine"] = "coarse"


class Position(BaseModel):
    latitude: float = Field(ge=-90, le=90)
    longitude: float


class Order(BaseModel):
    number: int


class Receipt(BaseModel):
    paid: bool


chat = Chat(
    ScriptedModel(script),
    [
        client_tool("getLocation", input=Wish, output=Position, description="Where the user is."),
        client_tool("pickColour", output=Literal["red", "blue"], description="What the user likes.", expires_in=0.5),
        external_tool("collectPayment", input=Order, output=Receipt, description="Have an order paid."),
        approve,
    ],
)
