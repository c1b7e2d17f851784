"""Scripts: the turns of the simulated model, each with its steps. The same values in Python and in JSON.

A turn is one reply. `Think`, `Say`, `CallTool`, `Search`, `RunCode` and `SendImage` are its content, in order. `Refuse`,
`Pause` and `Stop` end it. `Compact` is the summary if the request asks for one. `HttpError` replaces it. `StreamError`, `Disconnect`, `Stall` and `SlowStream` are faults at their
position. `load` reads JSON:

    {"turns": [[{"do": "think", "text": "hm"}, {"do": "call", "name": "weather", "args": {"city": "Oslo"}}],
               [{"do": "say", "text": "12 degrees"}]], "then": "default"}
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

if TYPE_CHECKING:
    from tenuto.sim.dialects import TurnRequest

_Status: TypeAlias = Annotated[int, Meta(ge=200, le=599)]
_Time: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Pieces: TypeAlias = Annotated[int, Meta(ge=1)]
_BOM = "\ufeff".encode()  # some editors write it at the start of a file

DEMO = Path(__file__).with_name("demo.json")
"""The script of `make demo`: parallel calls, and replies on two providers."""
ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, as base64."""


class _Step(msgspec.Struct, frozen=True, tag_field="do", omit_defaults=True, forbid_unknown_fields=True):
    pass


class Think(_Step, frozen=True, tag="think"):
    """Reasoning. A list of texts is streamed in these pieces. `redacted` hides it."""

    text: str | list[str] = ""
    redacted: bool = False


class Cite(_Step, frozen=True, tag="cite"):
    """A source of the text: URL, title and quoted text."""

    url: str
    title: str = ""
    quote: str = ""


class Say(_Step, frozen=True, tag="say"):
    """Text. A list of texts is streamed in these pieces."""

    text: str | list[str] = ""
    cites: tuple[Cite, ...] = ()


class CallTool(_Step, frozen=True, tag="call"):
    """A tool call. `args` as a string is sent unchanged, valid JSON or not. Adjacent calls are parallel."""

    name: str
    args: dict[str, Any] | str = {}
    id: str = ""


class SearchResult(_Step, frozen=True, tag="found"):
    """A page that a search found."""

    url: str
    title: str = ""
    text: str = ""


class Search(_Step, frozen=True, tag="search"):
    """A search by a server tool, with its results."""

    query: str
    found: tuple[SearchResult, ...] = ()


class RunCode(_Step, frozen=True, tag="run"):
    """Code that a server tool runs, with its output."""

    code: str
    output: str = ""
    ok: bool = True


class SendImage(_Step, frozen=True, tag="picture"):
    """An image that the model generates, as base64; default: a small PNG."""

    data: str = ONE_PIXEL
    media_type: str = "image/png"


class Refuse(_Step, frozen=True, tag="refuse"):
    """The model declines, in the form of the provider: text, a refusal or an explanation."""

    text: str = "I can't help with that."
    category: str = ""


class Pause(_Step, frozen=True, tag="pause"):
    """The provider pauses the turn; the client continues it by sending it back."""


class Stop(_Step, frozen=True, tag="stop"):
    """The reply ends early: maximum length, a stop sequence, a content filter."""

    reason: Literal["length", "stop_sequence", "filter"] = "length"
    sequence: str = ""


class Compact(_Step, frozen=True, tag="compact"):
    """The summary if the request asks for a compaction; null: none could be made; empty: a list of what the user wrote.

    Without a compaction, the step and the faults directly before it are left out. They do not count as a turn.
    """

    text: str | None = ""


class HttpError(_Step, frozen=True, tag="deny"):
    """An HTTP error instead of a reply, for the first `times` attempts of this request (0: for every attempt).

    A turn of only HTTP errors does not count: the next attempt gets the next turn.
    """

    status: _Status = 429
    retry_after: _Time | None = None
    message: str = ""
    times: _Count = 1


class StreamError(_Step, frozen=True, tag="fail"):
    """An error event that ends the stream; without streaming an HTTP error. `times` as in `HttpError`."""

    status: _Status = 529
    message: str = ""
    times: _Count = 1


class Disconnect(_Step, frozen=True, tag="cut"):
    """The connection breaks here. `times` as in `HttpError`."""

    times: _Count = 1


class Stall(_Step, frozen=True, tag="stall"):
    """Nothing is sent for a number of seconds; None: nothing is ever sent again. `times` as in `HttpError`."""

    seconds: _Time | None = None
    times: _Count = 0


class SlowStream(_Step, frozen=True, tag="drip"):
    """From here on the reply is sent in pieces of `bytes` bytes, with a pause after each."""

    bytes: _Pieces = 1
    seconds: _Time = 0.0


