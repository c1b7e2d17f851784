"""The Responses dialect: read a request that no rule refuses, and write a turn as one body or as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.rules.body import Fields, objects, text
from tenuto.rules.issued_tokens import CompactedMessages, IssuedItem, IssuedToken, content_digest
from tenuto.rules.responses_request import ResponsesBody, content_text, input_items
from tenuto.sim import errors, script
from tenuto.sim.dialects import (
    OfferedTool,
    ParsedRequest,
    PastMessage,
    SimDialect,
    TurnRequest,
    add_faults,
    cut_pieces,
    encode_piece,
    summary_of,
)
from tenuto.sim.prompt_cache import CachedBlock, RequestParts
from tenuto.sim.script import Fault, Turn, join_text
from tenuto.sim.tokens import SeededRandom, TokenSealer, estimate_tokens

_INPUT_TYPES = frozenset(
    {
        "item_reference", "additional_tools", "configuration_update", "compaction", "compaction_trigger",
        "mcp_approval_response", "function_call_output", "custom_tool_call_output", "computer_call_output",
        "local_shell_call_output", "shell_call_output", "apply_patch_call_output",
    }
)  # fmt: skip
"""Items that the client makes; all others but messages are a model's."""


class ResponsesTurnRequest(TurnRequest, frozen=True, kw_only=True):
    user_items: tuple[Fields, ...] = ()
    """The messages of the user as they are in the body and in stored requests."""


def to_turn_request(body: ResponsesBody, request: ParsedRequest) -> ResponsesTurnRequest:
    fields, traits = body.body, request.target.traits
    items = [body.resolve_reference(item) for item in body.history]
    messages = tuple(_messages(items))
    instructions = text(fields, "instructions")
    system = [instructions, *(message.text for message in messages if message.role == "system")]
    return ResponsesTurnRequest(
        request=request,
        turn=_count_turns(items, body),
        system="\n".join(part for part in system if part),
        messages=tuple(message for message in messages if message.role != "system"),
        tools=tuple(_tools(body)),
        tool_choice=_tool_choice(fields.get("tool_choice")),
        parallel=fields.get("parallel_tool_calls") is not False,
        thinks=traits.thinking != ("none",) and body.effort != "none",
        shows_thinking=is_summary_shown(request, body),
        max_tokens=fields.get("max_output_tokens"),
        schema=_schema(fields.get("text")),
        prompt_tokens=body.prompt_tokens,
        compaction=_compaction(body),
        user_items=tuple(item for item in items if item.get("role") == "user"),
        summary=next((done.summary for item in reversed(items) if (done := body.compacted_messages(item))), ""),
    )


def _compaction(body: ResponsesBody) -> Literal["", "alone", "inline"]:
    if body.context.method == "compact" or [item.kind for item in body.all_items[-1:]] == ["compaction_trigger"]:
        return "alone"
    settings = objects(body.body.get("context_management"), "/context_management")
    thresholds = [setting.get("compact_threshold") for _, setting in settings]
    return "inline" if any(isinstance(value, int) and body.prompt_tokens > value for value in thresholds) else ""


def is_summary_shown(request: ParsedRequest, body: ResponsesBody) -> bool:
    """Whether reasoning is readable: at OpenAI and Azure only if a summary is requested."""
    return request.provider.name not in ("openai", "azure") or body.reasoning.get("summary") not in (None, "none")


def _messages(items: Sequence[Fields]) -> Iterator[PastMessage]:
    for item in items:
        kind = text(item, "type") or "message"
        if kind == "message":
            role: Any = item["role"] if item["role"] in ("user", "assistant") else "system"
            content = item.get("content")
            parts = [[part] for part in content] if isinstance(content, list) else [content]
            yield PastMessage(role=role, texts=tuple(filter(None, map(content_text, parts))))
        elif kind in ("function_call", "custom_tool_call"):
            yield PastMessage(role="assistant", calls=1)
        elif kind.endswith("call_output"):
            yield PastMessage(role="user", results=(content_text(item.get("output")),))


