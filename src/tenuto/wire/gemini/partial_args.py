"""Call arguments that arrive value by value, each with its JSON path.

Values arrive in any order, so the text of the arguments is known only at the end. It is compact JSON with the keys in
the order of their first appearance and the numbers as the provider wrote them.
"""

import itertools
import re
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.gemini.protocol import PART_FIELDS, to_camel_case
from tenuto.wire.rawjson import Fields, is_list, is_null, is_object

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPE = re.compile(r"\\(.)")
_KNOWN_FIELDS = ("jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "willContinue")
MAX_GAP = 1000
"""How far after its end a list may be written to; the elements between are null."""

Step = str | int


class _StringPieces(list[str]):
    """A string that may still grow."""


class PartialArgs:
    """The arguments of one call, starting with `args`, a JSON object."""

    def __init__(self, args: Raw | None = None) -> None:
        self._root: Any = args

    def add(self, values: Raw) -> list[str]:
        """Add a list of partial values; return the names of the fields that are not read.

        Raise `JsonError` for a value without a valid path.
        """
        items = [to_camel_case(jsonio.members(item), PART_FIELDS) for item in jsonio.elements(values)]
        for fields in items:
            self._add_value(fields)
        return [name for fields in items for name in fields if name not in _KNOWN_FIELDS]

    def text(self) -> str:
        """Return the arguments as JSON text; empty before the first one."""
        return "" if self._root is None else jsonio.as_text(jsonio.encode(_join_strings(self._root)))

    def _add_value(self, fields: Fields) -> None:
        steps = _parse_path(jsonio.text_of(fields.get("jsonPath")))
        self._root = container = _as_container(self._root, steps[0])
        for step, next_step in itertools.pairwise(steps):
            container[step] = _as_container(_get(container, step), next_step)
            container = container[step]
        last = steps[-1]
        string = fields.get("stringValue")
        if string is None:
            number, boolean = fields.get("numberValue"), fields.get("boolValue")
            value = boolean if is_null(number) else number
            container[last] = None if is_null(value) else value
            return
        old = _get(container, last)
        if not isinstance(old, _StringPieces):
            container[last] = old = _StringPieces()
        old.append(jsonio.text_of(string))


def _parse_path(path: str) -> list[Step]:
    if not path.startswith("$"):
        raise jsonio.JsonError(f"invalid path of an argument: {path[:80]!r}")
    offset, steps = 1, list[Step]()
    while offset < len(path):
        step = _STEP.match(path, offset)
        if step is None or len(steps) >= jsonio.MAX_DEPTH:
            raise jsonio.JsonError(f"invalid path of an argument: {path[:80]!r}")
        name, index, single, double = step.groups()
        steps.append(int(index) if index else name or _ESCAPE.sub(r"\1", single or double or ""))
        offset = step.end()
    if not steps or isinstance(steps[0], int):
        raise jsonio.JsonError(f"the path of an argument must start with a name: {path[:80]!r}")
    return steps


def _as_container(value: Any, step: Step) -> Any:
    """Return `value` as the object or list that `step` leads into; replace any other value by an empty one."""
    if isinstance(step, str):
        if isinstance(value, Raw) and is_object(value):
            return jsonio.members(value)
        return value if isinstance(value, dict) else {}
    if isinstance(value, Raw) and is_list(value):
        value = jsonio.elements(value)
    items = value if isinstance(value, list) and not isinstance(value, _StringPieces) else []
    if step > len(items) + MAX_GAP:
        raise jsonio.JsonError(f"an argument at index {step} of a list of {len(items)}")
    items.extend([None] * (step + 1 - len(items)))
    return items


def _get(container: Any, step: Step) -> Any:
    return container.get(step) if isinstance(step, str) else container[step]


def _join_strings(value: Any) -> Any:
    if isinstance(value, _StringPieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _join_strings(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_join_strings(inner) for inner in value]
    return value
