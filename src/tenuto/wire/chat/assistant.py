"""An assistant's message on the chat wire: as it was received, word for word, and as it is sent back.

Sending back is the same translation with a policy on top: readable reasoning goes where the model's rule wants it,
tokens always go, calls take the strict form, and of the fields beside the blocks only those go that the row lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, ChatMeta, Image, Opaque, Reasoning, Refusal, Text, ToolUse
from tenuto.core.messages import AssistantMessage
from tenuto.wire.body_builder import BodyBuilder, extra_fields, raw_object
from tenuto.wire.chat import content_parts
from tenuto.wire.chat.think_tags import retagged

__all__ = ["assistant_object", "is_legacy", "verbatim"]

_DIALECT = "openai-chat"
_MARK = b"null"
_HOMES = {b'"tool_calls"': "tool_calls", b'"images"': "images"}
Fields = dict[str, Any]


def is_legacy(block: Block) -> bool:
    """Tell whether a call came in the older form, as the one `function_call` of a message."""
    return isinstance(block, ToolUse) and "function_call" in extra_fields(block.extra)


def _object(raw: Raw | None) -> Fields:
    """Return the members of an object; none for anything else."""
    return dict(jsonio.members(raw)) if raw is not None and bytes(raw)[:1] == b"{" else {}


def _details(block: Reasoning) -> list[Raw]:
    """Return the details a thought came with, each as it came; none where what is stored is no list."""
    raw = block.meta.details if isinstance(block.meta, ChatMeta) else ""
    return jsonio.elements(raw) if raw.startswith("[") and not jsonio.problem(raw) else []


def field_of(block: Reasoning) -> str:
    """Return the field in which reasoning came; empty if that is not known."""
    return block.meta.field if isinstance(block.meta, ChatMeta) else ""


# --- word for word ----------------------------------------------------------------------------------------------------


def verbatim(message: AssistantMessage) -> list[Any]:
    """Return the message as it was received: every block, every field, nothing left out and nothing re-spelt."""
    fields: Fields = dict(extra_fields(message.extra))
    found: Fields = {"role": "assistant"}
    role = fields.pop("role", None)
    if role is not None:
        found = {} if bytes(role) == _MARK else {"role": role}
    content = _content(message.blocks, bytes(fields.get("content", b"")))
    if content is not None:
        fields["content"] = content
    _put_reasoning(found, message.blocks)
    _put_calls(found, message.blocks, _call_exact)
    for block in message.blocks:
        if isinstance(block, Audio):
            found["audio"] = _audio(block)
        elif isinstance(block, Refusal):
            found["refusal"] = found.get("refusal", "") + block.text
        elif isinstance(block, Image):
            found.setdefault("images", []).append(content_parts.image_object(block))
        elif isinstance(block, Opaque) and _home(block) == "images":
            found.setdefault("images", []).append(_raw(block))
    return [{**found, **fields}]


def _home(block: Opaque) -> str:
    """Say which list of the message an unreadable element belongs to."""
    return _HOMES.get(bytes(extra_fields(block.extra).get("in", b"")), "content")


def _raw(block: Opaque) -> Raw:
    return Raw(block.raw.encode("utf-8", "surrogatepass"))


def _content(blocks: tuple[Block, ...], form: bytes) -> str | Raw | list[Any] | None:
    """Join the blocks of the content. `form` is `[]` or `{}` if it came as a list or an object. None for nothing.

    The content is a list if it came as one or if a text cannot hold it, an object if it came as one, and else a text.
    """
    listed = form == b"[]"
    found: list[str | Fields | Raw] = []
    for block in blocks:
        if isinstance(block, Text):
            rest = extra_fields(block.extra)
            found.append({"type": "text", "text": block.text, **rest} if listed or rest else block.text)
        elif isinstance(block, Reasoning) and field_of(block) == "think":
            found.append(retagged(block.text, block.extra))
        elif isinstance(block, Reasoning) and field_of(block) == "content":
            found.append(content_parts.thinking_object(block))
        elif isinstance(block, Opaque) and _home(block) == "content":
            found.append(_raw(block))
    texts = [part for part in found if isinstance(part, str)]
    if len(texts) < len(found):
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in found]
    if form == b"{}" and len(texts) == 1 and (raw := raw_object(texts[0])) is not None:
        return raw
    return "".join(texts) if found else None


def _put_reasoning(found: Fields, blocks: tuple[Block, ...]) -> None:
    details: list[Raw] = []
    for block in blocks:
        if not isinstance(block, Reasoning) or not isinstance(block.meta, ChatMeta):
            continue
        if block.meta.field in ("reasoning_content", "reasoning") and block.text:
            found[block.meta.field] = found.get(block.meta.field, "") + block.text
        details += _details(block)
    if details:
        found["reasoning_details"] = details


def _put_calls(found: Fields, blocks: tuple[Block, ...], write: Callable[[ToolUse], Fields]) -> None:
    calls: list[Any] = []
    for block in blocks:
        if isinstance(block, ToolUse) and is_legacy(block):
            found["function_call"] = _inner(block, "function_call", exact=write is _call_exact)
        elif isinstance(block, ToolUse):
            calls.append(write(block))
        elif isinstance(block, Opaque) and _home(block) == "tool_calls":
            calls.append(_raw(block))
    if calls:
        found["tool_calls"] = calls


def _payload(block: ToolUse) -> str:
    return "custom" if block.kind == "custom" else "function"


def _call_exact(block: ToolUse) -> Fields:
    rest: Fields = dict(extra_fields(block.extra))
    payload = _payload(block)
    rest.pop(payload, None)
    kind = rest.pop("type", None)
    found: Fields = {} if block.id_generated else {"id": block.id}
    if kind is None or bytes(kind) != _MARK:
        found["type"] = block.kind if kind is None else kind
    return {**found, payload: _inner(block, payload, exact=True), **rest}


def _inner(block: ToolUse, payload: str, *, exact: bool) -> Fields:
    """Write the inner object of a call. A mark in its extra fields tells null, or arguments that were an object."""
    rest = _object(extra_fields(block.extra).get(payload))
    word = "input" if payload == "custom" else "arguments"
    mark = rest.pop(word, None)
    found: Fields = {"name": block.name}
    if not exact:
        found[word] = "{}" if block.args_missing and payload != "custom" else block.args
        rest.pop("name", None)
    elif mark is not None:
        found[word] = mark if bytes(mark) == _MARK else Raw(block.args.encode("utf-8", "surrogatepass"))
    elif not block.args_missing:
        found[word] = block.args
    return {**found, **rest}


def _audio(block: Audio) -> Fields:
    typed = {
        "id": block.id or None,
        "data": block.data or None,
        "transcript": block.transcript,
        "expires_at": block.expires_at,
    }
    return {**{name: value for name, value in typed.items() if value is not None}, **extra_fields(block.extra)}


# --- sent back --------------------------------------------------------------------------------------------------------


class _AssistantWriter:
    """One message on its way back: what the policy lets through, and what becomes of the rest."""

    def __init__(self, message: AssistantMessage, draft: BodyBuilder, place: str) -> None:
        target = draft.target
        self.message = message
        self.draft = draft
        self.place = place
        self.switches = target.provider.chat
        policy = target.traits.passback or self.switches.passback
        self.has_calls = message.has_tool_calls()
        self.wanted = policy == "always" or (policy == "tool_turns" and self.has_calls)
        self.withheld = 0

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks that go, each in its place; the others are losses."""
        blocks = map(self._homed, self.message.blocks)
        return tuple(block for at, block in enumerate(blocks) if self._goes(block, f"{self.place}.blocks[{at}]"))

    def _homed(self, block: Block) -> Block:
        """Give reasoning without a field of its own its place. A refusal is text where there is no other word for it."""
        if isinstance(block, Refusal) and not self.switches.refusals:
            return Text(block.text)
        if not isinstance(block, Reasoning) or isinstance(block.meta, ChatMeta):
            return block
        home = self.switches.reasoning_field
        return Reasoning(block.text, meta=ChatMeta(field="reasoning" if home == "reasoning_details" else home))

    def _goes(self, block: Block, place: str) -> bool:
        if isinstance(block, Reasoning):
            return self._reasoning_goes(block, place)
        if isinstance(block, Opaque):
            if block.dialect == _DIALECT and _home(block) != "images":
                return True
        elif isinstance(block, Text | Refusal):
            return bool(block.text)
        elif isinstance(block, ToolUse) or (isinstance(block, Audio) and block.id):
            return True
        self.draft.record_loss("unsupported-block", place, type(block).__name__, "this dialect has no place for it")
        return False

    def _reasoning_goes(self, block: Reasoning, place: str) -> bool:
        """Tokens always go; readable reasoning goes where the policy wants it."""
        meta = block.meta if isinstance(block.meta, ChatMeta) else ChatMeta()
        signed = meta.signature and meta.field == "content"
        if (meta.details and not _details(block)) or (meta.signature and not signed):
            self.draft.record_loss("unreadable-token", place, "a token that this dialect cannot have issued")
        if _details(block) or signed or (self.wanted and (block.text or meta.field == "think")):
            return True
        self.withheld += bool(block.text)
        return False