def _count_turns(items: Sequence[Fields], body: ResponsesBody) -> int:
    """Count the replies. Items of one response are one reply, even with outputs between them.

    A compaction knows the number of those that it replaces.
    """
    turns, reply, in_reply = 0, "", False
    for item in items:
        kind = text(item, "type") or "message"
        if compacted := body.compacted_messages(item):
            turns, reply = compacted.turns, ""
        if item.get("role") != "assistant" if kind == "message" else kind in _INPUT_TYPES:
            in_reply = False
            continue
        issued = body.tokens.item(text(item, "id"))
        current = issued.reply if issued is not None else ""
        continues = current == reply if current and reply else in_reply
        turns += not continues
        reply = (current or reply) if continues else current
        in_reply = True
    return turns


def _tools(body: ResponsesBody) -> Iterator[OfferedTool]:
    for tool in body.tools:
        kind, schema = text(tool.fields, "type"), tool.fields.get("parameters")
        if kind in ("function", "custom"):
            schema = schema if isinstance(schema, dict) else {}
            yield OfferedTool(name=tool.name, schema=schema, is_custom=kind == "custom", namespace=tool.namespace)


def _tool_choice(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return "auto"
    if value.get("type") == "allowed_tools":
        return text(value, "mode") or "auto"
    return text(value, "name") or "required"


def _schema(options: Any) -> dict[str, Any] | None:
    format = options.get("format") if isinstance(options, dict) else None
    kind = format.get("type") if isinstance(format, dict) else None
    if kind == "json_object":
        return {}
    schema = format.get("schema") if isinstance(format, dict) and kind == "json_schema" else None
    return schema if isinstance(schema, dict) else None


PREFIXES = {
    "message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc", "web_search_call": "ws",
    "code_interpreter_call": "ci", "image_generation_call": "ig", "compaction": "cmp",
}  # fmt: skip
_CODES = {kind: f"{number:x}" for number, kind in enumerate(PREFIXES, 1)} | {"message with phase": "f"}
_KINDS = {code: kind for kind, code in _CODES.items()}
_MAX_ITEMS = 20
_ID = re.compile(r"([a-z]+)_([0-9a-f]{12})([0-9a-f]{2})([0-9a-f]{20})([0-9a-f]{16})")


def make_id(sealer: TokenSealer, reply: str, kinds: Sequence[str], index: int) -> str:
    """Return the id of an item: its reply, its index, and the types of the reply's first 20 items, with a MAC.

    A message with a `phase` has the type `message with phase`.
    """
    codes = "".join(_CODES[kind] for kind in kinds[:_MAX_ITEMS]).ljust(_MAX_ITEMS, "0")
    content = f"{reply[:12]}{index:02x}{codes}"
    prefix = PREFIXES[kinds[index].partition(" ")[0]]
    return f"{prefix}_{content}{sealer.mac(prefix, content)}"


def read_id(sealer: TokenSealer, id: str) -> IssuedItem | None:
    """Return what an id was issued for; None if it was not issued here, or its neighbors are not known."""
    match = _ID.fullmatch(id)
    if match is None or sealer.mac(match[1], id[len(match[1]) + 1 : -16]) != match[5]:
        return None
    reply, index = match[2], int(match[3], 16)
    kinds = [_KINDS[code] for code in match[4].rstrip("0")]
    if index + 1 >= _MAX_ITEMS:
        return None
    plain = [kind.partition(" ")[0] for kind in kinds]
    reasoning = max((number for number in range(index) if plain[number] == "reasoning"), default=-1)
    if plain[index] == "reasoning" and reasoning != index - 1:
        reasoning = -1
    return IssuedItem(
        kind=plain[index],
        reply=reply,
        index=index,
        after_reasoning=make_id(sealer, reply, kinds, reasoning) if reasoning >= 0 else "",
        next_kind=plain[index + 1] if index + 1 < len(plain) else "",
        fields=("phase",) if plain[index] != kinds[index] else (),
    )


_Piece: TypeAlias = "str | list[str] | Fault"
"""Text, split or to be split, and faults in the middle of it."""
_DEFAULT_CACHE_SECONDS = 1800
_CACHE_SECONDS = {"12h": 43_200}
_MARK = "prompt_cache_breakpoint"
_HIT: Fields = {"type": "cache_hit"}
_MAX_MARKS = 4
"""How many breakpoints of a request store a prefix: the last ones."""
_EPOCH = 1_780_000_000
_HIDDEN_REASONING_TOKENS = 64
_INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}
_TOKEN_BYTES = (450, 1_200)
"""The size of encrypted content in recorded traffic, roughly."""
_PADDING = 16
_NOISE = 600
_SERVER_EVENTS = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
}
_ARGUMENTS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "code_interpreter_call": ("code_interpreter_call_code", "code"),
}
"""The name of the events with the input of a call, and its field."""
_FUNCTION = {"type": "function", "description": None, "name": "", "parameters": None, "strict": True}


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


