"""Write assistant messages, exactly as received (`verbatim`) or to be sent back (`AssistantWriter`).

For sending, a policy applies: tokens are always sent, readable reasoning if the model's rule wants it, calls in the
form that every host accepts, and of the fields outside the blocks only those that the provider row lists.
"""

from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, ChatMeta, Image, Opaque, Reasoning, Refusal, Text, ToolUse
from tenuto.core.loss import Location
from tenuto.core.messages import AssistantMessage
from tenuto.wire.body_builder import BodyBuilder, extra_fields
from tenuto.wire.chat.content_parts import write_image, write_thinking
from tenuto.wire.chat.think_tags import restore_tags
from tenuto.wire.rawjson import is_null, object_or_empty, raw_object, text_or_empty, to_raw

Fields = dict[str, Any]
_DIALECT = "openai-chat"


def is_legacy(block: Block) -> bool:
    """Return whether a call was received as the older `function_call` of a message."""
    return isinstance(block, ToolUse) and "function_call" in extra_fields(block.extra)


def _details(block: Reasoning) -> list[Raw]:
    """Return the elements of `reasoning_details`; none if the stored text is not a list."""
    raw = block.meta.details if isinstance(block.meta, ChatMeta) else ""
    return jsonio.elements(raw) if raw.startswith("[") and not jsonio.problem(raw) else []


def _field_of(block: Reasoning) -> str:
    """Return the field in which reasoning was received; empty if it is unknown."""
    return block.meta.field if isinstance(block.meta, ChatMeta) else ""


def _list_of(block: Opaque) -> str:
    """Return the field of the message whose list contained an unknown element."""
    name = text_or_empty(extra_fields(block.extra).get("in"))
    return name if name in ("tool_calls", "images") else "content"


def verbatim(message: AssistantMessage) -> list[Any]:
    """Return the message exactly as received, with every block and every field."""
    fields: Fields = dict(extra_fields(message.extra))
    written: Fields = {"role": "assistant"}
    if (role := fields.pop("role", None)) is not None:
        written = {} if is_null(role) else {"role": role}
    content = _write_content(message.blocks, bytes(fields.get("content", b"")))
    if content is not None:
        fields["content"] = content
    _write_calls(written, message.blocks, exact=True)
    for block in message.blocks:
        if isinstance(block, Reasoning):
            field = _field_of(block)
            if field in ("reasoning_content", "reasoning") and block.text:
                written[field] = written.get(field, "") + block.text
            if details := _details(block):
                written.setdefault("reasoning_details", []).extend(details)
        elif isinstance(block, Audio):
            audio: Fields = {"id": block.id or None, "data": block.data or None}
            audio |= {"transcript": block.transcript, "expires_at": block.expires_at}
            typed = {name: value for name, value in audio.items() if value is not None}
            written["audio"] = {**typed, **extra_fields(block.extra)}
        elif isinstance(block, Refusal):
            written["refusal"] = written.get("refusal", "") + block.text
        elif isinstance(block, Image):
            written.setdefault("images", []).append(write_image(block))
        elif isinstance(block, Opaque) and _list_of(block) == "images":
            written.setdefault("images", []).append(to_raw(block.raw))
    return [{**written, **fields}]


def _write_content(blocks: tuple[Block, ...], form: bytes) -> str | Raw | list[Any] | None:
    """Join the blocks of the content; None without such blocks.

    `form` is `[]` or `{}` if the content was received as a list or an object. The result is a list if it was one or if
    a text cannot hold it, an object if it was one, and otherwise a text.
    """
    parts: list[str | Fields | Raw] = []
    for block in blocks:
        if isinstance(block, Text):
            extra = extra_fields(block.extra)
            is_part = extra or form == b"[]"
            parts.append({"type": "text", "text": block.text, **extra} if is_part else block.text)
        elif isinstance(block, Reasoning) and _field_of(block) == "think":
            parts.append(restore_tags(block.text, block.extra))
        elif isinstance(block, Reasoning) and _field_of(block) == "content":
            parts.append(write_thinking(block))
        elif isinstance(block, Opaque) and _list_of(block) == "content":
            parts.append(to_raw(block.raw))
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    if form == b"{}" and len(texts) == 1 and (raw := raw_object(texts[0])) is not None:
        return raw
    return "".join(texts) if parts else None


