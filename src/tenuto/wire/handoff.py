"""Adapt a transcript to whom it is sent.

A token is replayed only to its issuer. Messages that the target issued itself pass as they are; from the others, tokens,
reasoning and fields that only their own dialect knows are taken off, each with a `Loss`. Call ids are rewritten where
the target would refuse them, and every call has its answer. The transcript that was given is not changed: going back to
the first provider finds everything in place. When nothing is foreign, the messages come back as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    CodeExecution,
    CodeResult,
    GeminiMeta,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Message, Origin, ToolResult, ToolResults
from tenuto.core.target import Dialect, Loss, Target

__all__ = ["UNANSWERED", "Adapted", "adapt", "issued_by"]

UNANSWERED = "No result: the call was interrupted before it gave one."
METAS: dict[Dialect, tuple[type, ...]] = {
    "anthropic-messages": (AnthropicMeta, AnthropicRedactedMeta),
    "openai-responses": (OpenAiMeta,),
    "openai-chat": (ChatMeta,),
    "gemini": (GeminiMeta,),
}
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|preview(?:-\d{2}-\d{2,4})?)$")
_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Adapted(msgspec.Struct, frozen=True):
    """Messages that the target can take, and what did not come along."""

    messages: tuple[Message, ...]
    losses: tuple[Loss, ...] = ()


def adapt(messages: tuple[Message, ...], target: Target, *, keep_reasoning: bool = False) -> Adapted:
    """Make `messages` fit for `target`. `keep_reasoning` keeps foreign reasoning as text for the encoder to inline."""
    losses: list[Loss] = []
    foreign = _Foreign(losses, keep_reasoning=keep_reasoning)

    def own(message: Message, place: str) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        if message.origin is None:
            return _fitting(message, target.dialect, place, losses)
        return message if issued_by(message.origin, target) else foreign.message(message, place)

    adapted = [own(message, f"messages[{at}]") for at, message in enumerate(messages)]
    adapted = _renamed(adapted, target, losses)
    adapted = list(_Answers(losses).through(adapted))
    same = len(adapted) == len(messages) and all(a is b for a, b in zip(adapted, messages, strict=True))
    return Adapted(messages if same else tuple(adapted), tuple(losses))


def issued_by(origin: Origin, target: Target) -> bool:
    """Tell whether the target's provider, account and model family issued these tokens."""
    if origin.provider != target.provider.name or origin.dialect != target.dialect:
        return False
    if origin.account and target.account and origin.account != target.account:
        return False
    return not origin.model or not target.model or _same_model(origin.model, target)


def _same_model(model: str, target: Target) -> bool:
    if _undated(model) == _undated(target.model):
        return True
    pattern = target.traits.pattern
    return bool(pattern) and re.fullmatch(pattern, model.rpartition("/")[2]) is not None


def _undated(model: str) -> str:
    return _DATED.sub("", model.removeprefix("models/"))


# --- what is foreign --------------------------------------------------------------------------------------------------


def _fitting(message: AssistantMessage, dialect: Dialect, place: str, losses: list[Loss]) -> AssistantMessage:
    """Take off a hand-made message what cannot be the target's: tokens of another kind."""
    blocks = list(message.blocks)
    for at, block in enumerate(blocks):
        if block.meta is not None and not isinstance(block.meta, METAS[dialect]):
            losses.append(_token_loss(block, f"{place}.blocks[{at}]"))
            blocks[at] = msgspec.structs.replace(block, meta=None)
    return message if blocks == list(message.blocks) else msgspec.structs.replace(message, blocks=tuple(blocks))


def _token_loss(block: Block, place: str) -> Loss:
    issuer = type(block.meta).__name__
    return Loss("foreign-token", place, issuer, "going back to its issuer finds it in place")