def _cached_block(value: Any) -> CachedBlock:
    form = jsonio.encode(_without_marks(value))
    return CachedBlock(form, len(form) // 4)


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_marks(item) for name, item in value.items() if name != _MARK}


def _cached_blocks(body: Fields, *, has_breakpoints: bool) -> list[CachedBlock]:
    """Return tools, instructions and items, with the prefixes that the provider stores.

    Models without breakpoints store the prefix before every item. Others store those that end at a breakpoint: at marks in the
    content, and at the last item that the client has added; a later request reads those that end at any of its breakpoints.
    """
    options = body.get("prompt_cache_options") or {}
    seconds = _CACHE_SECONDS.get(text(options, "ttl"), _DEFAULT_CACHE_SECONDS)
    blocks = [_cached_block(body.get("tools")), _cached_block(body.get("instructions"))]
    if not has_breakpoints:
        blocks += [_cached_block(item) for item in input_items(body)]
        return [block._replace(seconds=seconds) for block in blocks]
    is_implicit = options.get("mode") != "explicit"
    stored: dict[int, int] = {}
    last = 0
    for item in input_items(body):
        content, output = item.get("content"), item.get("output")
        for value in content if isinstance(content, list) else [content]:
            part = {"type": "input_text", "text": value} if isinstance(value, str) else value
            index = len(blocks)
            holders = [part, *(output if isinstance(output, list) else ())]
            marks = [mark for holder in holders if isinstance(holder, dict) and (mark := holder.get(_MARK))]
            is_added = item.get("role") == "user" or text(item, "type").endswith("call_output")
            block = _cached_block({**item, "content": part})
            blocks.append(block._replace(is_boundary=bool(marks) or (is_added and is_implicit)))
            if marks:
                stored[index] = _CACHE_SECONDS.get(text(marks[-1], "ttl"), seconds)
            last = index if is_added or not last else last
    if is_implicit:
        stored = {last: seconds, **stored}
    for index in sorted(stored)[-_MAX_MARKS:]:
        blocks[index] = blocks[index]._replace(seconds=stored[index])
    return blocks