Fault: TypeAlias = Disconnect | Stall | SlowStream
"""A fault of the connection, which the server performs at its position in the bytes."""
Step: TypeAlias = (
    Think | Say | CallTool | Search | RunCode | SendImage | Refuse | Pause | Stop | Compact | HttpError | StreamError | Fault
)  # fmt: skip
Turn: TypeAlias = tuple[Step, ...]
End: TypeAlias = Literal["error", "default", "repeat"]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Turns in order. With `when`, only for conversations whose system text or any user text contains it."""

    turns: tuple[Turn, ...] = ()
    when: str = ""
    then: End = "error"
    """After the last turn: an error, the default reply, or the turns again."""


Turns: TypeAlias = Iterable[Turn | Step | str | Script]
"""Turns as arguments: tuples of steps, single steps, texts; or scripts."""


def turn(*steps: Step | str) -> Turn:
    """Build one turn; a string becomes `Say`."""
    return tuple(Say(step) if isinstance(step, str) else step for step in steps)


_scripts = msgspec.json.Decoder(Script | list[Script])


def load(text: str | bytes) -> tuple[Script, ...]:
    """Read a script or a list of scripts from JSON. Raise `ValueError` with the position of an error."""
    try:
        scripts = _scripts.decode((text.encode() if isinstance(text, str) else text).removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise ValueError(f"invalid script: {exc}") from None
    return (scripts,) if isinstance(scripts, Script) else tuple(scripts)


def check_script(script: Script) -> Script:
    """Check a script that was built in Python like one from JSON. Raise `ValueError` as `load` does."""
    try:
        return msgspec.convert(msgspec.to_builtins(script), Script)
    except (msgspec.ValidationError, TypeError) as exc:
        raise ValueError(f"invalid script: {exc}") from None


def join_text(text: str | Iterable[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


class ScriptPlayer:
    """The scripts of one simulator, one for each `when`. A script without `when` is for all other conversations.

    A turn of only `HttpError` and `Compact` steps does not count: the client's next request gets the next turn.
    """

    def __init__(self, turns: Turns = ()) -> None:
        self._scripts: tuple[Script, ...] = ()
        self.put(turns)

    def put(self, turns: Turns, when: str = "", then: End = "error") -> None:
        """Set the script for conversations that contain `when`; no turns remove it. Raise `ValueError` if invalid."""
        entries = (turns,) if isinstance(turns, str | Script | Step) else tuple(turns)
        plain = [
            turn(*entry) if isinstance(entry, tuple | list) else turn(entry)
            for entry in entries
            if not isinstance(entry, Script)
        ]
        scripts = [entry for entry in entries if isinstance(entry, Script)]
        if plain or not scripts:
            scripts.append(Script(tuple(plain), when, then))
        for script in [check_script(script) for script in scripts]:
            others = tuple(other for other in self._scripts if other.when != script.when)
            self._scripts = (*others, _merge_errors(script)) if script.turns else others

    def clear(self) -> None:
        self._scripts = ()

    def turn(self, request: TurnRequest) -> Turn | None:
        """Return the turn for a request; None: the default reply. Raise `LookupError` after the end of a script."""
        script = self._find(request)
        if script is None:
            return None
        if request.compaction == "alone":  # some later replies may be known, but not compacted
            later = (split_compaction(turn)[0] for turn in script.turns[request.turn :])
            return next(filter(None, later), (Compact(),))
        index = request.turn % len(script.turns) if script.then == "repeat" else request.turn
        if index < len(script.turns):
            turn = script.turns[index]
            steps = turn if request.compaction else split_compaction(turn)[1]
            if steps or not turn:
                return steps
        if script.then == "default":
            return None
        about, turns = f" for {script.when!r}" if script.when else "", len(script.turns)
        raise LookupError(
            f"the script{about} has {turns} turn{'s' * (turns != 1)}, and this request contains {request.turn} "
            f"answer{'s' * (request.turn != 1)} already: there is no turn {request.turn + 1}"
        )

    def _find(self, request: TurnRequest) -> Script | None:
        texts = [request.system, *(message.text for message in request.messages if message.role == "user")]
        fitting = [script for script in self._scripts if any(script.when in text for text in texts)]
        return next((script for script in fitting if script.when), fitting[0] if fitting else None)


def split_compaction(turn: Turn) -> tuple[Turn, Turn]:
    """Return the first `compact` of a turn with the faults directly before it, and the other steps."""
    at = next((index for index, step in enumerate(turn) if isinstance(step, Compact)), -1)
    start = max(at, 0)
    while start and isinstance(turn[start - 1], HttpError | StreamError | Fault):
        start -= 1
    return turn[start : at + 1], turn[:start] + turn[at + 1 :]


def depends_on_attempt(turn: Turn) -> bool:
    """Tell whether a turn differs between attempts of the same request."""
    return any(getattr(step, "times", 0) for step in turn)


def steps_for_attempt(turn: Turn, attempts: int) -> Turn:
    """Return the steps of a turn for a request that was made `attempts` times before.

    A fault that ends an attempt uses up its attempts: after two errors and one disconnect, the fourth attempt succeeds.
    """
    steps: list[Step] = []
    for step in turn:
        times = getattr(step, "times", 0)
        if not times or attempts < times:
            steps.append(step)
        elif not isinstance(step, Stall) or step.seconds is None:
            attempts -= times
    return tuple(steps)


def _merge_errors(script: Script) -> Script:
    """Move turns of only `HttpError` and `Compact` steps into the turn after them."""
    turns: list[Turn] = []
    errors: Turn = ()
    for entry in script.turns:
        if entry and all(isinstance(step, HttpError | Compact) for step in entry):
            errors = (*errors, *entry)
        else:
            turns.append((*errors, *entry))
            errors = ()
    return replace(script, turns=(*turns, errors) if errors else tuple(turns))
