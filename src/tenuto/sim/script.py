"""What the simulated model does: steps, turns of steps, scripts of turns. In Python or as JSON, the same values.

A turn is one answer. Steps that are said (`Think`, `Say`, `Call`, `Search`, `RunCode`, `Picture`) make its content, in
their order; `Refuse`, `Pause` and `Stop` end it in a way of their own; `Deny` stands for a whole turn; `Fail`, `Cut`,
`Stall` and `Drip` spoil it where they stand. `load` reads JSON:

    {"turns": [[{"do": "think", "text": "hm"}, {"do": "call", "name": "weather", "args": {"city": "Oslo"}}],
               [{"do": "say", "text": "12 degrees"}]]}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

__all__ = [
    "Call",
    "Cite",
    "Cut",
    "Deny",
    "Drip",
    "Fail",
    "Fault",
    "Found",
    "Pause",
    "Picture",
    "Refuse",
    "RunCode",
    "Say",
    "Script",
    "Search",
    "Stall",
    "Step",
    "Stop",
    "Think",
    "Turn",
    "checked",
    "load",
    "texts",
    "turn",
]


_Status: TypeAlias = Annotated[int, Meta(ge=200, le=599)]
_Time: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Pieces: TypeAlias = Annotated[int, Meta(ge=1)]
_BOM = "\ufeff".encode()  # what some editors put in front


class _Step(msgspec.Struct, frozen=True, tag_field="do", omit_defaults=True, forbid_unknown_fields=True):
    pass


class Think(_Step, frozen=True, tag="think"):
    """Reasoning. A list of texts is streamed in exactly these pieces. `redacted` hides it, as a provider may."""

    text: str | list[str] = ""
    redacted: bool = False


class Cite(_Step, frozen=True, tag="cite"):
    """A source for the text of the `Say` it stands in: an address with its title, and the words quoted."""

    url: str
    title: str = ""
    quote: str = ""


class Say(_Step, frozen=True, tag="say"):
    """Text. A list of texts is streamed in exactly these pieces."""

    text: str | list[str] = ""
    cites: tuple[Cite, ...] = ()


class Call(_Step, frozen=True, tag="call"):
    """A call of a tool. `args` as a string is sent as it stands, whether it is JSON or not. Neighbours are parallel."""

    name: str
    args: dict[str, Any] | str = {}
    id: str = ""


class Found(_Step, frozen=True, tag="found"):
    """Something that a search found."""

    url: str
    title: str = ""
    text: str = ""


class Search(_Step, frozen=True, tag="search"):
    """A search on the provider's side, with what it found."""

    query: str
    found: tuple[Found, ...] = ()


class RunCode(_Step, frozen=True, tag="run"):
    """Code run on the provider's side, with what it printed."""

    code: str
    output: str = ""
    ok: bool = True


class Picture(_Step, frozen=True, tag="picture"):
    """A picture that the model drew, as base64; a small PNG if none is given."""

    data: str = ""
    media_type: str = "image/png"


class Refuse(_Step, frozen=True, tag="refuse"):
    """The model declines; what it says about it is text, a refusal or an explanation, as the provider puts it."""

    text: str = "I can't help with that."
    category: str = ""


class Pause(_Step, frozen=True, tag="pause"):
    """The turn is paused, to be continued by sending it back."""


class Stop(_Step, frozen=True, tag="stop"):
    """The answer ends here, for another reason than being done: its length, a stop sequence, a filter."""

    reason: Literal["length", "stop_sequence", "filter"] = "length"
    sequence: str = ""


class Deny(_Step, frozen=True, tag="deny"):
    """Instead of an answer: an HTTP error, for the first `times` that this very request is made (0: each time)."""

    status: _Status = 429
    retry_after: _Time | None = None
    message: str = ""
    times: _Count = 1


class Fail(_Step, frozen=True, tag="fail"):
    """An error inside the stream, which then ends. Without streaming it is an HTTP error. `times` as in `Deny`."""

    status: _Status = 529
    message: str = ""
    times: _Count = 1


class Cut(_Step, frozen=True, tag="cut"):
    """The line breaks here. `times` as in `Deny`."""

    times: _Count = 1


class Stall(_Step, frozen=True, tag="stall"):
    """Nothing comes for so many seconds; None: nothing ever comes. `times` as in `Deny`."""

    seconds: _Time | None = None
    times: _Count = 0


class Drip(_Step, frozen=True, tag="drip"):
    """From here on the answer comes in pieces of so many bytes, with a pause between them."""

    bytes: _Pieces = 1
    seconds: _Time = 0.0


Fault: TypeAlias = Cut | Stall | Drip
"""What the server itself acts out, wherever a writer puts it among the bytes."""
Step: TypeAlias = (
    Think | Say | Call | Search | RunCode | Picture | Refuse | Pause | Stop | Deny | Fail | Cut | Stall | Drip
)
Turn: TypeAlias = tuple[Step, ...]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Turns in their order. With `when`, only for conversations whose system text or first message contains it."""

    turns: tuple[Turn, ...] = ()
    when: str = ""


def turn(*steps: Step | str) -> Turn:
    """Make one turn; a string is said."""
    return tuple(Say(step) if isinstance(step, str) else step for step in steps)


_scripts = msgspec.json.Decoder(Script | list[Script])


def load(text: str | bytes) -> tuple[Script, ...]:
    """Read one script, or a list of them, from JSON. Raise `ValueError` that says where it does not fit."""
    try:
        found = _scripts.decode((text.encode() if isinstance(text, str) else text).removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise ValueError(f"not a script: {exc}") from None
    return (found,) if isinstance(found, Script) else tuple(found)


def checked(script: Script) -> Script:
    """Return a script that was made in Python, held to what one in JSON is held to. Raise `ValueError` as `load` does."""
    try:
        return msgspec.convert(msgspec.to_builtins(script), Script)
    except (msgspec.ValidationError, TypeError) as exc:
        raise ValueError(f"not a script: {exc}") from None


def texts(piece: str | Iterable[str]) -> str:
    """Return a text, whether or not it is in pieces."""
    return piece if isinstance(piece, str) else "".join(piece)