# --- calls ------------------------------------------------------------------------------------------------------------


def _write_calls(written: Fields, blocks: tuple[Block, ...], *, exact: bool) -> None:
    """Write the calls: `exact` as received, otherwise with an id and with arguments that are a string."""
    calls: list[Any] = []
    for block in blocks:
        if isinstance(block, ToolUse):
            extra = extra_fields(block.extra)
            if "function_call" in extra:
                written["function_call"] = _write_payload(block, "function_call", extra["function_call"], exact=exact)
            else:
                calls.append(_write_call(block, extra, exact=exact))
        elif isinstance(block, Opaque) and _list_of(block) == "tool_calls":
            calls.append(to_raw(block.raw))
    if calls:
        written["tool_calls"] = calls


def _write_call(block: ToolUse, extra: dict[str, Raw], *, exact: bool) -> Fields:
    payload = "custom" if block.kind == "custom" else "function"
    inner = _write_payload(block, payload, extra.pop(payload, None), exact=exact)
    kind = extra.pop("type", None)  # null if the host omitted it
    call: Fields = {} if exact and block.id_generated else {"id": block.id}
    if kind is None:
        call["type"] = block.kind
    elif exact and not is_null(kind):
        call["type"] = kind
    if not exact:
        extra.pop("id", None)
        extra.pop("index", None)
    return {**call, payload: inner, **extra}


def _write_payload(block: ToolUse, payload: str, extra: Raw | None, *, exact: bool) -> Fields:
    """Write the inner object of a call.

    In `extra`, null as arguments means that they were null, any other value that they were an object.
    """
    rest: Fields = dict(object_or_empty(extra))
    args_field = "input" if payload == "custom" else "arguments"
    args_form = rest.pop(args_field, None)
    fields: Fields = {"name": block.name}
    if not exact:
        fields[args_field] = "{}" if block.args_missing and payload != "custom" else block.args
        rest.pop("name", None)
    elif args_form is not None:
        fields[args_field] = args_form if is_null(args_form) else to_raw(block.args)
    elif not block.args_missing:
        fields[args_field] = block.args
    return {**fields, **rest}


# --- sending back -----------------------------------------------------------------------------------------------------


