"""What was given: the replies of the conversation, by their signatures and by what they say."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from tenuto.audit.gemini_parts import Content, field, snake
from tenuto.audit.looking import Sent, once
from tenuto.audit.scope import of_each
from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Origin

__all__ = ["Given", "Ledger", "is_stand_in", "ledger", "part_data", "plain"]

_STAND_INS = frozenset(
    (
        *("skip_thought_signature_validator", "context_engineering_is_the_way_to_go"),
        *("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv"),
    )
)
"""The documented words that switch the validation off, as they stand and as base64."""
Data: TypeAlias = tuple[Any, ...]
Said: TypeAlias = tuple[str, tuple[str, ...]]
_GENERATION = re.compile(r"gemini-(\d+)")
_NOTHING: Said = ("", ())
_UNKNOWN: Data = ()
"""What cannot be compared."""


class Given(msgspec.Struct, frozen=True):
    """A signed part of a reply: which reply, which part of it, what it held, and whether somebody else gave it."""

    reply: int
    block: int
    data: Data
    foreign: bool


def plain(token: str) -> str:
    """Write a token in one of the two alphabets of base64, without padding: both stand for the same bytes."""
    return token.replace("-", "+").replace("_", "/").rstrip("=")


def is_stand_in(token: str) -> bool:
    """Tell whether a signature is one of the words that switch the validation off."""
    return token.rstrip("=") in _STAND_INS


class Ledger:
    """The replies that were given, read once."""

    def __init__(self, sent: Sent) -> None:
        self.tokens: dict[str, list[Given]] = {}
        self._own: list[tuple[AssistantMessage, set[str]]] = []
        foreign = of_each(sent, lambda origin: _is_foreign(origin, sent))
        for number, message in enumerate(sent.given):
            self._take(number, message, foreign=foreign[number])

    def _take(self, number: int, message: AssistantMessage, *, foreign: bool) -> None:
        own: set[str] = set()
        for at, block in enumerate(message.blocks):
            token, data = _signed(block)
            if token:
                token = plain(token)
                own.add(token)
                self.tokens.setdefault(token, []).append(Given(number, at, data, foreign))
        if own and not foreign:
            self._own.append((message, own))

    @cached_property
    def _said(self) -> dict[Said, list[set[str]]]:
        """The signatures of each reply, by what it says; only some requests make one look for it."""
        found: dict[Said, list[set[str]]] = {}
        for message, own in self._own:
            found.setdefault(_said(message), []).append(own)
        return found

    def lost(self, content: Content) -> set[str]:
        """Return the signatures that came with what this content says, and are not in it.

        Where the same was said more than once, it has to have those of one of them.
        """
        said = _spoken(content)
        came = self._said.get(said) if said != _NOTHING else None
        if came is None:
            return set()
        here = {plain(part.token) for part in content.parts}
        return min((tokens - here for tokens in came), key=len)


@once
def ledger(sent: Sent) -> Ledger:
    """Read the replies that were given."""
    return Ledger(sent)


def _is_foreign(origin: Origin, sent: Sent) -> bool:
    """Tell whether somebody else gave it: another host, account or generation of models. What is not known is not held
    against it.
    """
    target = sent.target
    if origin.provider != target.provider.name or origin.dialect != target.dialect:
        return True
    if origin.account and target.account and origin.account != target.account:
        return True
    if target.provider.plays and origin.model.partition("/")[0] != sent.row:
        return True
    theirs, ours = _GENERATION.search(origin.model), _GENERATION.search(sent.model)
    return theirs is not None and ours is not None and theirs[1] != ours[1]


# --- what parts hold, as far as it can be compared --------------------------------------------------------------------


def part_data(fields: dict[str, Any]) -> Data:
    """Return what a part of a body holds. Ids are not bound, and arguments are the same in any order and spelling."""
    for name, keys in _KEYS.items() if not _NAMES.isdisjoint(fields) else ():
        held = field(fields, name)
        if isinstance(held, dict):
            return (name, *(_settled(field(held, key)) for key in keys))
    text = field(fields, "text")
    return ("text", text if isinstance(text, str) else "")


_KEYS = {
    "functionCall": ("name", "args"),
    "inlineData": ("data",),
    "fileData": ("fileUri",),
    "executableCode": ("code",),
    "codeExecutionResult": ("output",),
    "toolCall": ("toolType", "args"),
    "toolResponse": ("response",),
}
_NAMES = frozenset((*_KEYS, *map(snake, _KEYS)))


def _settled(value: object) -> object:
    """Nothing, an empty text and an empty object are the same: a field that is left out."""
    return None if value in ("", {}) else value


def _signed(block: Block) -> tuple[str, Data]:
    """Return the signature of a block and what it signs."""
    if type(block) is Opaque:
        fields = _parsed(block.raw)
        token = field(fields, "thoughtSignature")
        return (token, part_data(fields)) if isinstance(token, str) and isinstance(fields, dict) else ("", _UNKNOWN)
    return (block.meta.thought_signature, _data(block)) if type(block.meta) is GeminiMeta else ("", _UNKNOWN)


def _data(block: Block) -> Data:
    match block:
        case ToolUse():
            args = _parsed(block.args)
            return ("functionCall", block.name, _settled(args)) if args is None or isinstance(args, dict) else _UNKNOWN
        case Text() | Reasoning() | Refusal():
            return ("text", block.text)
        case Image() | Audio() | Document() if block.data:
            return ("inlineData", block.data)
        case Image() | Audio() | Document():
            return ("fileData", _settled(block.url or block.file_id))
        case CodeExecution():
            return ("executableCode", _settled(block.code))
        case CodeResult():
            return ("codeExecutionResult", _settled(block.output))
        case ServerToolUse():
            return ("toolCall", _settled(block.name), _settled(_parsed(block.args)))
        case ServerToolResult():
            return ("toolResponse", _settled(_parsed(block.content)))
        case _:
            return _UNKNOWN


def _parsed(text: str) -> Any:
    """Return the value; the text itself if it is no JSON."""
    try:
        return jsonio.parse(text) if text else None
    except jsonio.JsonError:
        return text


# --- what is said, to find a reply again ------------------------------------------------------------------------------


def _said(message: AssistantMessage) -> Said:
    calls = [_call(block.name, _parsed(block.args)) for block in message.blocks if type(block) is ToolUse]
    return (str(message), tuple(calls))


def _spoken(content: Content) -> Said:
    calls = [part.call for part in content.parts if part.call is not None]
    return (
        "".join([part.text or "" for part in content.parts]),
        tuple([_call(call.get("name"), call.get("args")) for call in calls]),
    )


def _call(name: object, args: object) -> str:
    told = sorted([(key, repr(value)) for key, value in args.items()]) if isinstance(args, dict) else args
    return f"{name} {told or []!r}"