class ResponseWriter:
    """A response: planned from the steps of a turn, then written as a body or as events."""

    def __init__(self, request: ResponsesTurnRequest, random: SeededRandom) -> None:
        self.request, self.random = request, random
        parsed = request.request
        self.traits = parsed.target.traits
        self.reply = content_digest(parsed.digest, parsed.account, parsed.provider.name)
        self.id = f"resp_{self.reply}{random.sealer.mac('resp', self.reply)}{random.hex(18)}"
        self.created_at, self.seconds = _EPOCH + int(self.reply[:6], 16), random.random.randrange(1, 20)
        self.steps: list[PlannedItem | Fault] = []
        """The items, with faults between them."""
        self.items: list[PlannedItem] = []
        self.status: Literal["completed", "incomplete", "failed"] = "completed"
        self.incomplete_reason: str | None = None
        self.error: script.StreamError | None = None
        self.reasoning_tokens = self.answer_tokens = self.cached_tokens = self.cache_write_tokens = 0
        self.cache_fields: Fields = {}
        """The cache options that the response repeats, and the cause of a cache miss."""
        self.pieces: list[bytes | Fault] = []
        self.number, self.noise = 0, b""

    def plan(self, turn: Turn) -> None:
        """Make the items. All random choices that a body and a stream share are made here."""
        request, random = self.request, self.random
        if request.compaction and not any(isinstance(step, script.Compact) for step in turn):
            has_calls = any(isinstance(step, script.CallTool) for step in turn)  # a client may drop what precedes it
            turn = (script.Compact(), *turn) if has_calls else (*turn, script.Compact())
        self._add_items(turn)
        self._apply_limit()
        self.items = [step for step in self.steps if isinstance(step, PlannedItem)]
        if self.status == "incomplete" and self.items:
            self.items[-1].status = "incomplete"
        if self.status == "completed" and (not self.items or self.items[-1].kind == "reasoning"):
            self.items.append(PlannedItem(kind="message"))  # a finished response never ends with reasoning
            self.steps.append(self.items[-1])
        parsed = request.request
        key = parsed.body.get("prompt_cache_key")
        blocks = _cached_blocks(parsed.body, has_breakpoints=self.traits.cache_breakpoints)
        used = parsed.prompt_cache.use(f"{parsed.cache_scope} {key}", blocks, lookback=0)
        self.cached_tokens = min(used.read, request.prompt_tokens)
        if self.traits.cache_breakpoints:
            self.cache_write_tokens = min(used.written, request.prompt_tokens - self.cached_tokens)
            self._diagnose(blocks)
        else:
            self.cached_tokens = self.cached_tokens // 128 * 128
        phase = " with phase" if self.traits.phases else ""
        kinds = [item.kind + (phase if item.kind == "message" else "") for item in self.items]
        for index, item in enumerate(self.items):
            item.id = make_id(random.sealer, self.reply, kinds, index)
            self._fill(index, item)

    def _diagnose(self, blocks: list[CachedBlock]) -> None:
        """Store the parts of the request, and compare them with those of another one if the request asks for it."""
        parsed, body = self.request.request, self.request.request.body
        text_options, reasoning = body.get("text") or {}, body.get("reasoning") or {}
        settings = {
            "model_changed": parsed.requested_model, "service_tier_changed": body.get("service_tier"),
            "prompt_cache_key_changed": body.get("prompt_cache_key"), "tools_changed": body.get("tools"),
            "text_format_changed": text_options.get("format"), "reasoning_effort_changed": reasoning.get("effort"),
            "verbosity_changed": text_options.get("verbosity"),
        }  # fmt: skip
        digests = {name: content_digest(jsonio.encode(value)) for name, value in settings.items()}
        parts = RequestParts(digests, tuple(blocks[1:]), self.request.prompt_tokens)
        parsed.prompt_cache.store_request(parsed.account, self.id, parts)
        options = body.get("prompt_cache_options")
        if options is None:
            return
        self.cache_fields["prompt_cache_options"] = {"mode": "implicit", "ttl": "30m", **options}
        if not (id := options.get("comparison_response_id")):
            return
        earlier = parsed.prompt_cache.find_request(parsed.account, id)
        diagnosis: Fields = {"type": "comparison_response_not_found"}
        if earlier is not None:
            reason = parts.changed_setting(earlier)
            missed = earlier.tokens if reason else parts.changed_tokens(earlier)
            added = {block.form for block in parts.blocks} - {block.form for block in earlier.blocks}
            is_compacted = any(b'"type":"compaction"' in form for form in added)
            reason = reason or ("context_compacted" if is_compacted else "input_changed")
            diagnosis = {"type": "cache_miss", "reason": reason, "cache_missed_tokens": missed} if missed else _HIT
        self.cache_fields["prompt_cache_diagnostics"] = diagnosis

    def _add_items(self, turn: Turn) -> None:
        """Add the items up to the step that ends the response. Text after a fault continues the same message."""
        for step in turn:
            faults: list[Any] = list(takewhile(lambda item: isinstance(item, Fault), reversed(self.steps)))
            last = self.steps[-len(faults) - 1] if len(faults) < len(self.steps) else None
            match step:
                case script.StreamError():
                    self.status, self.error = "failed", step
                    return
                case script.Stop() | script.Pause():
                    if isinstance(step, script.Stop) and step.reason in _INCOMPLETE:
                        self.status, self.incomplete_reason = "incomplete", _INCOMPLETE[step.reason]
                    return
                case script.Disconnect() | script.Stall() | script.SlowStream():
                    self.steps.append(step)
                case script.Say(text, cites) if faults and isinstance(last, PlannedItem) and last.kind == "message":
                    del self.steps[-len(faults) :]
                    last.pieces += [*faults[::-1], text]
                    last.text += join_text(text)
                    last.cites += cites
                case _:
                    self.steps.append(self._planned(step))

    def _planned(self, step: script.Step) -> PlannedItem:
        match step:
            case script.Think(text, redacted):
                hidden = redacted or not self.request.shows_thinking
                return PlannedItem(kind="reasoning", pieces=[text], text=join_text(text), is_hidden=hidden)
            case script.Say(text, cites):
                return PlannedItem(kind="message", pieces=[text], text=join_text(text), cites=cites)
            case script.Refuse(text):
                return PlannedItem(kind="message", pieces=[text], text=text, is_refusal=True)
            case script.CallTool(name, args):
                is_custom = any(tool.name == name and tool.is_custom for tool in self.request.tools)
                values = list(args.values()) if is_custom and isinstance(args, dict) else []
                if len(values) == 1 and isinstance(values[0], str):  # the text for a custom tool
                    args = values[0]
                input = args if isinstance(args, str) else jsonio.encode(args).decode()
                kind = "custom_tool_call" if is_custom else "function_call"
                return PlannedItem(kind=kind, pieces=[input], text=input, step=step)
            case script.Search():
                return PlannedItem(kind="web_search_call", step=step)
            case script.RunCode(code):
                return PlannedItem(kind="code_interpreter_call", pieces=[code], text=code, step=step)
            case script.SendImage():
                return PlannedItem(kind="image_generation_call", step=step)
            case script.Compact():
                return PlannedItem(kind="compaction", text=summary_of(step, self.request))
        raise TypeError(f"{step!r} is not a part of a response")

    def _apply_limit(self) -> None:
        """Count the output tokens; end the response where the limit is reached."""
        for index, item in enumerate(self.steps):
            if not isinstance(item, PlannedItem):
                continue
            cost = estimate_tokens(item.text) or (_HIDDEN_REASONING_TOKENS if item.kind == "reasoning" else 0)
            left = cost
            if (limit := self.request.max_tokens) is not None and item.kind != "compaction":
                left = max(limit - self.reasoning_tokens - self.answer_tokens, 0)
            if item.kind == "reasoning":
                self.reasoning_tokens += min(cost, left)
            else:
                self.answer_tokens += min(cost, left)
            if cost > left:
                pieces = [part for piece in item.pieces for part in (piece if isinstance(piece, list) else [piece])]
                item.text, item.pieces = item.text[: left * 4], [*cut_pieces(pieces, left * 4)]
                del self.steps[index + (left > 0) :]
                self.status, self.incomplete_reason, self.error = "incomplete", "max_output_tokens", None
                break

    def _fill(self, index: int, item: PlannedItem) -> None:
        head: Fields = {"id": item.id, "type": item.kind, "status": "in_progress"}
        if item.kind == "reasoning":
            self._fill_reasoning(item)
        elif item.kind == "message":
            has_more = any(other.kind not in ("message", "compaction") for other in self.items[index + 1 :])
            phase = {"phase": "commentary" if has_more else "final_answer"} if self.traits.phases else {}
            item.added = head | {"content": [], **phase, "role": "assistant"}
            item.done = item.added | {"status": item.status, "content": [_message_part(item)]}
        elif item.kind == "compaction":
            head = {"id": item.id, "type": item.kind}
            item.added = head | {"encrypted_content": self._encrypted(item, "compaction.added")}
            item.done = head | {"encrypted_content": self._encrypted(item, "compaction")}
        elif isinstance(call := item.step, script.CallTool):
            _, key = _ARGUMENTS[item.kind]
            item.added = head | {key: "", "call_id": call.id or f"call_{self.random.word(24)}", "name": call.name}
            namespaces = [tool.namespace for tool in self.request.tools if tool.name == call.name]
            if namespaces and "" not in namespaces:
                item.added["namespace"] = namespaces[0]
            item.done = item.added | {key: item.text, "status": item.status}
        else:
            self._fill_server_tool(item, head)

    def _fill_reasoning(self, item: PlannedItem) -> None:
        responses = self.request.request.target.provider.responses
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
        item.done |= {"summary": summary, "encrypted_content": self._encrypted(item, "reasoning")}
        if not responses.reasoning_status:  # OpenAI and Azure: a first version that is not valid in a request
            item.added = head | {"encrypted_content": self._encrypted(item, "reasoning.added")}

    def _encrypted(self, item: PlannedItem, kind: str) -> str:
        """Return encrypted content, with the first bytes of a Fernet token: a version and the time."""
        parsed, compacted = self.request.request, None
        if kind == "compaction":
            turns = self.request.turn + (self.items[0] is not item)  # with this reply if it starts before
            compacted = CompactedMessages(turns=turns, summary=item.text)
        token = IssuedToken(
            kind=kind, id=item.id, provider=parsed.provider.name, account=parsed.account, model=parsed.model,
            compacted=compacted,
        )  # fmt: skip
        size = min(self.random.random.randrange(*_TOKEN_BYTES) + len(item.text), 2_900)
        nonce = b"\x80" + self.created_at.to_bytes(8, "big") + self.random.random.randbytes(3)
        return self.random.sealer.seal(token, nonce, size).replace("+", "-").replace("/", "_")

    def _fill_server_tool(self, item: PlannedItem, head: Fields) -> None:
        include = self.request.request.body.get("include") or []
        item.added = head
        match item.step:
            case script.Search(query, found):
                action: Fields = {"type": "search", "queries": [query], "query": query}
                if "web_search_call.action.sources" in include:
                    action["sources"] = [{"type": "url", "url": result.url} for result in found]
                item.done = head | {"action": action, "status": "completed"}
            case script.RunCode(_, output, ok):
                logs = [{"type": "logs", "logs": output}] if "code_interpreter_call.outputs" in include else None
                item.added = head | {
                    "code": "",
                    "container_id": f"cntr_{self.random.hex(48)}",
                    "outputs": [] if logs else None,
                }
                item.done = item.added | {"code": item.text, "outputs": logs, "status": "completed" if ok else "failed"}
            case script.SendImage(data, media_type):
                item.done = head | {
                    "background": "opaque", "output_format": media_type.removeprefix("image/"), "quality": "medium",
                    "result": data, "revised_prompt": "An image, as requested.", "size": "1024x1024",
                    "status": "completed",
                }  # fmt: skip

    def response_object(self, status: str, **fields: Any) -> Fields:
        """Return the response with the options of the request, and the given fields."""
        body, traits = self.request.request.body, self.traits
        reasoning, text_options = body.get("reasoning") or {}, body.get("text") or {}
        summary = reasoning.get("summary")
        repeated = (
            "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key",
            "prompt_cache_retention", "safety_identifier", "user",
        )  # fmt: skip
        conversation = body.get("conversation")
        format = text_options.get("format")
        if not isinstance(format, dict):
            format = {"type": "text"}
        elif "schema" in format:
            format = {"type": "json_schema", "description": None, "strict": False} | format
        return {
            "id": self.id, "object": "response", "created_at": self.created_at, "status": status,
            **{key: body.get(key) for key in repeated},
            **({"conversation": {"id": conversation}} if isinstance(conversation, str) else {}),
            "background": body.get("background") is True, "completed_at": None, "error": None, "frequency_penalty": 0.0,
            "incomplete_details": None, "metadata": body.get("metadata") or {}, **self.cache_fields,
            "model": self.request.request.requested_model, "moderation": None, "output": [],
            "parallel_tool_calls": self.request.parallel, "presence_penalty": 0.0,
            "reasoning": {
                "context": reasoning.get("context") or traits.reasoning_context or "all_turns",
                "effort": reasoning.get("effort") or traits.effort_default or "medium",
                "mode": "standard",
                "summary": "detailed" if summary == "auto" else summary,
            },
            "service_tier": body.get("service_tier") or "default",
            "store": body.get("store") is not False,
            "temperature": _given(body.get("temperature"), 1.0),
            "text": {"format": format, "verbosity": text_options.get("verbosity") or "medium"},
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": [_FUNCTION | tool if tool.get("type") == "function" else tool for tool in body.get("tools") or []],
            "top_logprobs": _given(body.get("top_logprobs"), 0), "top_p": _given(body.get("top_p"), 1.0),
            "truncation": body.get("truncation") or "disabled", "usage": None,
            **fields,
        }  # fmt: skip

    def finished_response(self) -> Fields:
        fields: Fields = {"output": [item.done for item in self.items], "usage": self._usage()}
        if self.status == "completed":
            fields["completed_at"] = self.created_at + self.seconds
        if self.incomplete_reason:
            fields["incomplete_details"] = {"reason": self.incomplete_reason}
        return self.response_object(self.status, **fields)

    def compacted_window(self) -> Fields:
        """Return the messages of the user and the compaction, which replace the conversation."""
        output: list[Fields] = []
        for message in self.request.user_items:
            content = message.get("content")
            parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            fields = {"id": f"msg_{self.random.hex(48)}", "type": "message", "status": "completed"}
            output.append(fields | message | {"content": parts})
        output += [item.done for item in self.items]
        head = {"id": self.id, "object": "response.compaction", "created_at": self.created_at}
        return {**head, "output": output, "usage": self._usage()}

    def _usage(self) -> Fields:
        output = self.reasoning_tokens + self.answer_tokens
        return {
            "input_tokens": self.request.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": self.cached_tokens,
                "cache_write_tokens": self.cache_write_tokens,
            },
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.request.prompt_tokens + output,
        }

    # --- the events of a stream ---

    def events(self) -> list[bytes | Fault]:
        options = self.request.request.body.get("stream_options")
        is_padded = not (isinstance(options, dict) and options.get("include_obfuscation") is False)
        self.noise = self.random.word(_NOISE).encode() if is_padded else b""
        started = self.response_object("in_progress")
        self._event("response.created", response=started)
        self._event("response.in_progress", response=started)
        index = 0
        for step in self.steps:
            if isinstance(step, PlannedItem):
                self._write_item(index, step)
                index += 1
            else:
                self.pieces.append(step)
        if self.error is not None:
            self._error(self.error)
        else:
            self._event(f"response.{self.status}", response=self.finished_response())
        return self.pieces

    def _error(self, error: script.StreamError) -> None:
        status = {429: 429, 503: 503, 529: 503}.get(error.status, 500)
        type, code, message = errors.DEFAULT_ERRORS["openai"][status]
        code, message = code or "server_error", error.message or message
        self._event("error", error={"type": type, "code": code, "message": message, "param": None})
        code = code if code == "rate_limit_exceeded" else "server_error"  # a response has fewer codes
        failed = self.response_object("failed", error={"code": code, "message": message})
        self._event("response.failed", response=failed)

    def _event(self, type: str, **fields: Any) -> None:
        data = jsonio.encode({"type": type, **fields, "sequence_number": self.number})
        self.pieces.append(b"event: %b\ndata: %b\n\n" % (type.encode(), data))
        self.number += 1

    def _deltas(self, type: str, pieces: list[_Piece], **fields: Any) -> None:
        """Write the pieces of a text. Only the text, the padding and the number differ between the events."""
        head = b'event: %b\ndata: {"type":"%b",%b,"delta":' % (
            type.encode(),
            type.encode(),
            jsonio.encode(fields)[1:-1],
        )
        noise, number = self.noise, self.number
        for piece in pieces:
            if isinstance(piece, Fault):
                self.pieces.append(piece)
                continue
            for part in self.random.pieces(piece):
                tail = b',"sequence_number":%d}\n\n' % number
                if noise:
                    start = number * 7 % (_NOISE - _PADDING)
                    tail = b',"obfuscation":"%b"%b' % (noise[start : start + _PADDING - len(part) % _PADDING], tail)
                self.pieces.append(b"%b%b%b" % (head, encode_piece(part), tail))
                number += 1
        self.number = number

    def _write_item(self, index: int, item: PlannedItem) -> None:
        self._event("response.output_item.added", item=item.added, output_index=index)
        place: Fields = {"item_id": item.id, "output_index": index}
        match item.kind:
            case "reasoning":
                self._reasoning(item, place)
            case "message":
                self._message(item, place)
            case "function_call" | "custom_tool_call":
                self._input(item, place)
            case "code_interpreter_call":
                self._event("response.code_interpreter_call.in_progress", **place)
                self._input(item, place)
                self._event("response.code_interpreter_call.interpreting", **place)
                self._event("response.code_interpreter_call.completed", **place)
            case "compaction":
                self._event("response.compaction.compacting", **place)
            case _:
                self._server_tool(item, place)
        self._event("response.output_item.done", item=item.done, output_index=index)

    def _input(self, item: PlannedItem, place: Fields) -> None:
        name, key = _ARGUMENTS[item.kind]
        self._deltas(f"response.{name}.delta", item.pieces, **place)
        self._event(f"response.{name}.done", **{key: item.text}, **place)

    def _reasoning(self, item: PlannedItem, place: Fields) -> None:
        for part in item.done.get("content", ()):
            self._part("content_part", "reasoning_text", part, item.pieces, {"content_index": 0, **place})
        for index, part in enumerate(item.done["summary"]):
            pieces: list[_Piece] = item.pieces if len(item.summary) == 1 else [part["text"]]
            place = {**place, "summary_index": index}
            self._part("reasoning_summary_part", "reasoning_summary_text", part, pieces, place)

    def _message(self, item: PlannedItem, place: Fields) -> None:
        (part,) = item.done["content"]
        logprobs: Fields = {} if item.is_refusal else {"logprobs": []}
        self._part("content_part", part["type"], part, item.pieces, {"content_index": 0, **place}, **logprobs)

    def _part(
        self, family: str, name: str, part: Fields, pieces: list[_Piece], place: Fields, **fields: list[Any]
    ) -> None:
        """Write a part of an item: its start, its text in deltas, its annotations and its end."""
        key = "refusal" if name == "refusal" else "text"
        empty = {"annotations": [], key: ""}
        start = {field: empty.get(field, value) for field, value in part.items()}
        self._event(f"response.{family}.added", part=start, **place)
        self._deltas(f"response.{name}.delta", pieces, **place, **fields)
        for index, annotation in enumerate(part.get("annotations", ())):
            self._event("response.output_text.annotation.added", annotation=annotation, annotation_index=index, **place)
        self._event(f"response.{name}.done", **{key: part[key]}, **fields, **place)
        self._event(f"response.{family}.done", part=part, **place)

    def _server_tool(self, item: PlannedItem, place: Fields) -> None:
        for name in _SERVER_EVENTS[item.kind]:
            if name == "completed" and isinstance(item.step, script.SendImage):
                fields = {key: item.done[key] for key in ("size", "quality", "background", "output_format")}
                fields |= {"partial_image_index": 0, "partial_image_b64": item.done["result"]}
                self._event("response.image_generation_call.partial_image", **place, **fields)
            self._event(f"response.{item.kind}.{name}", **place)


def _message_part(item: PlannedItem) -> Fields:
    if item.is_refusal:
        return {"type": "refusal", "refusal": item.text}
    annotations = []
    for cite in item.cites:
        start = max(item.text.find(cite.quote), 0) if cite.quote else max(len(item.text) - 1, 0)
        place = {"end_index": min(start + len(cite.quote or " "), len(item.text)), "start_index": start}
        annotations.append({"type": "url_citation", **place, "title": cite.title, "url": cite.url})
    return {"type": "output_text", "annotations": annotations, "logprobs": [], "text": item.text}


def _given(value: Any, default: float) -> Any:
    return default if value is None else value


def write(request: ResponsesTurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    writer = ResponseWriter(request, random)
    writer.plan(turn)
    if request.request.stream:
        return writer.events()
    is_window = request.request.method == "compact"
    return add_faults(jsonio.encode(writer.compacted_window() if is_window else writer.finished_response()), turn)


DIALECT = SimDialect(
    to_turn_request=to_turn_request,
    write=write,
    count=lambda request: {"object": "response.input_tokens", "input_tokens": request.prompt_tokens},
    read_id=read_id,
)
