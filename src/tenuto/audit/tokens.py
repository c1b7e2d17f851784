"""The tokens, items and calls of a transcript's replies, as the rules ask for them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from tenuto.core import blocks, jsonio
from tenuto.core.blocks import Block, Marker, Opaque, Reasoning, ServerToolResult, ServerToolUse, Text, ToolUse
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target
from tenuto.rules.anthropic_body import REASONING, MessagesBody, block_form, tool_changes_digest
from tenuto.rules.body import Fields, RequestBody, objects, text
from tenuto.rules.chat_hosts import detail_content, detail_token
from tenuto.rules.gemini_turns import normalize_signature, part_content, turn_text
from tenuto.rules.issued_tokens import (
    CompactedMessages,
    IssuedItem,
    IssuedToken,
    IssuedTokens,
    content_digest,
    token_of,
)
from tenuto.wire.prefix_binding import stale_thoughts
from tenuto.wire.responses.items import group_by_item, item_type_for
from tenuto.wire.responses.protocol import MARKERS
from tenuto.wire.token_scope import issuer_check


class TranscriptTokens(IssuedTokens):
    """The tokens and items that replies issued. A reply is known by its number."""

    is_known = True

    def __init__(self, replies: tuple[AssistantMessage, ...], target: Target, foreign: tuple[bool, ...]) -> None:
        self.replies = replies
        self.target = target
        self.foreign = foreign
        """For each reply whether another provider, host or account gave it."""

    def blocks(self) -> Iterator[tuple[int, int, Block]]:
        """Yield each block with the numbers of its reply and of itself."""
        for reply, message in enumerate(self.replies):
            for index, block in enumerate(message.blocks):
                yield reply, index, block

    @cached_property
    def _tokens(self) -> dict[str, IssuedToken]:
        return {}

    @cached_property
    def _items(self) -> dict[str, IssuedItem]:
        return {}

    def find(self, token: str) -> IssuedToken | None:
        return self._tokens.get(token)

    def item(self, id: str) -> IssuedItem | None:
        return self._items.get(id)


def parse_value(raw: str | bytes) -> Any:
    """Return the JSON value; the text itself if it is not JSON, None if it is empty."""
    try:
        return msgspec.json.decode(raw) if raw else None  # four times as fast as jsonio
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return raw if jsonio.problem(raw) else jsonio.parse(raw)


@lru_cache(64)  # most calls have the same fields
def parse_fields(raw: str) -> Fields:
    """Return the fields of a JSON object; nothing if it is not one."""
    value = parse_value(raw)
    return value if isinstance(value, dict) else {}


@lru_cache(64)
def _set_fields(raw: str) -> tuple[str, ...]:
    """Return the names of the fields of a JSON object that are not null."""
    return tuple(name for name, value in parse_fields(raw).items() if value is not None)


_SEALED = ("encrypted_content", "encrypted_index", "encrypted_stdout")
_UNKNOWN_PREFIX = "unknown"
_CALLS = (ToolUse, ServerToolUse)
_METAS = (blocks.AnthropicMeta, blocks.AnthropicRedactedMeta)


class MessagesTokens(TranscriptTokens):
    def __init__(self, replies: tuple[AssistantMessage, ...], target: Target, foreign: tuple[bool, ...]) -> None:
        is_issuer = issuer_check(target)  # a model reads the tokens of some models only
        foreign = tuple([reply.origin is not None and not is_issuer(reply.origin) for reply in replies])
        super().__init__(replies, target, foreign)
        self._stale: set[int] | None = None
        self._changed: int | None = None

    def find(self, token: str) -> IssuedToken | None:
        if token and token in self._positions:
            return self._issued(*self._positions[token])
        return self._tokens.get(token)

    def item(self, id: str) -> IssuedItem | None:
        """Find the reply of a call by its id, or a reply by its text."""
        if not id or id not in self._calls:
            return None
        reply, _ = self._calls[id]
        message = self.replies[reply]
        reasoning = [isinstance(block, Reasoning) and _form(block) is not None for block in message.blocks]
        return IssuedItem(
            kind="tool_use", reply=str(reply), foreign=self.foreign[reply], has_reasoning=any(reasoning),
            started_with_reasoning=reasoning[0] if any(reasoning) else None,
            paused=message.paused and reply == len(self.replies) - 1,
        )  # fmt: skip

    def issued_fields(self, id: str) -> tuple[str, ...]:
        """Return the fields of a call and its reply, or of an unknown block that a reply had: `block:` and its type."""
        if not id or id not in self._calls:
            return ()
        reply, block = self._calls[id]
        if self.foreign[reply] and not isinstance(block, Opaque):
            return ()
        container = ("container",) if reply in self._in_containers else ()
        raw = block.extra if isinstance(block, ToolUse) else block.raw if isinstance(block, Opaque) else ""
        return (*_set_fields(raw), *container) if raw else container

    @cached_property
    def _in_containers(self) -> set[int]:
        """The replies that ran code in a container."""
        extras = enumerate(message.extra for message in self.replies)
        return {reply for reply, raw in extras if '"container"' in raw and parse_fields(raw).get("container")}

    def has_prefix(self, token: IssuedToken, body: RequestBody, turn: int) -> bool:
        """Compare the digest in the origin of the reply; without one, compare the earlier turns with their replies."""
        assert isinstance(body, MessagesBody)
        if token.prefix != _UNKNOWN_PREFIX:
            if self._stale is None:
                try:
                    written = jsonio.encode(body.body)
                except jsonio.JsonError:  # a number that JSON does not have
                    written = b"{}"
                self._stale = {reply for reply, _ in stale_thoughts(self.replies, written, self.target)}
            return int(token.reply) not in self._stale
        if self._changed is None:
            self._changed = self._find_changed_turn(body)
        return turn <= self._changed

    @cached_property
    def _positions(self) -> dict[str, tuple[int, int]]:
        """Reply and block index of each signature and each redacted block."""
        positions: dict[str, tuple[int, int]] = {}
        for reply, index, block in self.blocks():
            if isinstance(block.meta, _METAS):
                positions.setdefault(token_of(block.meta), (reply, index))
        return positions

    @cached_property
    def _calls(self) -> dict[str, tuple[int, Block | None]]:
        calls: dict[str, tuple[int, Block | None]] = {}
        for reply, message in enumerate(self.replies):
            calls[str(message)] = reply, None
            for block in message.blocks:
                if isinstance(block, _CALLS):
                    calls[block.id] = reply, block
                elif isinstance(block, Opaque):
                    calls[f"block:{parse_fields(block.raw).get('type')}"] = reply, block
        return calls

    @cached_property
    def _tokens(self) -> dict[str, IssuedToken]:
        """The encrypted fields of server tool results and citations, each issued for a URL or a call id."""
        tokens: dict[str, IssuedToken] = {}
        values: list[tuple[str, Any]] = []
        for _, _, block in self.blocks():
            if isinstance(block, ServerToolResult):
                values.append((block.tool_use_id, parse_value(block.content)))
            elif isinstance(block, Text):
                values += [("", parse_value(citation.raw)) for citation in block.citations]
            elif isinstance(block, Marker) and "encrypted_content" in block.extra:
                token = text(parse_fields(block.extra), "encrypted_content")
                tokens[token] = IssuedToken(kind=block.kind, contents=(content_digest(block.text or ""),))
        for call_id, value in values:
            for item in _objects_in(value):
                for kind in _SEALED:
                    subject = call_id if kind == "encrypted_stdout" else item.get("url")
                    contents = (content_digest(subject),) if isinstance(subject, str) else ()
                    tokens[text(item, kind)] = IssuedToken(kind=kind, contents=contents)
        tokens.pop("", None)
        return tokens

    def _issued(self, reply: int, index: int) -> IssuedToken:
        message = self.replies[reply]
        block, origin, foreign = message.blocks[index], message.origin, self.foreign[reply]
        value, compacted = block.text if isinstance(block, Reasoning) else "", None
        is_redacted = isinstance(block.meta, blocks.AnthropicRedactedMeta)
        kind = "redacted_thinking" if is_redacted else "thinking"
        if isinstance(block, Marker):
            changes = parse_fields(block.extra).get("tool_changes")
            value, kind = block.text or "", block.kind
            compacted = CompactedMessages(tool_changes=tool_changes_digest(changes))
        before = [form for other in message.blocks[:index] if (form := _form(other)) is not None]
        provider = platform = account = model = prefix = ""
        if origin is not None:
            imitated = origin.provider == self.target.provider.name and self.target.provider.plays
            provider = origin.model.partition("/")[0] if imitated else origin.provider
            platform, account, prefix = origin.platform, origin.account, origin.prefix
            model = origin.model.rpartition("/")[2] if foreign else ""
        return IssuedToken(
            kind=kind, provider=provider, platform=platform, account=account, model=model, reply=str(reply),
            index=len(before), parts=None if is_redacted else (value,), length=len(value),
            before=content_digest(*[part for form in before for part in form]),
            reasoning_before=sum([form[0] in REASONING for form in before]), offset=-1,
            prefix="" if foreign else prefix or _UNKNOWN_PREFIX, compacted=compacted,
        )  # fmt: skip

    def _find_changed_turn(self, body: MessagesBody) -> int:
        """Return the number of the first turn that is not as its replies were; the number of turns if all are."""
        keys: dict[str, list[int]] = defaultdict(list)
        for reply, message in enumerate(self.replies):
            ids = [block.id for block in message.blocks if isinstance(block, _CALLS)]
            for key in (*ids, str(message)):
                keys[key].append(reply)
        for token, (reply, _) in self._positions.items():
            keys[token].append(reply)
        earliest = 0
        for number, turn in enumerate(body.turns):
            if turn.role != "assistant":
                continue
            forms = [form for block in turn.blocks if (form := block_form(block.raw)) is not None]
            sent = [key for block in turn.blocks if (key := block.token or text(block.raw, "id"))]
            sent = sent or ["".join(block.text for block in turn.of("text"))]
            known = [keys[key] for key in sent if key in keys]
            found = sorted({replies[min(bisect_left(replies, earliest), len(replies) - 1)] for replies in known})
            earliest = found[-1] if found else earliest
            issued = [form for reply in found for block in self.replies[reply].blocks if (form := _form(block))]
            is_own = not any(self.foreign[reply] or self.replies[reply].incomplete for reply in found)
            starts = range(len(forms) - len(issued) + 1)
            if found and is_own and not any(forms[start : start + len(issued)] == issued for start in starts):
                return number
        return len(body.turns)


def _form(block: Block) -> tuple[str, str] | None:
    """Return what `block_form` returns for the encoded block; None for a block that may be left out."""
    match block:
        case Text(text=value):
            return ("text", value) if value.strip() else None
        case Reasoning(meta=blocks.AnthropicMeta(), text=value):
            return "thinking", value
        case Reasoning(meta=blocks.AnthropicRedactedMeta(data=data)):
            return "redacted_thinking", data
        case ToolUse(id=id):
            return "tool_use", id
        case ServerToolUse(id=id, kind=kind):
            return kind, id
        case ServerToolResult(tool_use_id=id, kind=kind):
            return kind, id
        case Marker(kind=kind, text=value):
            return (kind, value or "") if kind != "compaction" else None
        case Opaque(raw=raw):
            return block_form(parse_fields(raw))
        case _:
            return None


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


_FIELDS = ("phase", "namespace", "async")
"""The fields that a rule asks for."""
_HAS_FIELD = re.compile(f'"(?:{"|".join(_FIELDS)})"')


class ResponsesTokens(TranscriptTokens):
    """Items by their ids and call ids, encrypted contents by their text."""

    @cached_property
    def _items(self) -> dict[str, IssuedItem]:
        items: dict[str, IssuedItem] = {}
        for number, message in enumerate(self.replies):
            starts = [group[0] for group in group_by_item(message.blocks) if _is_item(group[0])]
            kinds = [_kind(block) for block in starts]
            reasoning = ""
            for index, block in enumerate(starts):
                item = IssuedItem(
                    kind=kinds[index], reply=str(number), index=index,
                    after_reasoning=reasoning if kinds[index] != "reasoning" or kinds[index - 1] == "reasoning" else "",
                    next_kind=kinds[index + 1] if index + 1 < len(kinds) else "", foreign=self.foreign[number],
                    fields=_fields(block),
                )  # fmt: skip
                id = _item_id(block)
                call_id = block.id if isinstance(block, ToolUse) and not block.id_generated else ""
                items[id] = items[call_id] = item
                if kinds[index] == "reasoning":
                    reasoning = id
        items.pop("", None)
        return items

    @cached_property
    def _tokens(self) -> dict[str, IssuedToken]:
        return {
            block.meta.encrypted_content: IssuedToken(kind=_kind(block), id=block.meta.id, foreign=self.foreign[reply])
            for reply, _, block in self.blocks()
            if isinstance(block.meta, blocks.OpenAiMeta) and block.meta.encrypted_content
        }


_NOT_ITEMS = (blocks.Audio, blocks.Document, blocks.CodeExecution, blocks.CodeResult)


def _is_item(block: Block) -> bool:
    """Whether a block was an item or starts one: media belong to no item, an empty text alone is none."""
    if isinstance(block, Text) and block.meta is None:
        return bool(block.text or block.extra)
    return not isinstance(block, _NOT_ITEMS)


def _kind(block: Block) -> str:
    match block:
        case Reasoning():
            return "reasoning"
        case ToolUse():
            return item_type_for(block)
        case ServerToolUse() | ServerToolResult():
            return block.kind
        case blocks.Image():
            return "image_generation_call"
        case Marker() if block.kind in MARKERS:
            return block.kind
        case Opaque() if block.meta is None:
            return text(parse_fields(block.raw), "type")
        case _:
            return "message"


def _item_id(block: Block) -> str:
    if isinstance(block.meta, blocks.OpenAiMeta) and block.meta.id:
        return block.meta.id
    if isinstance(block, ServerToolUse):
        return block.id
    return text(parse_fields(block.raw), "id") if isinstance(block, Opaque) and block.meta is None else ""


def _fields(block: Block) -> tuple[str, ...]:
    """Return which of the fields that rules ask for the item had."""
    if not _HAS_FIELD.search(block.extra):
        return ()
    fields = parse_fields(block.extra)
    item = fields.get("item", fields)
    return tuple(name for name in _FIELDS if isinstance(item, dict) and item.get(name))


_NO_REPLY = IssuedItem(kind="message", started_with_reasoning=False)


class ChatTokens(TranscriptTokens):
    """OpenRouter's reasoning details and Mistral's signed thinking.

    A reply is found by its calls; without calls by the digest of its text. A message of no reply had no reasoning.
    """

    def item(self, id: str) -> IssuedItem | None:
        return self._items.get(id, _NO_REPLY)

    @cached_property
    def _tokens(self) -> dict[str, IssuedToken]:
        tokens: dict[str, IssuedToken] = {}
        for number, (reply, foreign) in enumerate(zip(self.replies, self.foreign, strict=True)):
            reasoning = _reasoning(reply)
            if foreign or not reasoning:
                continue
            signed = [("thinking", meta.signature) for _, meta in reasoning]
            details = [detail for _, meta in reasoning for _, detail in objects(parse_value(meta.details), "")]
            detailed = [(str(detail.get("format")), detail_token(detail)) for detail in details]
            for group, content in ((signed, [value for value, _ in reasoning]), (detailed, detail_content(details))):
                contents = (content_digest(*content),)
                for index, (kind, token) in enumerate(group):
                    tokens[token] = IssuedToken(kind=kind, reply=str(number), index=index, contents=contents)
        tokens.pop("", None)
        return tokens

    @cached_property
    def _items(self) -> dict[str, IssuedItem]:
        items: dict[str, IssuedItem] = {}
        for number, (reply, foreign) in enumerate(zip(self.replies, self.foreign, strict=True)):
            has_reasoning = any(text for text, _ in _reasoning(reply))
            for key in [call.id for call in reply.tool_calls()] or [content_digest(str(reply))]:
                # A message may be one of several replies with the same text.
                is_first = key not in items
                items[key] = IssuedItem(
                    kind="message", reply=str(number) if is_first else "",
                    started_with_reasoning=has_reasoning and (is_first or bool(items[key].started_with_reasoning)),
                    foreign=foreign,
                )  # fmt: skip
        return items


def _reasoning(reply: AssistantMessage) -> list[tuple[str, blocks.ChatMeta]]:
    reasoning = [block for block in reply.blocks if isinstance(block, Reasoning)]
    return [(block.text, block.meta) for block in reasoning if isinstance(block.meta, blocks.ChatMeta)]


class GeminiTokens(TranscriptTokens):
    """Signatures by their normalized text. A reply has no id: turns and reasoning are found by their texts."""

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, int]]]:
        """The reply and the block of each signature."""
        places: dict[str, list[tuple[int, int]]] = {}
        for reply, index, block in self.blocks():
            if signature := _signature(block):
                places.setdefault(normalize_signature(signature), []).append((reply, index))
        return places

    @cached_property
    def _turns(self) -> dict[str, bool]:
        """The turns of this issuer by their text, and whether they came with a signature."""
        turns: dict[str, bool] = {}
        for message, foreign in zip(self.replies, self.foreign, strict=True):
            if not foreign:
                key = turn_text([_part(block) for block in message.blocks])
                is_signed = any(_signature(block) for block in message.blocks)
                turns[key] = is_signed and turns.get(key, True)
        return turns

    @cached_property
    def _reasoning(self) -> set[str]:
        return {block.text for _, _, block in self.blocks() if type(block) is Reasoning and block.text}

    def find(self, token: str) -> IssuedToken | None:
        places = self._places.get(normalize_signature(token))
        if not places:
            return None
        own = [(i, j) for i, j in places if not self.foreign[i]]
        i, j = (own or places)[0]
        origin = self.replies[i].origin
        parts = [_part(self.replies[i].blocks[j]) for i, j in own]
        contents = [part_content(part) for part in parts] if all(parts) else []
        kind, value = contents[0] if contents else ("", "")
        return IssuedToken(
            kind=kind, model=origin.model if origin else "", reply=str(i) if len(own) == 1 else "", index=j,
            parts=contents[0] if len(contents) == 1 else None,
            contents=tuple(content_digest(*content) for content in contents) if len(contents) > 1 else (),
            length=len(value) if kind == "text" else 0, foreign=not own,
        )  # fmt: skip

    def item(self, id: str) -> IssuedItem | None:
        """Return the turn with this text (`content:...`), or the reasoning with this text (`reasoning:...`)."""
        kind, _, value = id.partition(":")
        if kind == "reasoning":
            return IssuedItem(kind=kind) if value in self._reasoning else None
        return IssuedItem(kind="signed" if self._turns.get(value) else "unsigned")


def _signature(block: Block) -> str:
    if type(block) is Opaque:
        signature = parse_fields(block.raw).get("thoughtSignature")
        return signature if isinstance(signature, str) else ""
    return block.meta.thought_signature if type(block.meta) is blocks.GeminiMeta else ""


def _part(block: Block) -> Fields:
    """Return the part that a block came as, as far as a signature is issued for it; empty if it cannot be compared."""
    match block:
        case ToolUse():
            args = parse_value(block.args)
            return {"functionCall": {"name": block.name, "args": args}} if args is None or type(args) is dict else {}
        case Text() | blocks.Refusal():
            return {"text": block.text}
        case Reasoning():
            return {"text": block.text, "thought": True}
        case blocks.Image() | blocks.Audio() | blocks.Document() if block.data:
            return {"inlineData": {"data": block.data}}
        case blocks.Image() | blocks.Audio() | blocks.Document():
            return {"fileData": {"fileUri": block.url or block.file_id}}
        case blocks.CodeExecution():
            return {"executableCode": {"code": block.code}}
        case blocks.CodeResult():
            return {"codeExecutionResult": {"output": block.output}}
        case ServerToolUse():
            return {"toolCall": {"toolType": block.name, "args": parse_value(block.args)}}
        case ServerToolResult():
            return {"toolResponse": {"response": parse_value(block.content)}}
        case Opaque():
            return parse_fields(block.raw)
        case _:
            return {}