def assistant_object(message: AssistantMessage, draft: BodyBuilder, place: str) -> Fields | None:
    """Return the message to send, or None where nothing of it can be sent."""
    sending = _AssistantWriter(message, draft, place)
    blocks = sending.blocks()
    if sending.withheld:
        draft.record_loss(
            "reasoning-withheld", place, f"{sending.withheld} blocks", "the model's rule keeps it out of this turn"
        )
    fields = extra_fields(message.extra)
    found: Fields = {"role": "assistant"}
    content = _content(blocks, bytes(fields.get("content", b"")))
    found["content"] = content or (None if sending.switches.null_content else "")
    _send_reasoning(found, blocks, sending)
    _put_calls(found, blocks, _call_strict)
    for block in blocks:
        if isinstance(block, Audio):
            if "audio" in found:
                draft.record_loss(
                    "unsupported-content", place, f"audio {block.id}", "a message refers to one reply in speech"
                )
                continue
            found["audio"] = {"id": block.id}
        elif isinstance(block, Refusal):
            found["refusal"] = found.get("refusal", "") + block.text
    if len(found) == 2 and not content:
        draft.record_loss("empty-message", place, "an assistant's message with nothing to send")
        return None
    for name in sending.switches.replayed_fields if fields else ():
        if name in fields:
            found.setdefault(name, fields[name])
    return found


