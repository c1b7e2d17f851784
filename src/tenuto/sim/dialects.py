"""The dialects of the simulator, and the values that all of them share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, get_args

import msgspec

from tenuto.core.provider import Dialect, Target
from tenuto.rules.issued_tokens import IssuedItem, StoredReply
from tenuto.sim import models_list
from tenuto.sim.prompt_cache import PromptCache
from tenuto.sim.providers import SimulatedProvider
from tenuto.sim.script import Fault, Turn
from tenuto.sim.tokens import TokenSealer

_MODULES: dict[Dialect, str] = {
    "anthropic-messages": "tenuto.sim.anthropic_writer",
    "openai-responses": "tenuto.sim.responses_writer",
    "openai-chat": "tenuto.sim.chat_writer",
    "gemini": "tenuto.sim.gemini_writer",
}


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
    sealer: TokenSealer
    method: str = ""
    """The method in the path, such as `streamGenerateContent`, or `count_tokens`."""
    stream: bool = False
    stored: Callable[[str], StoredReply | None] = lambda id: None
    """Find a stored reply by its id, or by the id of an item in it."""
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
        """The text blocks, joined."""
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
    count: Callable[[TurnRequest], dict[str, Any]]
    """Answer a request for the number of tokens."""
    read_id: Callable[[TokenSealer, str], IssuedItem | None] = lambda sealer, id: None
    """Return the item or tool call that an id was issued for; None if this simulator did not issue it."""
    prefix_digests: Callable[[Any, int], tuple[str, ...]] = lambda body, turn: ()
    """Return the digests that stand for everything before a turn of the body, for tokens that are bound to it."""
    stream_in_body: bool = True
    """Whether a request asks for a stream with `stream` in its body; otherwise with its path."""
    array_without_sse: bool = False
    """Whether a stream is one JSON array unless the query has `alt=sse`."""
    listed_dialects: tuple[Dialect, ...] = get_args(Dialect)
    """The dialects whose models the list shows."""
    model_entry: Callable[[str], dict[str, Any]] = models_list.openai_entry
    model_list: Callable[[list[dict[str, Any]]], dict[str, Any]] = models_list.openai_list


@cache
def load_dialect(name: Dialect) -> SimDialect:
    """Return a dialect; import it on first use."""
    dialect: SimDialect = importlib.import_module(_MODULES[name]).DIALECT
    return dialect
