"""From a turn to a response of the Responses dialect: one body, or the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.rules.body import Fields
from tenuto.rules.issued_tokens import CompactedMessages, IssuedToken, content_digest
from tenuto.sim import script
from tenuto.sim.dialects import SimDialect, TurnRequest
from tenuto.sim.prompt_cache import CachedBlock
from tenuto.sim.reply_parts import add_faults, cut_pieces, encode_piece, summary_of
from tenuto.sim.responses_reader import ResponsesTurnRequest, count_tokens, make_id, read_id, to_turn_request
from tenuto.sim.script import Fault, Turn, join_text
from tenuto.sim.tokens import SeededRandom, estimate_tokens

_Piece: TypeAlias = "str | list[str] | Fault"
"""Text, split or to be split, and faults in the middle of it."""
_CACHE_SECONDS = 1800
_EPOCH = 1_780_000_000
_HIDDEN_REASONING_TOKENS = 64
_INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}
_TOKEN_BYTES = (450, 1_200)
"""The size of encrypted content in recorded traffic, roughly."""


# --- the plan of a response -------------------------------------------------------------------------------------------


class PlannedItem(msgspec.Struct, kw_only=True):
    """One item of a response."""

    kind: str
    pieces: list[_Piece] = []
    text: str = ""
    cites: tuple[script.Cite, ...] = ()
    step: script.CallTool | script.Search | script.RunCode | script.SendImage | None = None
    is_refusal: bool = False
    is_hidden: bool = False
    """Whether reasoning has no readable summary."""
    status: str = "completed"
    id: str = ""
    added: Fields = {}
    """The item in `response.output_item.added`."""
    done: Fields = {}
    """The finished item."""

    @property
    def summary(self) -> list[str]:
        """The parts of a summary; each part after the first starts with a heading in bold."""
        if self.is_hidden or not self.text:
            return []
        first, *more = self.text.split("\n\n**")
        return [first, *(f"**{part}" for part in more)]


class ReplyPlan(msgspec.Struct, kw_only=True):
    """A response before it is written."""

    id: str
    created_at: int
    seconds: int
    steps: list[PlannedItem | Fault] = []
    """The items, with faults between them."""
    status: Literal["completed", "incomplete", "failed"] = "completed"
    incomplete_reason: str | None = None
    error: script.StreamError | None = None
    reasoning_tokens: int = 0
    answer_tokens: int = 0
    cached_tokens: int = 0

    @property
    def items(self) -> list[PlannedItem]:
        return [step for step in self.steps if isinstance(step, PlannedItem)]


def _cached_blocks(body: Fields) -> list[CachedBlock]:
    """Return tools, instructions and items: every one ends a prefix that the provider stores by itself."""
    items = body.get("input")
    parts = [body.get("tools"), body.get("instructions"), *(items if isinstance(items, list) else [items])]
    forms = [jsonio.encode(part) for part in parts]
    return [CachedBlock(form, len(form) // 4, _CACHE_SECONDS) for form in forms]


def plan_reply(request: TurnRequest, turn: Turn, random: SeededRandom) -> ReplyPlan:
    """Plan a response. All random choices that a body and a stream share are made here."""
    parsed = request.request
    reply = content_digest(parsed.digest, parsed.account, parsed.provider.name)
    plan = ReplyPlan(
        id=f"resp_{reply}{random.sealer.mac('resp', reply)}{random.hex(18)}",
        created_at=_EPOCH + int(reply[:6], 16),
        seconds=random.random.randrange(1, 20),
    )
    if request.compaction and not any(isinstance(step, script.Compact) for step in turn):
        calls = any(
            isinstance(step, script.CallTool) for step in turn
        )  # a client may drop what precedes the compaction
        turn = (script.Compact(), *turn) if calls else (*turn, script.Compact())
    plan.steps.extend(_items(request, turn, plan))
    _apply_limit(plan, request.max_tokens)
    if plan.status == "completed" and (not plan.items or plan.items[-1].kind == "reasoning"):
        plan.steps.append(PlannedItem(kind="message"))  # a finished response never ends with reasoning
    key = parsed.body.get("prompt_cache_key")
    used = parsed.prompt_cache.use(f"{parsed.cache_scope} {key}", _cached_blocks(parsed.body), lookback=0)
    plan.cached_tokens = min(used.read, request.prompt_tokens) // 128 * 128
    phase = " with phase" if parsed.target.traits.phases else ""
    kinds = [item.kind + (phase if item.kind == "message" else "") for item in plan.items]
    for index, item in enumerate(plan.items):
        item.id = make_id(random.sealer, reply, kinds, index)
        _fill(request, plan, random, index, item)
    return plan


def _items(request: TurnRequest, turn: Turn, plan: ReplyPlan) -> Iterator[PlannedItem | Fault]:
    """Yield the items up to the step that ends the response. Text after a fault continues the same message."""
    message: PlannedItem | None = None
    faults: list[Fault] = []
    for step in turn:
        if isinstance(step, Fault):
            faults.append(step)
            continue
        if isinstance(step, script.Say) and message is not None and faults:
            message.pieces += [*faults, step.text]
            message.text += join_text(step.text)
            message.cites += step.cites
            faults = []
            continue
        if message is not None:
            yield message
        message = None
        yield from faults
        faults = []
        if isinstance(step, script.StreamError):
            plan.status, plan.error = "failed", step
        elif isinstance(step, script.Stop) and step.reason in _INCOMPLETE:
            plan.status, plan.incomplete_reason = "incomplete", _INCOMPLETE[step.reason]
        if isinstance(step, script.StreamError | script.Stop | script.Pause):
            return
        item = _item(request, step)
        if item is not None and item.kind == "message":
            message = item
        elif item is not None:
            yield item
    if message is not None:
        yield message
    yield from faults


def _item(request: TurnRequest, step: object) -> PlannedItem | None:
    match step:
        case script.Think(text, redacted):
            hidden = redacted or not request.shows_thinking
            return PlannedItem(kind="reasoning", pieces=[text], text=join_text(text), is_hidden=hidden)
        case script.Say(text, cites):
            return PlannedItem(kind="message", pieces=[text], text=join_text(text), cites=cites)
        case script.Refuse(text):
            return PlannedItem(kind="message", pieces=[text], text=text, is_refusal=True)
        case script.CallTool(name):
            is_custom = any(tool.name == name and tool.is_custom for tool in request.tools)
            input = _custom_input(step) if is_custom else _arguments(step)
            kind = "custom_tool_call" if is_custom else "function_call"
            return PlannedItem(kind=kind, pieces=[input], text=input, step=step)
        case script.Search():
            return PlannedItem(kind="web_search_call", step=step)
        case script.RunCode(code):
            return PlannedItem(kind="code_interpreter_call", pieces=[code], text=code, step=step)
        case script.SendImage():
            return PlannedItem(kind="image_generation_call", step=step)
        case script.Compact():
            return PlannedItem(kind="compaction", text=summary_of(step, request))
        case _:
            return None


def _arguments(call: script.CallTool) -> str:
    return call.args if isinstance(call.args, str) else jsonio.encode(call.args).decode()


def _custom_input(call: script.CallTool) -> str:
    """Return the text for a custom tool: the only argument if it is text, else all arguments as JSON."""
    if isinstance(call.args, dict) and len(call.args) == 1:
        value = next(iter(call.args.values()))
        if isinstance(value, str):
            return value
    return _arguments(call)


def _apply_limit(plan: ReplyPlan, limit: int | None) -> None:
    """Count the output tokens; end the response where the limit is reached."""
    for index, item in enumerate(plan.steps):
        if not isinstance(item, PlannedItem):
            continue
        cost = estimate_tokens(item.text) or (_HIDDEN_REASONING_TOKENS if item.kind == "reasoning" else 0)
        left = cost
        if limit is not None and item.kind != "compaction":
            left = max(limit - plan.reasoning_tokens - plan.answer_tokens, 0)
        if item.kind == "reasoning":
            plan.reasoning_tokens += min(cost, left)
        else:
            plan.answer_tokens += min(cost, left)
        if cost > left:
            _truncate(item, left * 4)
            del plan.steps[index + (left > 0) :]
            plan.status, plan.incomplete_reason, plan.error = "incomplete", "max_output_tokens", None
            break
    if plan.status == "incomplete" and plan.items:
        plan.items[-1].status = "incomplete"


def _truncate(item: PlannedItem, length: int) -> None:
    item.text = item.text[:length]
    pieces = [part for piece in item.pieces for part in (piece if isinstance(piece, list) else [piece])]
    item.pieces = [*cut_pieces(pieces, length)]


# --- items ------------------------------------------------------------------------------------------------------------


def _fill(request: TurnRequest, plan: ReplyPlan, random: SeededRandom, index: int, item: PlannedItem) -> None:
    head: Fields = {"id": item.id, "type": item.kind, "status": "in_progress"}
    if item.kind == "reasoning":
        _fill_reasoning(request, plan, random, item)
    elif item.kind == "message":
        has_more = any(other.kind not in ("message", "compaction") for other in plan.items[index + 1 :])
        phase = {"phase": "commentary" if has_more else "final_answer"} if request.request.target.traits.phases else {}
        item.added = head | {"content": [], **phase, "role": "assistant"}
        item.done = item.added | {"status": item.status, "content": [_message_part(item)]}
    elif item.kind == "compaction":
        head = {"id": item.id, "type": item.kind}
        item.added = head | {"encrypted_content": _encrypted(request, plan, random, item, "compaction.added")}
        item.done = head | {"encrypted_content": _encrypted(request, plan, random, item, "compaction")}
    elif isinstance(item.step, script.CallTool):
        _fill_call(request, random, item, item.step, head)
    else:
        _fill_server_tool(request, random, item, head)


def _fill_reasoning(request: TurnRequest, plan: ReplyPlan, random: SeededRandom, item: PlannedItem) -> None:
    responses = request.request.target.provider.responses
    head: Fields = {"id": item.id, "type": "reasoning", "summary": []}
    if responses.reasoning_status or responses.plain_reasoning:
        head["status"] = "in_progress"
    item.added = head
    item.done = head | ({"status": item.status} if "status" in head else {})
    if responses.plain_reasoning:
        item.added = head | {"content": []}
        item.done |= {"content": [{"type": "reasoning_text", "text": item.text}]}
        return
    summary = [{"type": "summary_text", "text": part} for part in item.summary]
    item.done |= {"summary": summary, "encrypted_content": _encrypted(request, plan, random, item, "reasoning")}
    if not responses.reasoning_status:  # OpenAI and Azure: a first version that is not valid in a request
        item.added = head | {"encrypted_content": _encrypted(request, plan, random, item, "reasoning.added")}


def _encrypted(request: TurnRequest, plan: ReplyPlan, random: SeededRandom, item: PlannedItem, kind: str) -> str:
    """Return encrypted content, with the first bytes of a Fernet token: a version and the time."""
    parsed, compacted = request.request, None
    if kind == "compaction":
        turns = request.turn + (plan.items[0] is not item)  # with this reply if it starts before
        compacted = CompactedMessages(turns=turns, summary=item.text)
    token = IssuedToken(
        kind=kind, id=item.id, provider=parsed.provider.name, account=parsed.account, model=parsed.model,
        compacted=compacted,
    )  # fmt: skip
    size = min(random.random.randrange(*_TOKEN_BYTES) + len(item.text), 2_900)
    nonce = b"\x80" + plan.created_at.to_bytes(8, "big") + random.random.randbytes(3)
    return random.sealer.seal(token, nonce, size).replace("+", "-").replace("/", "_")


def _message_part(item: PlannedItem) -> Fields:
    if item.is_refusal:
        return {"type": "refusal", "refusal": item.text}
    annotations = []
    for cite in item.cites:
        start = max(item.text.find(cite.quote), 0) if cite.quote else max(len(item.text) - 1, 0)
        end = min(start + len(cite.quote or " "), len(item.text))
        annotations.append(
            {"type": "url_citation", "end_index": end, "start_index": start, "title": cite.title, "url": cite.url}
        )
    return {"type": "output_text", "annotations": annotations, "logprobs": [], "text": item.text}


def _fill_call(
    request: TurnRequest, random: SeededRandom, item: PlannedItem, call: script.CallTool, head: Fields
) -> None:
    key = "arguments" if item.kind == "function_call" else "input"
    item.added = head | {key: "", "call_id": call.id or f"call_{random.word(24)}", "name": call.name}
    namespaces = [tool.namespace for tool in request.tools if tool.name == call.name]
    if namespaces and "" not in namespaces:
        item.added["namespace"] = namespaces[0]
    item.done = item.added | {key: item.text, "status": item.status}


def _fill_server_tool(request: TurnRequest, random: SeededRandom, item: PlannedItem, head: Fields) -> None:
    include = request.request.body.get("include") or []
    item.added = head
    match item.step:
        case script.Search(query, found):
            action: Fields = {"type": "search", "queries": [query], "query": query}
            if "web_search_call.action.sources" in include:
                action["sources"] = [{"type": "url", "url": result.url} for result in found]
            item.done = head | {"action": action, "status": "completed"}
        case script.RunCode(_, output, ok):
            logs = [{"type": "logs", "logs": output}] if "code_interpreter_call.outputs" in include else None
            item.added = head | {"code": "", "container_id": f"cntr_{random.hex(48)}", "outputs": [] if logs else None}
            item.done = item.added | {"code": item.text, "outputs": logs, "status": "completed" if ok else "failed"}
        case script.SendImage(data, media_type):
            item.done = head | {
                "background": "opaque", "output_format": media_type.removeprefix("image/"), "quality": "medium",
                "result": data, "revised_prompt": "An image, as requested.", "size": "1024x1024",
                "status": "completed",
            }  # fmt: skip


# --- the response object ----------------------------------------------------------------------------------------------


def response_object(request: TurnRequest, plan: ReplyPlan, status: str, **fields: Any) -> Fields:
    """Return the response with the options of the request, and the given fields."""
    body, traits = request.request.body, request.request.target.traits
    reasoning, text_options = body.get("reasoning") or {}, body.get("text") or {}
    summary = reasoning.get("summary")
    repeated = (
        "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key",
        "prompt_cache_retention", "safety_identifier", "user",
    )  # fmt: skip
    conversation = body.get("conversation")
    return {
        "id": plan.id,
        "object": "response",
        "created_at": plan.created_at,
        "status": status,
        **{key: body.get(key) for key in repeated},
        **({"conversation": {"id": conversation}} if isinstance(conversation, str) else {}),
        "background": body.get("background") is True,
        "completed_at": None,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None,
        "metadata": body.get("metadata") or {},
        "model": request.request.requested_model,
        "moderation": None,
        "output": [],
        "parallel_tool_calls": request.parallel,
        "presence_penalty": 0.0,
        "reasoning": {
            "context": reasoning.get("context") or traits.reasoning_context or "all_turns",
            "effort": reasoning.get("effort") or traits.effort_default or "medium",
            "mode": "standard",
            "summary": "detailed" if summary == "auto" else summary,
        },
        "service_tier": body.get("service_tier") or "default",
        "store": body.get("store") is not False,
        "temperature": _given(body.get("temperature"), 1.0),
        "text": {"format": _format(text_options.get("format")), "verbosity": text_options.get("verbosity") or "medium"},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": [_tool(tool) for tool in body.get("tools") or []],
        "top_logprobs": _given(body.get("top_logprobs"), 0),
        "top_p": _given(body.get("top_p"), 1.0),
        "truncation": body.get("truncation") or "disabled",
        "usage": None,
        **fields,
    }


def finished_response(request: TurnRequest, plan: ReplyPlan) -> Fields:
    fields: Fields = {"output": [item.done for item in plan.items], "usage": _usage(request, plan)}
    if plan.status == "completed":
        fields["completed_at"] = plan.created_at + plan.seconds
    if plan.incomplete_reason:
        fields["incomplete_details"] = {"reason": plan.incomplete_reason}
    return response_object(request, plan, plan.status, **fields)


def compacted_window(request: ResponsesTurnRequest, plan: ReplyPlan, random: SeededRandom) -> Fields:
    """Return the messages of the user and the compaction, which replace the conversation."""
    output: list[Fields] = []
    for message in request.user_items:
        content = message.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        fields = {"id": f"msg_{random.hex(48)}", "type": "message", "status": "completed"}
        output.append(fields | message | {"content": parts})
    output += [item.done for item in plan.items]
    head = {"id": plan.id, "object": "response.compaction", "created_at": plan.created_at}
    return {**head, "output": output, "usage": _usage(request, plan)}


def _usage(request: TurnRequest, plan: ReplyPlan) -> Fields:
    output = plan.reasoning_tokens + plan.answer_tokens
    return {
        "input_tokens": request.prompt_tokens,
        "input_tokens_details": {"cached_tokens": plan.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": plan.reasoning_tokens},
        "total_tokens": request.prompt_tokens + output,
    }


def _given(value: Any, default: float) -> Any:
    return default if value is None else value


def _format(format: Any) -> Fields:
    if not isinstance(format, dict):
        return {"type": "text"}
    return {"type": "json_schema", "description": None, "strict": False} | format if "schema" in format else format


def _tool(tool: Fields) -> Fields:
    if tool.get("type") != "function":
        return tool
    return {"type": "function", "description": None, "name": tool["name"], "parameters": None, "strict": True} | tool


# --- body and stream --------------------------------------------------------------------------------------------------

_PADDING = 16
_NOISE = 600
_SERVER_EVENTS = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
}
_STREAM_ERRORS = {
    429: ("tokens", "rate_limit_exceeded", "Rate limit reached for this model. Please try again in 1s."),
    503: ("service_unavailable_error", "server_is_overloaded", "Our servers are currently overloaded. Please try again later."),
}  # fmt: skip
_SERVER_ERROR = (
    "The server had an error while processing your request. Sorry about that! You can retry your request, or contact us "
    "through our help center if the error persists."
)


def write(request: ResponsesTurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    plan = plan_reply(request, turn, random)
    if request.request.stream:
        return _StreamWriter(request, plan, random).events()
    is_window = request.request.method == "compact"
    body = jsonio.encode(compacted_window(request, plan, random) if is_window else finished_response(request, plan))
    return add_faults(body, turn)


class _StreamWriter:
    def __init__(self, request: TurnRequest, plan: ReplyPlan, random: SeededRandom) -> None:
        self._request = request
        self._plan = plan
        self._random = random
        self._pieces: list[bytes | Fault] = []
        self._number = 0
        options = request.request.body.get("stream_options")
        is_padded = not (isinstance(options, dict) and options.get("include_obfuscation") is False)
        self._noise = random.word(_NOISE).encode() if is_padded else b""

    def events(self) -> list[bytes | Fault]:
        started = response_object(self._request, self._plan, "in_progress")
        self._event("response.created", response=started)
        self._event("response.in_progress", response=started)
        index = 0
        for step in self._plan.steps:
            if isinstance(step, PlannedItem):
                self._item(index, step)
                index += 1
            else:
                self._pieces.append(step)
        if self._plan.error is not None:
            self._error(self._plan.error)
        else:
            self._event(f"response.{self._plan.status}", response=finished_response(self._request, self._plan))
        return self._pieces

    def _error(self, error: script.StreamError) -> None:
        default = ("server_error", "server_error", _SERVER_ERROR)
        type, code, message = _STREAM_ERRORS.get(503 if error.status == 529 else error.status, default)
        message = error.message or message
        self._event("error", error={"type": type, "code": code, "message": message, "param": None})
        code = code if code == "rate_limit_exceeded" else "server_error"  # a response has fewer codes
        failed = response_object(self._request, self._plan, "failed", error={"code": code, "message": message})
        self._event("response.failed", response=failed)

    def _event(self, type: str, **fields: Any) -> None:
        data = jsonio.encode({"type": type, **fields, "sequence_number": self._number})
        self._pieces.append(b"event: %b\ndata: %b\n\n" % (type.encode(), data))
        self._number += 1

    def _deltas(self, type: str, pieces: list[_Piece], **fields: Any) -> None:
        """Write the pieces of a text. Only the text, the padding and the number differ between the events."""
        head = b'event: %b\ndata: {"type":"%b",%b,"delta":' % (
            type.encode(),
            type.encode(),
            jsonio.encode(fields)[1:-1],
        )
        noise, number = self._noise, self._number
        for piece in pieces:
            if isinstance(piece, Fault):
                self._pieces.append(piece)
                continue
            for part in self._random.pieces(piece):
                tail = b',"sequence_number":%d}\n\n' % number
                if noise:
                    start = number * 7 % (_NOISE - _PADDING)
                    tail = b',"obfuscation":"%b"%b' % (noise[start : start + _PADDING - len(part) % _PADDING], tail)
                self._pieces.append(b"%b%b%b" % (head, encode_piece(part), tail))
                number += 1
        self._number = number

    def _item(self, index: int, item: PlannedItem) -> None:
        self._event("response.output_item.added", item=item.added, output_index=index)
        place: Fields = {"item_id": item.id, "output_index": index}
        match item.kind:
            case "reasoning":
                self._reasoning(item, place)
            case "message":
                self._message(item, place)
            case "function_call":
                self._deltas("response.function_call_arguments.delta", item.pieces, **place)
                self._event("response.function_call_arguments.done", arguments=item.text, **place)
            case "custom_tool_call":
                self._deltas("response.custom_tool_call_input.delta", item.pieces, **place)
                self._event("response.custom_tool_call_input.done", input=item.text, **place)
            case "code_interpreter_call":
                self._code(item, place)
            case "compaction":
                self._event("response.compaction.compacting", **place)
            case _:
                self._server_tool(item, place)
        self._event("response.output_item.done", item=item.done, output_index=index)

    def _reasoning(self, item: PlannedItem, place: Fields) -> None:
        if item.done.get("content"):
            place = {"content_index": 0, **place}
            part = {"type": "reasoning_text", "text": ""}
            self._event("response.content_part.added", part=part, **place)
            self._deltas("response.reasoning_text.delta", item.pieces, **place)
            self._event("response.reasoning_text.done", text=item.text, **place)
            self._event("response.content_part.done", part=part | {"text": item.text}, **place)
            return
        for index, text in enumerate(item.summary):
            place = {**place, "summary_index": index}
            part = {"type": "summary_text", "text": ""}
            self._event("response.reasoning_summary_part.added", part=part, **place)
            pieces: list[_Piece] = item.pieces if len(item.summary) == 1 else [text]
            self._deltas("response.reasoning_summary_text.delta", pieces, **place)
            self._event("response.reasoning_summary_text.done", text=text, **place)
            self._event("response.reasoning_summary_part.done", part=part | {"text": text}, **place)

    def _message(self, item: PlannedItem, place: Fields) -> None:
        place = {"content_index": 0, **place}
        (part,) = item.done["content"]
        if item.is_refusal:
            self._event("response.content_part.added", part=part | {"refusal": ""}, **place)
            self._deltas("response.refusal.delta", item.pieces, **place)
            self._event("response.refusal.done", refusal=item.text, **place)
        else:
            self._event("response.content_part.added", part=part | {"text": "", "annotations": []}, **place)
            self._deltas("response.output_text.delta", item.pieces, **place, logprobs=[])
            for index, annotation in enumerate(part["annotations"]):
                fields = {"annotation": annotation, "annotation_index": index}
                self._event("response.output_text.annotation.added", **fields, **place)
            self._event("response.output_text.done", text=item.text, logprobs=[], **place)
        self._event("response.content_part.done", part=part, **place)

    def _code(self, item: PlannedItem, place: Fields) -> None:
        self._event("response.code_interpreter_call.in_progress", **place)
        self._deltas("response.code_interpreter_call_code.delta", item.pieces, **place)
        self._event("response.code_interpreter_call_code.done", code=item.text, **place)
        self._event("response.code_interpreter_call.interpreting", **place)
        self._event("response.code_interpreter_call.completed", **place)

    def _server_tool(self, item: PlannedItem, place: Fields) -> None:
        for name in _SERVER_EVENTS[item.kind]:
            if name == "completed" and isinstance(item.step, script.SendImage):
                fields = {key: item.done[key] for key in ("size", "quality", "background", "output_format")}
                fields |= {"partial_image_index": 0, "partial_image_b64": item.done["result"]}
                self._event("response.image_generation_call.partial_image", **place, **fields)
            self._event(f"response.{item.kind}.{name}", **place)


DIALECT = SimDialect(to_turn_request=to_turn_request, write=write, count=count_tokens, read_id=read_id)