def _send_reasoning(found: Fields, blocks: tuple[Block, ...], sending: _AssistantWriter) -> None:
    """Put reasoning into its field. Details go alone: the text beside them is only a copy."""
    for block in blocks:
        if not isinstance(block, Reasoning):
            continue
        if details := _details(block):
            found.setdefault("reasoning_details", []).extend(details)
            continue
        field = field_of(block)
        if field not in ("think", "content") and sending.wanted:
            found[field] = found.get(field, "") + block.text
    home = sending.switches.reasoning_field
    if not (sending.switches.empty_reasoning and sending.wanted and sending.has_calls) or home == "content":
        return
    if found.keys().isdisjoint(("reasoning_content", "reasoning", "reasoning_details")):
        found["reasoning" if home == "reasoning_details" else home] = ""


def _call_strict(block: ToolUse) -> Fields:
    """Write a call the way hosts take it: with an id, and arguments that are a string.

    The type is left off for the host that left it off.
    """
    rest: Fields = dict(extra_fields(block.extra))
    payload = _payload(block)
    found: Fields = {"id": block.id} if "type" in rest else {"id": block.id, "type": block.kind}
    for name in (payload, "type", "id", "index"):
        rest.pop(name, None)
    return {**found, payload: _inner(block, payload, exact=False), **rest}
