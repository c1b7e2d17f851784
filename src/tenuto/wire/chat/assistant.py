"""Write assistant messages, exactly as received (`verbatim`) or to be sent back (`AssistantWriter`).

For sending, a policy applies: tokens are always sent, readable reasoning if the model's rule wants it, calls in the
form that every host accepts, and of the fields outside the blocks only those that the provider row lists.
"""

from typing import Any

import msgspec
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
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")


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
    form = bytes(fields.get("content", b""))
    parts: list[Any] = []
    calls: list[Any] = []
    for block in message.blocks:
        if isinstance(block, ToolUse):
            _write_call(block, written, calls, exact=True)
        elif isinstance(block, Opaque) and _list_of(block) == "tool_calls":
            calls.append(to_raw(block.raw))
        elif (part := _write_part(block, form)) is not None:
            parts.append(part)
    if parts:
        fields["content"] = _join_parts(parts, form)
    if calls:
        written["tool_calls"] = calls
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


def _write_part(block: Block, form: bytes) -> str | Fields | Raw | None:
    """Write a block of the content as text or as an element of a list; None for a block of another field.

    `form` is `[]` or `{}` if the content was received as a list or an object.
    """
    if isinstance(block, Text):
        if not block.extra and form != b"[]":
            return block.text
        return {"type": "text", "text": block.text, **extra_fields(block.extra)}
    if isinstance(block, Reasoning):
        field = _field_of(block)
        if field == "think":
            return restore_tags(block.text, block.extra)
        return write_thinking(block) if field == "content" else None
    return to_raw(block.raw) if isinstance(block, Opaque) and _list_of(block) == "content" else None


