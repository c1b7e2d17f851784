"""A request of Gemini's dialect as its contents and parts, read without a copy, whichever way its fields are spelt.

Both hosts take camelCase and snake_case, and one thing where a list of things is meant. What has another shape is passed
over: it breaks no rule of the book.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from tenuto.audit.looking import Sent, once
from tenuto.core.rules import rule

__all__ = [
    "DATA",
    "Content",
    "Part",
    "Run",
    "camel",
    "contents",
    "escaped",
    "field",
    "has_three",
    "is_empty",
    "joined",
    "listed",
    "runs",
    "snake",
    "spelt",
    "turn_start",
]

Wire = dict[str, Any]

DATA = (
    *("text", "functionCall", "functionResponse", "inlineData", "fileData"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
"""The fields of which a part has one."""


@cache
def snake(name: str) -> str:
    """Spell a name of the book in snake_case."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


_READ = tuple((name, snake(name)) for name in ("thoughtSignature", "functionCall", "functionResponse"))
_EITHER = frozenset((*DATA, *map(snake, DATA)))
_SHOWN = frozenset(("text", "inlineData", "inline_data", "fileData", "file_data"))


def camel(name: str) -> str:
    """Spell a name of a body in camelCase."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def escaped(name: str) -> str:
    """Write a name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def field(holder: object, name: str) -> Any:
    """Return a field by its camelCase name, in either spelling; None if it is not there, or its holder is no object."""
    if not isinstance(holder, dict):
        return None
    found = holder.get(name)
    return found if found is not None else holder.get(snake(name))


def spelt(holder: object, name: str) -> str:
    """Return the name of a field as its holder spells it."""
    other = snake(name)
    return other if isinstance(holder, dict) and name not in holder and other in holder else name


def listed(value: object, at: str) -> Iterator[tuple[int, str, Wire]]:
    """Yield the objects of a list, with number and pointer; an object that stands alone is a list of one."""
    if isinstance(value, dict):
        yield 0, at, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, dict):
                yield number, f"{at}/{number}", item


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part: the number of its content and its own, its pointer, its fields.

    `token` is its signature, empty if there is none; `call` the call that it makes, `answer` the answer to one that it
    gives.
    """

    i: int
    j: int
    at: str
    fields: Wire
    token: str
    call: Wire | None
    answer: Wire | None

    def get(self, name: str) -> Any:
        """Return a field in either spelling."""
        return field(self.fields, name)

    @property
    def token_at(self) -> str:
        """The pointer to the signature."""
        return f"{self.at}/{spelt(self.fields, 'thoughtSignature')}"

    @property
    def text(self) -> str | None:
        """The text that is said, None if it is none or a thought."""
        found = self.fields.get("text")  # which is spelt one way only, as is a thought
        return found if isinstance(found, str) and self.fields.get("thought") is not True else None


def _part(i: int, j: int, at: str, fields: Wire) -> Part:
    token, call, answer = [
        found if (found := fields.get(name)) is not None else fields.get(other) for name, other in _READ
    ]
    return Part(
        i,
        j,
        at,
        fields,
        token if isinstance(token, str) else "",
        call if isinstance(call, dict) else None,
        answer if isinstance(answer, dict) else None,
    )


def is_empty(fields: Wire) -> bool:
    """Tell whether no data field of a part is set."""
    return all(value is None or name not in _EITHER for name, value in fields.items())


class Content(msgspec.Struct, frozen=True, gc=False):
    """A content. A role that is left out is the user's. `asks` tells whether the user says or shows something, which
    begins a turn; the answers of functions do not.
    """

    i: int
    at: str
    role: str
    fields: Wire
    parts: tuple[Part, ...]
    asks: bool


class Run(msgspec.Struct, frozen=True, gc=False):
    """Neighbouring contents of one role, which count as one; and which of their parts call and answer."""

    role: str
    contents: tuple[Content, ...]
    calls: tuple[Part, ...] = ()
    answers: tuple[Part, ...] = ()


@once
def contents(sent: Sent) -> list[Content]:
    """Read the contents."""
    found = []
    for i, at, held in listed(sent.body.get("contents"), "/contents"):
        below = f"{at}/{spelt(held, 'parts')}"
        parts = tuple([_part(i, j, there, fields) for j, there, fields in listed(held.get("parts"), below)])
        role = "user" if held.get("role") is None else str(held["role"])
        asks = role == "user" and any(_shows(part.fields) for part in parts)
        found.append(Content(i, at, role, held, parts, asks))
    return found


def _shows(fields: Wire) -> bool:
    return any(value is not None and name in _SHOWN for name, value in fields.items())


@once
def runs(sent: Sent) -> list[Run]:
    """Return the contents, neighbours of one role joined."""
    return joined(contents(sent))


def joined(said: list[Content]) -> list[Run]:
    """Join neighbours of one role."""
    found = []
    for role, group in groupby(said, key=attrgetter("role")):
        held = tuple(group)
        parts = [part for content in held for part in content.parts]
        calls = tuple([part for part in parts if part.call is not None]) if role == "model" else ()
        answers = tuple([part for part in parts if part.answer is not None]) if role == "user" else ()
        found.append(Run(role, held, calls, answers))
    return found


def turn_start(said: list[Content]) -> int:
    """Return the number of the content that the current turn begins with; -1 if nobody asked for anything."""
    return max((content.i for content in said if content.asks), default=-1)


def has_three(sent: Sent) -> bool:
    """Tell whether the model is a Gemini 3 or newer, whose signed parts are bound: for whom one rule of that holds."""
    return sent.concerns(rule("GEM-SIG-05"))