class AssistantWriter:
    def __init__(self, message: AssistantMessage, builder: BodyBuilder, place: Location) -> None:
        self.message = message
        self.builder = builder
        self.place = place
        self.switches = switches = builder.target.provider.chat
        policy = builder.target.traits.passback or switches.passback
        self.has_calls = message.has_tool_calls()
        self.sends_reasoning = policy == "always" or (policy == "tool_turns" and self.has_calls)
        field = switches.reasoning_field
        self.reasoning_field = "reasoning" if field == "reasoning_details" else field
        self.withheld_count = 0

    def write(self) -> Fields | None:
        """Write a message to be sent back; None if nothing of it can be sent."""
        all_blocks = map(self._set_reasoning_field, self.message.blocks)
        sent = {at: block for at, block in enumerate(all_blocks) if self._is_sent(block, self.place.within(at))}
        blocks = tuple(sent.values())
        if self.withheld_count:
            detail, remedy = f"{self.withheld_count} blocks", "the model does not take reasoning in this turn"
            self.builder.record_loss("reasoning-withheld", self.place, detail, remedy)
        fields = extra_fields(self.message.extra)
        content = _write_content(blocks, bytes(fields.get("content", b"")))
        written: Fields = {"role": "assistant", "content": content or (None if self.switches.null_content else "")}
        self._write_reasoning(written, blocks)
        _write_calls(written, blocks, exact=False)
        for block in blocks:
            if isinstance(block, Audio) and "audio" in written:
                detail, remedy = f"audio {block.id}", "a message can refer to one audio reply"
                self.builder.record_loss("unsupported-content", self.place, detail, remedy)
            elif isinstance(block, Audio):
                written["audio"] = {"id": block.id}
            elif isinstance(block, Refusal):
                written["refusal"] = written.get("refusal", "") + block.text
        if len(written) == 2 and not content:
            self.builder.record_loss("empty-message", self.place, "an assistant message with nothing to send")
            return None
        for name in self.switches.replayed_fields if fields else ():
            if name in fields:
                written.setdefault(name, fields[name])
        if self.builder.trace:
            self._place_blocks(written, sent)
        return written

    def _place_blocks(self, written: Fields, sent: dict[int, Block]) -> None:
        """Note where each block is: in a list of the message, or in one of its fields."""
        content = written["content"]
        parts = iter(content if isinstance(content, list) else ())
        calls = iter(written.get("tool_calls", ()))
        for at, block in sent.items():
            node: object = written
            field = ""
            if is_legacy(block):
                field = "function_call"
            elif isinstance(block, ToolUse) or (isinstance(block, Opaque) and _list_of(block) == "tool_calls"):
                node = next(calls)
            elif isinstance(block, Audio | Refusal):
                field = "audio" if isinstance(block, Audio) else "refusal"
            elif isinstance(block, Reasoning) and (details := _details(block)):
                node = next(raw for raw in written["reasoning_details"] if raw == details[0])
            elif isinstance(block, Reasoning) and _field_of(block) not in ("think", "content"):
                field = _field_of(block)
            elif isinstance(content, list):
                node = next(parts)
            else:
                field = "content"
            self.builder.place(self.place.within(at), node, field)

    def _set_reasoning_field(self, block: Block) -> Block:
        """Give reasoning without a field the provider's own. Without refusals, a refusal becomes text."""
        if isinstance(block, Refusal) and not self.switches.refusals:
            return Text(block.text)
        if not isinstance(block, Reasoning) or isinstance(block.meta, ChatMeta):
            return block
        return Reasoning(block.text, meta=ChatMeta(field=self.reasoning_field))

    def _is_sent(self, block: Block, place: Location) -> bool:
        """Return whether a block can be sent. If not, record the loss."""
        if isinstance(block, Reasoning):
            meta = block.meta if isinstance(block.meta, ChatMeta) else ChatMeta()
            details = _details(block)
            is_signed = meta.signature and meta.field == "content"
            if (meta.details and not details) or (meta.signature and not is_signed):
                self.builder.record_loss("unreadable-token", place, "a token that this dialect cannot have issued")
            if details or is_signed or (self.sends_reasoning and (block.text or meta.field == "think")):
                return True
            self.withheld_count += bool(block.text)
            return False
        if isinstance(block, Text | Refusal):
            return bool(block.text)
        if (
            isinstance(block, ToolUse)
            or (isinstance(block, Audio) and block.id)
            or (isinstance(block, Opaque) and block.dialect == _DIALECT and _list_of(block) != "images")
        ):
            return True
        remedy = "this dialect cannot send such a block back"
        self.builder.record_loss("unsupported-block", place, type(block).__name__, remedy)
        return False

    def _write_reasoning(self, written: Fields, blocks: tuple[Block, ...]) -> None:
        """Write reasoning into its field. With details, its text is a copy, and is not sent."""
        for block in blocks:
            if not isinstance(block, Reasoning):
                continue
            field = _field_of(block)
            if details := _details(block):
                written.setdefault("reasoning_details", []).extend(details)
            elif field not in ("think", "content") and self.sends_reasoning:
                written[field] = written.get(field, "") + block.text
        has_reasoning = not written.keys().isdisjoint(("reasoning_content", "reasoning", "reasoning_details"))
        needs_field = self.switches.empty_reasoning and self.sends_reasoning and self.has_calls
        if needs_field and not has_reasoning and self.reasoning_field != "content":
            written[self.reasoning_field] = ""
