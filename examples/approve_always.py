"""An approval gate: no code of the tool runs before somebody has seen the call and said yes.

Run it, open the printed address and say anything::

    waitpoint serve examples.approve_always:chat

The action is named ``delete_branch.approval``; its input shows the call, defaults included::

    await action.submit({ approved: true });
    await action.submit({ approved: false, comment: "Still needed." });   // the model is told, with the comment
"""

from __future__ import annotations

from collections.abc import Iterator

from waitpoint import Call, Chat, ModelRequest, ScriptedModel, tool
from waitpoint.models import ToolTurn, to_turns


@tool(approval=True, approval_prompt="Delete this branch?", approval_description="It cannot be brought back.")
async def delete_branch(repository: str, branch: str, remote: str = "origin") -> str:
    """Delete a branch of a repository."""
    return f"{remote}/{branch} of {repository} is gone"


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: calls the tool once, then tells its result."""
    if request.step == 0:
        yield Call("delete_branch", {"repository": "website", "branch": "old-logo"})
    else:
        turn = to_turns(request.messages)[-1]
        assert isinstance(turn, ToolTurn)
        [result] = turn.results
        yield str(result.error_text or result.output)


chat = Chat(ScriptedModel(script), [delete_branch])
