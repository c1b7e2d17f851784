"""The dialects of the simulator, and the values that all of them share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.core.provider import Dialect, Target
from tenuto.rules.issued_tokens import IssuedItem
from tenuto.sim.prompt_cache import PromptCache
from tenuto.sim.providers import SimulatedProvider
from tenuto.sim.script import Compact, Disconnect, Fault, Turn
from tenuto.sim.tokens import TokenSealer

_MODULES: dict[Dialect, str] = {
    "anthropic-messages": "tenuto.sim.anthropic",
    "openai-responses": "tenuto.sim.responses",
    "openai-chat": "tenuto.sim.chat",
    "gemini": "tenuto.sim.gemini",
}


_P = TypeVar("_P")
_encode = msgspec.json.Encoder().encode


class InvalidRequest(Exception):
    """A request that cannot be read: the message and the parameter or pointer, for the provider's error body."""

    def __init__(self, message: str, param: str = "", *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code


class ParsedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a reply."""

    provider: SimulatedProvider
    target: Target
    """The simulated target in the catalog: model traits, and the switches of the imitated provider."""
    model: str
    """The id of the real model; empty: no particular model."""
    requested_model: str
    """The model name of the request, which the reply repeats."""
    account: str
    """A digest of the API key."""
    headers: dict[str, str]
    body: dict[str, Any]
    digest: str
    """The digest of everything but the options of streaming."""
    method: str = ""
    """The method in the path, such as `streamGenerateContent`, or `count_tokens`."""
    stream: bool = False
    prompt_cache: PromptCache = msgspec.field(default_factory=PromptCache)

    @property
    def cache_scope(self) -> str:
        """What prompts that share cached prefixes have in common."""
        return f"{self.provider.name}/{self.requested_model} {self.account}"


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the client that the model may call."""

    name: str
    schema: dict[str, Any] = {}
    is_custom: bool = False
    """Whether its input is text, not JSON."""
    namespace: str = ""
    """The namespace of a tool of the Responses dialect; empty: none."""


class PastMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation."""

    role: Literal["system", "user", "assistant"]
    texts: tuple[str, ...] = ()
    """The text blocks."""
    calls: int = 0
    """The number of tool calls."""
    results: tuple[str, ...] = ()
    """The text of each tool result."""

    @property
    def text(self) -> str:
        return "".join(self.texts)


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a request, without its dialect."""

    request: ParsedRequest
    turn: int
    """The number of assistant turns in the conversation: the index in a script."""
    system: str = ""
    messages: tuple[PastMessage, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    tool_choice: str = "auto"
    """`auto`, `none`, `required` or the name of the tool to call."""
    parallel: bool = True
    thinks: bool = False
    shows_thinking: bool = True
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    """The schema of the answer; `{}`: any JSON; None: text."""
    choices: int = 1
    prompt_tokens: int = 0
    compaction: Literal["", "alone", "inline"] = ""
    """Whether the request asks for a compaction: `alone` without a reply, `inline` as a part of it."""
    summary: str = ""
    """The summary of an earlier compaction."""


class SimDialect(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect: its reader, its writer, and its differences from the others."""

    to_turn_request: Callable[[Any, ParsedRequest], TurnRequest]
    """Read a body that no rule refuses."""
    write: Callable[[Any, Turn, Any], list[bytes | Fault]]
    """Write a turn: one body, or the frames of a stream, with faults at their positions."""
    count: Callable[[Any], dict[str, Any]]
    """Answer a request for the number of tokens."""
    read_id: Callable[[TokenSealer, str], IssuedItem | None] = lambda sealer, id: None
    """Return the item or tool call that an id was issued for; None if this simulator did not issue it."""
    prefix_digests: Callable[[Any, int], tuple[str, ...]] = lambda body, turn: ()
    """Return the digests that stand for everything before a turn of the body, for tokens that are bound to it."""
    stream_in_body: bool = True
    """Whether a request asks for a stream with `stream` in its body; otherwise with its path."""
    array_without_sse: bool = False
    """Whether a stream is one JSON array unless the query has `alt=sse`."""


@cache
def load_dialect(name: Dialect) -> SimDialect:
    """Return a dialect; import it on first use."""
    dialect: SimDialect = importlib.import_module(_MODULES[name]).DIALECT
    return dialect


def encode_piece(value: Any) -> bytes:
    """Write JSON without the checks of `jsonio.encode`: a stream has a thousand pieces."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return jsonio.encode(value)


def cut_pieces(pieces: Iterable[_P], size: int) -> list[_P]:
    """Return the pieces of a text up to a number of characters; faults between them stay."""
    kept: list[Any] = []
    for piece in pieces:
        if not isinstance(piece, str):
            kept.append(piece)
            continue
        if size > 0:
            kept.append(piece[:size])
        size -= len(piece)
    return kept


def cut_text(text: str | list[str], size: int) -> str | list[str]:
    """Return the first characters of a text, in its pieces."""
    return text[:size] if isinstance(text, str) else cut_pieces(text, size)


def find_stop(before: str, text: str, stops: Iterable[str], start: int = 0) -> int | None:
    """Return the offset in both texts, from `start` on, of a stop sequence that ends in the second; None if none does."""
    whole = before + text
    offsets = [whole.find(stop, max(start, len(before) - len(stop) + 1)) for stop in stops if stop]
    return min((offset for offset in offsets if offset >= 0), default=None)


def add_faults(body: bytes, steps: Iterable[object]) -> list[bytes | Fault]:
    """Return a body after the delays among the steps; only half of it if one of them is a disconnect."""
    faults: list[bytes | Fault] = [step for step in steps if isinstance(step, Fault)]
    delays = [fault for fault in faults if not isinstance(fault, Disconnect)]
    cut = [fault for fault in faults if isinstance(fault, Disconnect)][:1]
    return [*delays, body[: len(body) // 2], *cut] if cut else [*delays, body]


def summary_of(step: Compact, request: TurnRequest) -> str:
    """Return the text of the step, or a list of what the user wrote."""
    if step.text:
        return step.text
    start = request.summary or "The user wrote:"
    messages = (" ".join(message.text.split())[:80] for message in request.messages if message.role == "user")
    lines = dict.fromkeys(f"- {text}" for text in messages if text and text not in start)
    return "\n".join([start, *lines])
