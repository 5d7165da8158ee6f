"""Ready-made tools: the model asks the user what it needs to know, and whether to go ahead.

Run it, open the printed address and say "set up my database"::

    waitpoint serve examples.set_up_database:chat

Each question is an action; the page shows a picker, tick boxes or yes and no, by the action's schema::

    const action = thread.getState().pending[0];
    action.kind;     // "ask_user", "ask_user_multi" or "confirm"
    action.input;    // { question: "Which database?", options: ["postgres", "sqlite"] }
    action.schema;   // { type: "string", enum: ["postgres", "sqlite"] }
    await action.submit("postgres");
"""

from __future__ import annotations

from collections.abc import Iterator

from waitpoint import Call, Chat, ModelRequest, ScriptedModel, tool
from waitpoint.models import ToolTurn, to_turns
from waitpoint.tools import ask_user, ask_user_multi, confirm


@tool
async def create_database(engine: str, extensions: list[str]) -> str:
    """Create the database."""
    return f"{engine} with {', '.join(extensions) or 'no extensions'}"


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: asks two things, confirms, creates."""
    results = [result for turn in to_turns(request.messages) if isinstance(turn, ToolTurn) for result in turn.results]
    last = results[-1] if results else None
    if request.step == 0:
        yield Call("ask_user", {"question": "Which database?", "options": ["postgres", "sqlite"]})
    elif last is None or last.error_text is not None:
        yield "All right, nothing was set up."
    elif request.step == 1:
        yield Call("ask_user_multi", {"question": "Which extensions?", "options": ["search", "maps", "vectors"]})
    elif request.step == 2:
        engine, extensions = results[-2].output, results[-1].output
        yield Call("confirm", {"action": f"Create a {engine} database with {len(extensions)} extensions?"})
    elif request.step == 3 and last.output is True:
        yield Call("create_database", {"engine": results[-3].output, "extensions": results[-2].output})
    elif request.step == 3:
        yield "All right, nothing was set up."
    else:
        yield f"Your database is ready: {last.output}."


chat = Chat(ScriptedModel(script), [ask_user, ask_user_multi, confirm, create_database])