class _Foreign:
    """Takes off what only its issuer can read. One rule per type of block; a type without one passes."""

    def __init__(self, losses: list[Loss], *, keep_reasoning: bool) -> None:
        self._losses = losses
        self._keep_reasoning = keep_reasoning
        self._rules: dict[type[Block], Callable[[Any, str], Block | None]] = {
            Text: self._text,
            Reasoning: self._reasoning,
            ToolUse: self._call,
            CodeExecution: self._left_out,
            CodeResult: self._left_out,
            ServerToolUse: self._left_out,
            ServerToolResult: self._left_out,
            Marker: self._left_out,
            Opaque: self._left_out,
        }

    def message(self, message: AssistantMessage, place: str) -> AssistantMessage:
        blocks = (self._block(block, f"{place}.blocks[{at}]") for at, block in enumerate(message.blocks))
        kept = tuple(block for block in blocks if block is not None)
        self._fields(message.extra, place)
        return msgspec.structs.replace(message, blocks=kept, extra="", origin=None)

    def _lose(self, rule: str, place: str, what: str) -> None:
        self._losses.append(Loss(rule, place, what, "going back to its issuer finds it in place"))

    def _fields(self, extra: str, place: str) -> None:
        fields = jsonio.members(extra) if extra else {}
        said = [name for name, value in fields.items() if bytes(value) not in (b"null", b"[]")]
        if said:
            self._lose("foreign-fields", place, ", ".join(said))

    def _block(self, block: Block, place: str) -> Block | None:
        if block.meta is not None:
            self._losses.append(_token_loss(block, place))
        self._fields(block.extra, place)
        rule = self._rules.get(type(block))
        plain = msgspec.structs.replace(block, meta=None, extra="") if block.meta or block.extra else block
        return rule(plain, place) if rule is not None else plain

    def _text(self, block: Text, place: str) -> Block | None:
        if block.citations:
            self._lose("foreign-citations", place, f"{len(block.citations)} citations")
            return msgspec.structs.replace(block, citations=())
        return block

    def _reasoning(self, block: Reasoning, place: str) -> Block | None:
        if self._keep_reasoning and block.text:
            return block
        self._lose("foreign-reasoning", place, f"{len(block.text)} characters of reasoning")
        return None

    def _call(self, block: ToolUse, place: str) -> Block | None:
        if block.kind == "custom":
            self._lose("custom-tool", place, "free text input became a string named `input`")
            block = msgspec.structs.replace(block, args=jsonio.as_text(jsonio.encode({"input": block.args})))
        elif block.kind != "function":
            self._lose("foreign-call", place, f"{block.kind} became a plain call")
        return msgspec.structs.replace(block, kind="function", minted=False, no_args=False, args=block.args or "{}")

    def _left_out(self, block: Block, place: str) -> Block | None:
        self._lose("foreign-block", place, f"{type(block).__name__} {getattr(block, 'kind', '')}".strip())
        return None


# --- ids --------------------------------------------------------------------------------------------------------------


def _renamed(messages: list[Message], target: Target, losses: list[Loss]) -> list[Message]:
    """Rewrite the call ids that the target would refuse, and later uses of an id that is taken; results follow."""
    takes = _id_rule(target)
    taken: set[str] = set()
    names: dict[str, list[str]] = {}
    renamed: list[Message] = []
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            names = _names(message, at, takes, taken, losses)
            renamed.append(_with_ids(message, names) if names else message)
        elif isinstance(message, ToolResults) and any(r.tool_use_id in names for r in message.results):
            renamed.append(_with_result_ids(message, names))
        else:
            renamed.append(message)
    return renamed


def _id_rule(target: Target) -> Callable[[str], bool]:
    """Tell which call ids the target takes: by their letters, by their length, or any."""
    row = target.provider
    limits = {"openai-chat": row.chat.call_id_max, "openai-responses": row.responses.call_id_max}
    limit = limits.get(target.dialect, 0)
    if target.dialect == "anthropic-messages":
        return lambda name: _SAFE_ID.fullmatch(name) is not None
    return lambda name: bool(name) and (not limit or len(name) <= limit)


def _with_result_ids(message: ToolResults, names: dict[str, list[str]]) -> ToolResults:
    left = {id: iter(given) for id, given in names.items()}
    results = (
        msgspec.structs.replace(r, tool_use_id=next(left[r.tool_use_id], r.tool_use_id)) if r.tool_use_id in left else r
        for r in message.results
    )
    return msgspec.structs.replace(message, results=tuple(results))


