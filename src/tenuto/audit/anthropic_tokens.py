"""The tokens and calls of a transcript's replies, as the rules of the Messages dialect ask for them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec

from tenuto.audit.transcript_tokens import TranscriptTokens, parse_fields, parse_value
from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    Marker,
    Opaque,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target
from tenuto.rules.anthropic_body import MessagesBody, block_form, tool_changes_digest
from tenuto.rules.body import RequestBody, text
from tenuto.rules.issued_tokens import CompactedMessages, IssuedItem, IssuedToken, content_digest
from tenuto.wire.token_scope import issuer_check, stale_thoughts

_SEALED = ("encrypted_content", "encrypted_index", "encrypted_stdout")
_UNKNOWN_PREFIX = "unknown"


class MessagesTokens(TranscriptTokens):
    def __init__(self, replies: tuple[AssistantMessage, ...], target: Target) -> None:
        super().__init__(replies, target)
        self._is_issuer = issuer_check(target)
        self._reply_items: dict[int, IssuedItem] = {}

    def find(self, token: str) -> IssuedToken | None:
        if not token:
            return None
        if token in self._positions:
            return self._issued(*self._positions[token])
        return self._sealed.get(token)

    def item(self, id: str) -> IssuedItem | None:
        """Find a call by its id, a reply by its text, an unknown block that a reply had by `block:` and its type."""
        position = self._calls.get(id) if id else None
        if position is None:
            return None
        reply, block = position
        item = self._reply_item(reply)
        raw = block.extra if isinstance(block, ToolUse) else block.raw if isinstance(block, Opaque) else ""
        if not raw:
            return item
        fields = (name for name, value in parse_fields(raw).items() if value is not None)
        return msgspec.structs.replace(item, fields=(*item.fields, *fields))

    def _reply_item(self, reply: int) -> IssuedItem:
        """Return what is the same for all calls of a reply."""
        if reply not in self._reply_items:
            message = self.replies[reply]
            reasoning = [isinstance(block, Reasoning) and _form(block) is not None for block in message.blocks]
            has_container = '"container"' in message.extra and parse_fields(message.extra).get("container")
            self._reply_items[reply] = IssuedItem(
                kind="tool_use",
                reply=str(reply),
                foreign=message.origin is not None and not self._is_issuer(message.origin),
                started_with_reasoning=reasoning[0] if any(reasoning) else None,
                has_reasoning=any(reasoning),
                paused=message.paused and reply == len(self.replies) - 1,
                fields=("container",) if has_container else (),
            )
        return self._reply_items[reply]

    def has_prefix(self, token: IssuedToken, body: RequestBody, turn: int) -> bool:
        """Compare the digest in the origin of the reply; without one, compare the earlier turns with their replies."""
        assert isinstance(body, MessagesBody)
        if token.prefix != _UNKNOWN_PREFIX:
            return int(token.reply) not in self._stale_replies(body)
        return turn <= self._first_changed_turn(body)

    # --- lookup ---

    @cached_property
    def _positions(self) -> dict[str, tuple[int, int]]:
        """Reply and block index of each signature and each redacted block."""
        positions: dict[str, tuple[int, int]] = {}
        for reply, index, block in self.blocks():
            match block.meta:
                case AnthropicMeta(signature=token) | AnthropicRedactedMeta(data=token):
                    positions.setdefault(token, (reply, index))
        return positions

    @cached_property
    def _calls(self) -> dict[str, tuple[int, Block | None]]:
        calls: dict[str, tuple[int, Block | None]] = {}
        for reply, message in enumerate(self.replies):
            calls[str(message)] = reply, None
            for block in message.blocks:
                if isinstance(block, ToolUse | ServerToolUse):
                    calls[block.id] = reply, block
                elif isinstance(block, Opaque):
                    calls[f"block:{parse_fields(block.raw).get('type')}"] = reply, block
        return calls

    @cached_property
    def _sealed(self) -> dict[str, IssuedToken]:
        """The encrypted fields of server tool results and citations, each issued for a URL or a call id."""
        tokens: dict[str, IssuedToken] = {}
        for message in self.replies:
            for block in message.blocks:
                values: list[tuple[str, Any]] = []
                if isinstance(block, ServerToolResult):
                    values = [(block.tool_use_id, parse_value(block.content))]
                elif isinstance(block, Marker) and "encrypted_content" in block.extra:
                    token = parse_fields(block.extra).get("encrypted_content")
                    if isinstance(token, str):
                        tokens[token] = IssuedToken(kind=block.kind, contents=(content_digest(block.text or ""),))
                elif isinstance(block, Text):
                    values = [("", parse_value(citation.raw)) for citation in block.citations]
                for call_id, value in values:
                    for item in _objects_in(value):
                        for kind in _SEALED:
                            token = item.get(kind)
                            subject = call_id if kind == "encrypted_stdout" else item.get("url")
                            if isinstance(token, str):
                                contents = (content_digest(subject),) if isinstance(subject, str) else ()
                                tokens[token] = IssuedToken(kind=kind, contents=contents)
        return tokens

    def _issued(self, reply: int, index: int) -> IssuedToken:
        message = self.replies[reply]
        block, origin, foreign = message.blocks[index], message.origin, self._reply_item(reply).foreign
        value = (block.text if isinstance(block, Reasoning | Marker) else "") or ""
        is_redacted = isinstance(block.meta, AnthropicRedactedMeta)
        kind = block.kind if isinstance(block, Marker) else "redacted_thinking" if is_redacted else "thinking"
        before = [form for other in message.blocks[:index] if (form := _form(other)) is not None]
        provider = platform = account = model = ""
        prefix = _UNKNOWN_PREFIX
        if origin is not None:
            imitated = origin.provider == self.target.provider.name and self.target.provider.plays
            provider = origin.model.partition("/")[0] if imitated else origin.provider
            platform, account, model = origin.platform, origin.account, origin.model.rpartition("/")[2]
            prefix = origin.prefix or prefix
        return IssuedToken(
            kind=kind,
            provider=provider,
            platform=platform,
            account=account,
            model=model if foreign else "",
            reply=str(reply),
            index=len(before),
            contents=() if is_redacted else (content_digest(value),),
            length=len(value),
            before=content_digest(*(part for form in before for part in form)),
            reasoning_before=sum(form[0] in ("thinking", "redacted_thinking") for form in before),
            offset=-1,
            prefix="" if foreign else prefix,
            compacted=_compacted(block) if isinstance(block, Marker) else None,
        )

    # --- prefix ---

    def _stale_replies(self, body: MessagesBody) -> set[int]:
        if self._stale is None:
            try:
                written = jsonio.encode(body.body)
            except jsonio.JsonError:  # a number that JSON does not have
                written = b"{}"
            self._stale = {reply for reply, _ in stale_thoughts(self.replies, written, self.target)}
        return self._stale

    _stale: set[int] | None = None

    def _first_changed_turn(self, body: MessagesBody) -> int:
        """Return the number of the first turn that is not as its replies were; the number of turns if all are."""
        if self._changed is None:
            self._changed = self._find_changed_turn(body)
        return self._changed

    _changed: int | None = None

    def _find_changed_turn(self, body: MessagesBody) -> int:
        keys: dict[str, list[int]] = defaultdict(list)
        for reply, message in enumerate(self.replies):
            ids = [block.id for block in message.blocks if isinstance(block, ToolUse | ServerToolUse)]
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
            is_own = not any(self._reply_item(reply).foreign or self.replies[reply].incomplete for reply in found)
            starts = range(len(forms) - len(issued) + 1)
            if found and is_own and not any(forms[start : start + len(issued)] == issued for start in starts):
                return number
        return len(body.turns)


def _compacted(block: Marker) -> CompactedMessages:
    return CompactedMessages(tool_changes=tool_changes_digest(parse_fields(block.extra).get("tool_changes")))


def _form(block: Block) -> tuple[str, str] | None:
    """Return what `block_form` returns for the encoded block; None for a block that may be left out."""
    match block:
        case Text(text=value):
            return ("text", value) if value.strip() else None
        case Reasoning(meta=AnthropicMeta(), text=value):
            return "thinking", value
        case Reasoning(meta=AnthropicRedactedMeta(data=data)):
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