def _join_parts(parts: list[Any], form: bytes) -> str | Raw | list[Any]:
    """Join the parts of the content: a list if a text cannot hold them, an object if it was one, otherwise a text."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    if form == b"{}" and len(texts) == 1 and (raw := raw_object(texts[0])) is not None:
        return raw
    return "".join(texts)


# --- calls ------------------------------------------------------------------------------------------------------------


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str


class _FunctionCall(msgspec.Struct, gc=False):
    """A call without extra fields: as a struct it takes a fifth of the memory, which counts in a long conversation."""

    id: str
    type: str
    function: _Function


def _write_call(block: ToolUse, written: Fields, calls: list[Any], *, exact: bool) -> None:
    """Add a call to `calls`: `exact` as received, otherwise with an id and with arguments that are a string.

    The older `function_call` is a field of the message, `written`.
    """
    if not block.extra and not exact and block.kind == "function":  # most calls
        function = _Function(block.name, "{}" if block.args_missing else block.args)
        calls.append(_FunctionCall(block.id, "function", function))
        return
    extra = extra_fields(block.extra)
    if "function_call" in extra:
        written["function_call"] = _write_payload(block, "function_call", extra["function_call"], exact=exact)
        return
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
    call[payload] = inner
    calls.append(call | extra if extra else call)


def _write_payload(block: ToolUse, payload: str, extra: Raw | None, *, exact: bool) -> Fields:
    """Write the inner object of a call.

    In `extra`, null as arguments means that they were null, any other value that they were an object.
    """
    rest: Fields = dict(object_or_empty(extra)) if extra is not None else {}
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
    return fields | rest if rest else fields


# --- sending back -----------------------------------------------------------------------------------------------------


class AssistantWriter:
    """Write the assistant messages of one request."""

    def __init__(self, builder: BodyBuilder) -> None:
        self.call_names: dict[str, str] = {}
        """The name of the tool by the id of the call, for the calls whose results need it."""
        self.function_calls: set[str] = set()
        """The ids of the calls that are sent as `function_call`."""
        self._builder = builder
        self._switches = switches = builder.target.provider.chat
        self._policy = builder.target.traits.passback or switches.passback
        field = switches.reasoning_field
        self._reasoning_field = "reasoning" if field == "reasoning_details" else field

    def write(self, message: AssistantMessage, place: Location) -> Fields | None:
        """Write a message to be sent back; None if nothing of it can be sent."""
        sends_reasoning = self._policy == "always" or (self._policy == "tool_turns" and message.has_tool_calls())
        extra = extra_fields(message.extra)
        form = bytes(extra["content"]) if "content" in extra else b""
        written: Fields = {"role": "assistant", "content": None}
        parts: list[Any] = []
        calls: list[Any] = []
        function_call: Fields = {}
        others: Fields = {}
        sent: list[tuple[int, Block]] = []
        withheld_count = 0
        for index, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                if self._switches.name_on_tool_message or block.extra:
                    self.call_names[block.id] = block.name
                if block.extra and "function_call" in extra_fields(block.extra):
                    self.function_calls.add(block.id)
                _write_call(block, function_call, calls, exact=False)
                if self._builder.trace:
                    sent.append((index, block))
                continue
            other = self._sent_form(block, place.within(index), sends_reasoning=sends_reasoning)
            if other is None:
                withheld_count += isinstance(block, Reasoning) and bool(block.text)
                continue
            sent.append((index, other))
            if isinstance(other, Opaque) and _list_of(other) == "tool_calls":
                calls.append(to_raw(other.raw))
            elif isinstance(other, Refusal):
                others["refusal"] = others.get("refusal", "") + other.text
            elif isinstance(other, Audio):
                if "audio" in others:
                    detail, remedy = f"audio {other.id}", "a message can refer to one audio reply"
                    self._builder.record_loss("unsupported-content", place, detail, remedy)
                others.setdefault("audio", {"id": other.id})
            elif (part := _write_part(other, form)) is not None:
                parts.append(part)
            if isinstance(other, Reasoning):  # with details, its text is a copy, and is not sent
                field = _field_of(other)
                if details := _details(other):
                    written.setdefault("reasoning_details", []).extend(details)
                elif field not in ("think", "content") and sends_reasoning:
                    written[field] = written.get(field, "") + other.text
        if withheld_count:
            detail, remedy = f"{withheld_count} blocks", "the model does not take reasoning in this turn"
            self._builder.record_loss("reasoning-withheld", place, detail, remedy)
        content = _join_parts(parts, form) if parts else None
        written["content"] = content or (None if self._switches.null_content else "")
        needs_field = self._switches.empty_reasoning and self._reasoning_field != "content"
        if needs_field and sends_reasoning and message.has_tool_calls():
            has_reasoning = not written.keys().isdisjoint(_REASONING_FIELDS)
            written |= {} if has_reasoning else {self._reasoning_field: ""}
        if function_call:
            written |= function_call
        if calls:
            written["tool_calls"] = calls
        if others:
            written |= others
        if len(written) == 2 and not content:
            self._builder.record_loss("empty-message", place, "an assistant message with nothing to send")
            return None
        for name in self._switches.replayed_fields if extra else ():
            if name in extra:
                written.setdefault(name, extra[name])
        if self._builder.trace:
            self._place_blocks(written, sent, place)
        return written

    def _sent_form(self, block: Block, place: Location, *, sends_reasoning: bool) -> Block | None:
        """Return the form in which a block other than a call is sent. If it is not sent, record the loss.

        Reasoning without a field gets the provider's own. Without refusals, a refusal becomes text.
        """
        if isinstance(block, Text | Refusal):
            if isinstance(block, Refusal) and not self._switches.refusals:
                block = Text(block.text)
            return block if block.text else None
        if isinstance(block, Reasoning):
            meta = block.meta if isinstance(block.meta, ChatMeta) else ChatMeta(field=self._reasoning_field)
            reasoning = block if block.meta is meta else Reasoning(block.text, meta=meta)
            details = _details(reasoning)
            is_signed = meta.signature and meta.field == "content"
            if (meta.details and not details) or (meta.signature and not is_signed):
                self._builder.record_loss("unreadable-token", place, "a token that this dialect cannot have issued")
            is_sent = details or is_signed or (sends_reasoning and (block.text or meta.field == "think"))
            return reasoning if is_sent else None
        if isinstance(block, Audio) and block.id:
            return block
        if isinstance(block, Opaque) and block.dialect == _DIALECT and _list_of(block) != "images":
            return block
        remedy = "this dialect cannot send such a block back"
        self._builder.record_loss("unsupported-block", place, type(block).__name__, remedy)
        return None

    def _place_blocks(self, written: Fields, sent: list[tuple[int, Block]], place: Location) -> None:
        """Note where each block is: in a list of the message, or in one of its fields."""
        content = written["content"]
        parts = iter(content if isinstance(content, list) else ())
        calls = iter(written.get("tool_calls", ()))
        for at, block in sent:
            node: object = written
            field = ""
            if isinstance(block, ToolUse) and "function_call" in extra_fields(block.extra):
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
            self._builder.place(place.within(at), node, field)