def _names(
    message: AssistantMessage, at: int, takes: Callable[[str], bool], taken: set[str], losses: list[Loss]
) -> dict[str, list[str]]:
    """Give each call of a turn an id that the target takes and no other call has; the n-th answer has the n-th id."""
    names: dict[str, list[str]] = {}
    for block in message.blocks:
        if not isinstance(block, ToolUse):
            continue
        given, new = names.setdefault(block.id, []), block.id
        if block.id in taken or not takes(block.id):
            named = "\x00".join((str(at), block.id, *(str(len(given)) for _ in given[:1])))
            new = f"call_{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
            losses.append(Loss("call-id-mapped", f"messages[{at}]", f"{block.id[:80]} became {new}"))
        given.append(new)
        taken.add(block.id)
    return {id: given for id, given in names.items() if any(new != id for new in given)}


def _with_ids(message: AssistantMessage, names: dict[str, list[str]]) -> AssistantMessage:
    left = {id: iter(given) for id, given in names.items()}
    blocks = (
        msgspec.structs.replace(b, id=next(left[b.id])) if isinstance(b, ToolUse) and b.id in left else b
        for b in message.blocks
    )
    return msgspec.structs.replace(message, blocks=tuple(blocks))


# --- answers ----------------------------------------------------------------------------------------------------------


class _Answers:
    """Puts each call's answer right behind it: those that stand later are moved up, missing ones are made.

    A call that its provider allows to be answered in a later turn stays open, and its answer stays where it is.
    """

    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._later: set[str] = set()

    def through(self, messages: list[Message]) -> Iterator[Message]:
        at = 0
        while at < len(messages):
            message, turn = messages[at], at
            at += 1
            if isinstance(message, ToolResults):
                yield from self._late(message, turn)
                continue
            yield message
            if isinstance(message, AssistantMessage) and message.has_tool_calls():
                end = at
                while end < len(messages) and not isinstance(messages[end], AssistantMessage):
                    end += 1
                yield from self._behind(message, messages[at:end], turn)
                at = end

    def _late(self, message: ToolResults, at: int) -> Iterator[Message]:
        kept = tuple(result for result in message.results if self._taken(result, {}, f"messages[{at}]"))
        if kept:
            yield message if len(kept) == len(message.results) else ToolResults(kept)

    def _taken(self, result: ToolResult, given: dict[str, ToolResult | None], place: str) -> bool:
        """Tell whether a result answers a call that waits for it; note it if so."""
        id = result.tool_use_id
        if id in given and given[id] is None:
            given[id] = result
            return True
        if id in self._later:
            self._later.discard(id)
            return True
        self._losses.append(Loss("orphan-result", place, id, "it answers no open call"))
        return False

    def _behind(self, call: AssistantMessage, after: list[Message], at: int) -> Iterator[Message]:
        given: dict[str, ToolResult | None] = dict.fromkeys(c.id for c in call.tool_calls())
        late: list[ToolResult] = []
        for offset, message in enumerate(after, at + 1):
            came = message.results if isinstance(message, ToolResults) else ()
            taken = [result for result in came if self._taken(result, given, f"messages[{offset}]")]
            late += [result for result in taken if result.tool_use_id not in given]
        open_ids = [id for id, answer in given.items() if answer is None]
        self._later |= {id for id in open_ids if _answered_later(call, id)}
        for id in open_ids:
            if id not in self._later:
                loss = Loss("open-call", f"messages[{at}]", id, "answer each call before the next question")
                self._losses.append(loss)
                given[id] = ToolResult(id, UNANSWERED, is_error=True)
        results = (*(answer for answer in given.values() if answer is not None), *late)
        first = after[0] if after else None
        if isinstance(first, ToolResults) and first.results == results:
            yield first
        elif results:
            yield ToolResults(results)
        yield from (message for message in after if not isinstance(message, ToolResults))


def _answered_later(message: AssistantMessage, id: str) -> bool:
    """Tell whether the provider itself allows this call's answer to come in a later turn."""
    for block in message.blocks:
        if isinstance(block, ToolUse) and block.id == id and block.extra:
            return bytes(jsonio.members(block.extra).get("async", b"")) == b"true"
    return False
