"""JSON Schemas of the wire, generated from the shapes: ``python -m waitpoint_protocol.schema [--check]``.

Knows how pydantic spells a schema and what of it the protocol means. Shapes are never changed here.

Client frames are closed, as the server refuses fields it does not know; whatever the server sends is open, as clients
must ignore what they do not know.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from .events import Event
from .frames import CLIENT_FRAME, SERVER_FRAME
from .state import ThreadState

__all__ = ["main", "schemas", "stale", "write"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """The schemas by file name without its ending: client-frames, server-frames, events, state."""
    events: TypeAdapter[Event] = TypeAdapter(Event)
    state: TypeAdapter[ThreadState] = TypeAdapter(ThreadState)
    return {
        "client-frames": _schema("client-frames", "A frame that a client sends", CLIENT_FRAME, closed=True),
        "server-frames": _schema("server-frames", "A frame that the server sends", SERVER_FRAME, closed=False),
        "events": _schema("events", "An event of a thread's log", events, closed=False),
        "state": _schema("state", "A client's view of a thread", state, closed=False),
    }


def _schema(name: str, title: str, adapter: TypeAdapter[Any], *, closed: bool) -> dict[str, Any]:
    spelled: dict[str, Any] = _tidy(adapter.json_schema(by_alias=True), closed=closed)
    head = {"$schema": DIALECT, "$id": f"urn:waitpoint:v1:{name}", "title": title}
    return {**head, **{key: spelled[key] for key in spelled if key != "$defs"}, "$defs": spelled.get("$defs", {})}


def _tidy(node: Any, *, closed: bool) -> Any:
    if isinstance(node, list):
        return [_tidy(item, closed=closed) for item in node]
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, item in node.items():
        if key in ("title", "discriminator"):
            continue  # derived names, and a keyword of another standard
        if key == "minLength" and item == 0:
            continue
        if key == "additionalProperties" and item is False and not closed:
            continue
        if key == "description":
            out[key] = re.sub(r"\s+", " ", item.replace("``", "`")).strip()
        elif key in ("properties", "$defs"):
            out[key] = {name: _tidy(member, closed=closed) for name, member in item.items()}
        else:
            out[key] = _tidy(item, closed=closed)
    if "properties" in out:
        _mend_members(out)
    return out


def _mend_members(node: dict[str, Any]) -> None:
    """Say of members what holds on the wire: a tag is always there, and an absent one is absent, not null."""
    required: list[str] = node.get("required", [])
    for name, member in node["properties"].items():
        if "const" in member:
            member.pop("default", None)
            if name not in required:
                required = [name, *required]
        elif "default" in member and member["default"] is None:
            del member["default"]
            choices = [choice for choice in member.pop("anyOf") if choice != {"type": "null"}]
            member.update(choices[0] if len(choices) == 1 else {"anyOf": choices})
    if required:
        node["required"] = required


def spell(schema: dict[str, Any]) -> str:
    """A schema as the text of its file: the same for the same shapes, line by line."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def directory() -> Path:
    """``protocol/schema`` of the source checkout this package runs from. Raises ``FileNotFoundError`` elsewhere."""
    found = Path(__file__).resolve().parent.parent / "schema"
    if not (found.parent / "vectors").is_dir() or not found.is_dir():
        raise FileNotFoundError(
            "waitpoint_protocol is not running from a source checkout, so there is no protocol/schema beside it. "
            "Install the project in editable mode, or call waitpoint_protocol.schema.schemas() for the schemas."
        )
    return found


def write(where: Path) -> list[Path]:
    """Write the schema files; returns those that changed."""
    changed = stale(where)
    texts = {name: spell(schema) for name, schema in schemas().items()}
    for path in changed:
        path.write_text(texts[path.stem], encoding="utf-8")
    return changed


def stale(where: Path) -> list[Path]:
    """Schema files that are missing or say something else than the shapes."""
    paths = {where / f"{name}.json": spell(schema) for name, schema in schemas().items()}
    return [path for path, text in paths.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str] | None = None) -> int:
    """Write the schemas, or with ``--check`` only say whether they are fresh."""
    parser = argparse.ArgumentParser(prog="python -m waitpoint_protocol.schema", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is stale")
    checking = parser.parse_args(arguments).check
    try:
        where = directory()
    except FileNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    changed = stale(where) if checking else write(where)
    for path in changed:
        said = "is stale; run python -m waitpoint_protocol.schema" if checking else "written"
        sys.stdout.write(f"{path.name} {said}\n")
    return 1 if checking and changed else 0


if __name__ == "__main__":
    sys.exit(main())
