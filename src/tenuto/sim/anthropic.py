"""The Messages dialect: read a request that no rule refuses, and write a turn as one body or as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from tenuto.core import jsonio
from tenuto.rules.anthropic_body import (
    REASONING,
    SERVER_CALLS,
    MessagesBody,
    forms_of,
    is_server_result,
    tool_changes_digest,
    trigger_of,
)
from tenuto.rules.body import Fields, text
from tenuto.rules.issued_tokens import CompactedMessages, IssuedItem, IssuedToken, content_digest
from tenuto.sim import errors, script
from tenuto.sim.dialects import (
    OfferedTool,
    ParsedRequest,
    PastMessage,
    SimDialect,
    TurnRequest,
    add_faults,
    cut_text,
    encode_piece,
    summary_of,
)
from tenuto.sim.prompt_cache import CachedBlock, CacheUse, RequestParts
from tenuto.sim.script import Fault, Step, Turn, join_text, split_compaction
from tenuto.sim.tokens import BASE62, SeededRandom, TokenSealer, estimate_tokens


class MessagesTurnRequest(TurnRequest, frozen=True, kw_only=True):
    """The content of a Messages request, with its body."""

    body: MessagesBody


def to_turn_request(body: MessagesBody, request: ParsedRequest) -> MessagesTurnRequest:
    fields = body.body
    choice = fields.get("tool_choice") or {}
    return MessagesTurnRequest(
        body=body,
        request=request,
        turn=_count_turns(body),
        system=_system(fields.get("system")),
        messages=tuple(_messages(body)),
        tools=tuple(
            OfferedTool(name=tool["name"], schema=tool.get("input_schema") or {}) for _, tool in body.custom_tools()
        ),
        tool_choice={"any": "required", "tool": choice.get("name")}.get(body.choice, body.choice) or "auto",
        parallel=not choice.get("disable_parallel_tool_use"),
        thinks=body.thinks,
        shows_thinking=_shows_thinking(body),
        max_tokens=fields.get("max_tokens"),
        stop=tuple(filter(None, fields.get("stop_sequences") or ())),
        schema=_schema(body),
        prompt_tokens=body.prompt_tokens,
        compaction=_compaction(body),
        summary=text(body.summary.raw, "content") if body.summary else "",
    )


def _count_turns(body: MessagesBody) -> int:
    """Count the replies; a compaction knows the number of those that it replaces."""
    replies = [message.i for message in body.messages if message.role == "assistant" and not message.is_compaction]
    raw = body.summary.raw if body.summary else {}
    issued = body.tokens.find(text(raw, "signature") or text(raw, "encrypted_content"))
    if body.summary is None or issued is None or issued.compacted is None:
        return len(replies)
    return issued.compacted.turns + sum(index >= body.summary.i for index in replies)


def _compaction(body: MessagesBody) -> Literal["", "alone", "inline"]:
    if body.is_summary_request:
        return "alone"
    _, edit = body.compaction_edit or ("", None)
    if edit is None or body.open_turn or body.prompt_tokens <= trigger_of(edit):
        return ""
    return "alone" if edit.get("pause_after_compaction") else "inline"


def _shows_thinking(body: MessagesBody) -> bool:
    display = body.object("thinking").get("display")
    return display != "omitted" if display else not body.traits.omits_thinking


def _schema(body: MessagesBody) -> Fields | None:
    output = body.object("output_config").get("format") or body.body.get("output_format")
    schema = output.get("schema") if isinstance(output, dict) else None
    return schema if isinstance(schema, dict) else None


def _system(system: str | list[Fields] | None) -> str:
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system or [])


def _messages(body: MessagesBody) -> Iterator[PastMessage]:
    for message in body.messages:
        results = [block.raw for block in message.blocks if block.type == "tool_result"]
        yield PastMessage(
            role="system" if message.role == "system" else "user" if message.role == "user" else "assistant",
            texts=tuple(block.text for block in message.blocks if block.type == "text"),
            calls=sum(block.type == "tool_use" for block in message.blocks),
            results=tuple(_result_text(raw.get("content")) for raw in results),
        )


def _result_text(content: str | list[Fields] | None) -> str:
    return "".join(text(block, "text") for block in content) if isinstance(content, list) else content or ""


_SIGNATURE_SIZE, _INDEX_SIZE = 210, 138
_TOKEN_OVERHEAD = 32
"""The size of a sealed token without its content, in bytes."""
_DIRECT = {"type": "direct"}
_PROMPT_SETTINGS = ("thinking", "tool_choice", "output_config")
"""Settings that are a part of the prompt."""
_DROP_REASONS = {
    "ANT-THINK-10": "model_binding_mismatch",
    "ANT-THINK-11": "organization_binding_mismatch",
    "ANT-THINK-12": "prefix_binding_mismatch",
}


_HEAD, _TAIL = 14, 8
_CALL_KINDS = {
    "reasoning": IssuedItem(kind="tool_use", started_with_reasoning=True, has_reasoning=True, fields=("caller",)),
    "silent": IssuedItem(kind="tool_use", started_with_reasoning=False, fields=("caller",)),
    "plain": IssuedItem(kind="tool_use", fields=("caller",)),
}
"""Calls of a reply with reasoning; of one that should have started with reasoning and did not; others. The end of an id
tells the kind."""


def read_call_id(sealer: TokenSealer, id: str) -> IssuedItem | None:
    """Return the call that an id was issued for; None if this simulator did not issue it."""
    head, tail = id[8 : 8 + _HEAD], id[8 + _HEAD :]
    if not id.startswith("toolu_01") or len(tail) != _TAIL:
        return None
    return next((item for kind, item in _CALL_KINDS.items() if _id_tail(sealer, head, kind) == tail), None)


def _id_tail(sealer: TokenSealer, head: str, kind: str) -> str:
    number = int(sealer.mac(head, kind), 16)
    return "".join(BASE62[number // 62**place % 62] for place in range(_TAIL))


def _seal(random: SeededRandom, token: IssuedToken, size: int) -> str:
    """Seal a token. A multiple of three bytes needs no padding, which a client could remove unnoticed."""
    size = max(size, len(msgspec.json.encode(token)) + _TOKEN_OVERHEAD)
    return random.token(token, size + -size % 3)


def _seal_subject(random: SeededRandom, kind: str, subject: str, size: int) -> str:
    return _seal(random, IssuedToken(kind=kind, contents=(content_digest(subject),)), size)


def _server_call(random: SeededRandom, name: str, input: Fields) -> Fields:
    return {"type": "server_tool_use", "id": f"srvtoolu_01{random.word(22)}", "name": name, "input": input}


def _search_result(random: SeededRandom, id: str, results: Iterable[script.SearchResult]) -> Fields:
    content = []
    for result in results:
        token = _seal_subject(random, "encrypted_content", result.url, 600 + len(result.text))
        page = {"title": result.title, "url": result.url, "encrypted_content": token, "page_age": "3 weeks ago"}
        content.append({"type": "web_search_result", **page})
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": content, "caller": _DIRECT}


def _citation(random: SeededRandom, cite: script.Cite) -> Fields:
    token = _seal_subject(random, "encrypted_index", cite.url, _INDEX_SIZE)
    place = {"cited_text": cite.quote, "url": cite.url, "title": cite.title}
    return {"type": "web_search_result_location", **place, "encrypted_index": token}


def _code_form(body: MessagesBody) -> str:
    """Return how the tools run code: `bash`, `python`, or `encrypted` if a search filters its results with code."""
    types = [text(tool, "type") for _, tool in body.tools()]
    if any(type.startswith("web_search_2026") for type in types):
        return "encrypted"
    return "python" if "code_execution_20250522" in types else "bash"


def _code_call(random: SeededRandom, form: str, code: str) -> Fields:
    if form == "bash":
        return _server_call(random, "bash_code_execution", {"command": code})
    return _server_call(random, "code_execution", {"code": code})


def _code_result(random: SeededRandom, form: str, id: str, step: script.RunCode) -> Fields:
    output, error = (step.output, "") if step.ok else ("", step.output)
    rest = {"stderr": error, "return_code": int(not step.ok), "content": []}
    name = "bash_code_execution" if form == "bash" else "code_execution"
    content: Fields = {"type": f"{name}_result", "stdout": output, **rest}
    if form == "encrypted":
        token = _seal_subject(random, "encrypted_stdout", id, 160 + len(output))
        content = {"type": "encrypted_code_execution_result", "encrypted_stdout": token, **rest}
    return {"type": f"{name}_tool_result", "tool_use_id": id, "content": content}


def _late_result(random: SeededRandom, call: Fields, body: MessagesBody) -> Fields:
    id, name = call["id"], call["name"]
    if call["type"] == "mcp_tool_use":
        return {"type": "mcp_tool_result", "tool_use_id": id, "is_error": False, "content": []}
    if name == "web_search":
        return _search_result(random, id, [script.SearchResult("https://example.org/more", "More about it")])
    if name in ("bash_code_execution", "code_execution"):
        form = "bash" if name == "bash_code_execution" else _code_form(body)
        return _code_result(random, form, id, script.RunCode("", "done\n"))
    error = {"type": f"{name}_tool_result_error", "error_code": "unavailable"}
    return {"type": f"{name}_tool_result", "tool_use_id": id, "content": error}


class ReplyBlock(NamedTuple):
    """A block, and its text or its arguments in the pieces of a stream."""

    block: Fields
    text: str | list[str] = ""
    joined: bool = False
    """Whether it continues the text of the block before, after a fault."""


class MessagesReply:
    """The blocks of one reply. It is complete when `reason` is set."""

    def __init__(self, request: MessagesTurnRequest, random: SeededRandom) -> None:
        self.request, self.body, self.random = request, request.body, random
        self.parts: list[ReplyBlock | Fault | script.StreamError] = []
        self.blocks: list[Fields] = []
        self.reason = ""
        self.sequence: str | None = None
        self.details: Fields | None = None
        self.output_tokens = self.thinking_tokens = self.searches = 0
        self.has_run_code = False
        self.summary_tokens: int | None = None
        """The output tokens of a compaction, which are not among those of the reply."""

    def play(self, turn: Turn) -> None:
        """Add the steps of a turn up to its end. A compaction is the first block."""
        compaction, turn = split_compaction(turn)
        if self.request.compaction:
            self._add_steps(compaction or (script.Compact(),))
        if self.request.compaction == "alone":
            self.reason = "compaction"
            return
        self._add_late_results()
        if self._needs_reasoning(turn):
            self._think(script.Think())
        self._add_steps(turn)
        called = any(block["type"] == "tool_use" for block in self.blocks)
        self.reason = self.reason or ("tool_use" if called else "end_turn")

    def _add_steps(self, turn: Turn) -> None:
        for step in turn:
            if self._tokens_left() <= 0 and not self.reason:
                self.reason = "max_tokens"
            if self.reason:
                break
            self._add_step(step)

    def _add_step(self, step: Step) -> None:
        match step:
            case script.Think():
                self._think(step)
            case script.Say():
                self._say(step)
            case script.CallTool():
                self._call(step)
            case script.Search(query, found):
                call = _server_call(self.random, "web_search", {"query": query})
                self.searches += self._serve(call, _search_result(self.random, call["id"], found))
            case script.RunCode(code):
                form = _code_form(self.body)
                call = _code_call(self.random, form, code)
                self.has_run_code |= self._serve(call, _code_result(self.random, form, call["id"], step))
            case script.SendImage(data, media_type):  # Claude has no images in replies
                self._say(script.Say(f"![picture](data:{media_type};base64,{data})"))
            case script.Refuse(text, category):
                self.reason = "refusal"
                self.details = {"type": "refusal", "category": category or None, "explanation": text}
                self.output_tokens += 5
            case script.Pause():
                self._pause()
            case script.Stop("stop_sequence", sequence):
                self.reason, self.sequence = "stop_sequence", sequence or next(iter(self.request.stop), "")
            case script.Stop("filter"):
                self.reason = "refusal"
                self.details = {"type": "refusal", "category": None, "explanation": None}
            case script.Stop():
                self.reason = "max_tokens"
            case script.Compact():
                self._compact(step)
            case script.StreamError() | script.Disconnect() | script.Stall() | script.SlowStream():
                self.parts.append(step)

    def _needs_reasoning(self, turn: Turn) -> bool:
        """Tell whether a turn without reasoning at its start gets some, because the next request would be refused.

        With a budget, the id of a call says that it had none; an id from the script cannot say it.
        """
        steps = [step for step in turn if not isinstance(step, Fault)]
        if self.body.is_claude:
            has_own_id = any(isinstance(step, script.CallTool) and step.id for step in steps)
            return self.body.mode == "enabled" and has_own_id and not isinstance(steps[0], script.Think)
        return self.request.thinks and not any(isinstance(step, script.Think) for step in steps)

    def _tokens_left(self) -> int:
        limit = self.request.max_tokens
        return 1 << 40 if limit is None else limit - self.output_tokens

    def _fit(self, value: str | list[str]) -> str | list[str]:
        """Cut a text at `max_tokens` and count it."""
        left = max(0, self._tokens_left())
        if estimate_tokens(join_text(value)) > left:
            value, self.reason = cut_text(value, left * 4), "max_tokens"
        self.output_tokens += estimate_tokens(join_text(value))
        return value

    def _add(self, block: Fields, text: str | list[str] = "") -> None:
        self.parts.append(ReplyBlock(block, text))
        self.blocks.append(block)

    def _think(self, step: script.Think) -> None:
        value = self._fit(step.text)
        whole = join_text(value)
        self.thinking_tokens += estimate_tokens(whole)
        shown = whole if self.request.shows_thinking and not step.redacted else ""
        kind = "redacted_thinking" if step.redacted else "thinking"
        token = self._sign(kind, shown, len(whole.encode("utf-8", "replace")))
        if step.redacted:
            self._add({"type": kind, "data": token})
        else:
            self._add({"type": kind, "thinking": shown, "signature": token}, value if shown else "")

    def _sign(self, kind: str, shown: str, size: int) -> str:
        request, body = self.request.request, self.body
        prefix = body.turn_prefixes[len(body.turns) - bool(body.open_turn)][0]
        if self.blocks and self.blocks[0]["type"] == "compaction":
            prefix = body.digest_after(self.blocks[0])
        token = IssuedToken(
            kind=kind, provider=request.provider.name, account=request.account, model=request.model,
            index=len(self.blocks), contents=() if kind == "redacted_thinking" else (content_digest(shown),),
            length=len(shown), before=content_digest(*forms_of(self.blocks)),
            reasoning_before=sum(block["type"] in REASONING for block in self.blocks),
            offset=len(body.open_turn.blocks) if body.open_turn else 0,
            prefix=prefix if body.traits.prefix_bound else "",
        )  # fmt: skip
        return _seal(self.random, token, _SIGNATURE_SIZE + size + self.random.random.randrange(12))

    def _compact(self, step: script.Compact) -> None:
        """Add the summary. On demand it has a signature, in a reply it has encrypted content."""
        if step.text is None:
            self.summary_tokens = 0
            self._add({"type": "compaction", "content": None})
            return
        content, changes = summary_of(step, self.request), _tool_changes(self.body)
        self.summary_tokens = estimate_tokens(content)
        token = self._seal_compaction(content, changes)
        if self.body.is_summary_request:
            self._add({"type": "compaction", "content": content, "signature": token, "tool_changes": changes})
        else:
            self._add({"type": "compaction", "content": content, "encrypted_content": token})

    def _seal_compaction(self, content: str, changes: list[Fields]) -> str:
        request, body = self.request.request, self.body
        is_signed = body.is_summary_request
        next_role = "user" if body.turns and body.turns[-1].role == "assistant" else "assistant"
        compacted = CompactedMessages(
            turns=self.request.turn,
            tool_changes=tool_changes_digest(changes) if is_signed else "",
            digests=body.turn_prefixes[-1] if is_signed and body.traits.prefix_bound else (),
            context=content_digest(body.start_digest, next_role),
        )
        token = IssuedToken(
            kind="compaction", provider=request.provider.name, account=request.account, model=request.model,
            contents=(content_digest(content),), compacted=compacted,
        )  # fmt: skip
        return _seal(self.random, token, _SIGNATURE_SIZE)

    def _say(self, step: script.Say) -> None:
        value = step.text
        found = [(offset, stop) for stop in self.request.stop if (offset := join_text(value).find(stop)) >= 0]
        if found:
            offset, self.sequence = min(found)
            value = cut_text(value, offset)
        value = self._fit(value)
        if found:
            self.reason, self.sequence = (self.reason, None) if self.reason else ("stop_sequence", self.sequence)
        whole = join_text(value)
        if not whole:
            return
        is_interrupted = self.blocks and self.blocks[-1]["type"] == "text" and isinstance(self.parts[-1], Fault)
        if is_interrupted and not step.cites:
            self.blocks[-1]["text"] += whole
            self.parts.append(ReplyBlock(self.blocks[-1], value, joined=True))
            return
        citations = [_citation(self.random, cite) for cite in step.cites]
        self._add({**({"citations": citations} if citations else {}), "type": "text", "text": whole}, value)

    def _call(self, step: script.CallTool) -> None:
        args = step.args if isinstance(step.args, str) else json.dumps(step.args, ensure_ascii=False)
        self.output_tokens += estimate_tokens(step.name)
        value = join_text(self._fit("" if args == "{}" else args))
        head = {"type": "tool_use", "id": step.id or self._call_id(), "name": step.name}
        self._add({**head, "input": _parse_input(value), "caller": _DIRECT}, value)

    def _call_id(self) -> str:
        are_reasoning = [block["type"] in REASONING for block in self.blocks]
        is_silent = self.body.mode == "enabled" and not any(are_reasoning[:1])
        head = self.random.word(_HEAD)
        kind = "silent" if is_silent else "reasoning" if any(are_reasoning) else "plain"
        return f"toolu_01{head}{_id_tail(self.random.sealer, head, kind)}"

    def _serve(self, call: Fields, result: Fields | None) -> bool:
        """Add a call of a server tool and its result; neither if the reply is full before the tool runs."""
        args = json.dumps(call["input"], ensure_ascii=False)
        if estimate_tokens(args) > self._tokens_left():
            self.reason = "max_tokens"
            return False
        self.output_tokens += estimate_tokens(args)
        self._add(call, args)
        if result is not None:
            self._add(result)
        return True

    def _pause(self) -> None:
        """Pause as the provider does: before the result of a server tool."""
        types = " ".join(text(tool, "type") for _, tool in self.body.tools())
        if "code_execution" in types and "web_" not in types:
            call = _code_call(self.random, _code_form(self.body), "echo done")
        else:
            call = _server_call(self.random, "web_search", {"query": "more about it"})
        if self._serve(call, None):
            self.reason = "pause_turn"

    def _add_late_results(self) -> None:
        """Continue a paused turn with the results that it misses."""
        blocks = [block.raw for block in self.body.open_turn.blocks] if self.body.open_turn else []
        answered = {block.get("tool_use_id") for block in blocks if is_server_result(block["type"])}
        for call in blocks:
            if call["type"] in SERVER_CALLS and call["id"] not in answered:
                self._add(_late_result(self.random, call, self.body))


def _tool_changes(body: MessagesBody) -> list[Fields]:
    """Return the changes from the `tools` of a request to the tools at the end of its messages: the last of each tool."""
    earlier = body.summary.raw.get("tool_changes") if body.summary else None
    changes = [*(earlier or ()), *(block.raw for block in body.blocks("tool_addition", "tool_removal"))]
    return list({jsonio.encode(change.get("tool")): change for change in changes}.values())


def _parse_input(args: str) -> Any:
    """Parse the input of a call. A whole reply has an object for arguments that are not an object, too."""
    if not args:
        return {}
    try:
        value = jsonio.parse(args)
    except jsonio.JsonError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": args}


def write(request: MessagesTurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    reply = MessagesReply(request, random)
    id = f"msg_01{random.word(22)}"
    reply.play(turn)
    message = response_object(id, reply)
    if request.body.object("diagnostics"):
        message["diagnostics"] = _diagnostics(id, request)
    if request.request.stream:
        return list(stream_events(message, reply))
    return add_faults(jsonio.encode(message), reply.parts)


def _diagnostics(id: str, request: MessagesTurnRequest) -> Fields | None:
    """Store the parts of a request, and compare them with those of an earlier one; None without a difference."""
    parsed, parts = request.request, _request_parts(request)
    parsed.prompt_cache.store_request(parsed.account, id, parts)
    previous = request.body.object("diagnostics").get("previous_message_id")
    if previous is None:
        return None
    earlier = parsed.prompt_cache.find_request(parsed.account, previous)
    if earlier is None:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    reason = parts.changed_setting(earlier)
    if reason == "unavailable":
        return {"cache_miss_reason": {"type": reason}}
    missed = earlier.tokens if reason else parts.changed_tokens(earlier)
    reason = reason or ("messages_changed" if missed else "")
    return {"cache_miss_reason": {"cache_missed_input_tokens": missed, "type": reason}} if reason else None


def _request_parts(request: MessagesTurnRequest) -> RequestParts:
    body, fields = request.body, request.body.body
    blocks, count = cached_blocks(body), len(body.tools())
    system = fields.get("system") or ()
    start = count + (1 if isinstance(system, str) else len(system))
    settings = {
        "model_changed": content_digest(request.request.requested_model),
        "system_changed": content_digest(*(block.form for block in blocks[count:start])),
        "tools_changed": content_digest(*(block.form for block in blocks[:count])),
        "unavailable": content_digest(*(jsonio.encode(fields.get(name)) for name in _PROMPT_SETTINGS)),
    }
    return RequestParts(settings, tuple(blocks[start:]), request.prompt_tokens)


def response_object(id: str, reply: MessagesReply) -> Fields:
    body = reply.body
    message: Fields = {
        "model": reply.request.request.requested_model, "id": id, "type": "message", "role": "assistant",
        "content": reply.blocks, "stop_reason": reply.reason, "stop_sequence": reply.sequence,
        "stop_details": reply.details, "usage": _usage(reply),
    }  # fmt: skip
    if body.has_beta("thinking-binding-controls-"):
        dropped = [(item.block, _DROP_REASONS.get(rule)) for item, rule in body.reasoning_rules or ()]
        message["input_transformations"] = [
            {"type": "thinking_dropped", "path": f"messages.{block.i}.content.{block.j}", "reason": reason}
            for block, reason in dropped
            if reason
        ]
    if reply.has_run_code:
        named = body.body.get("container")
        container = named if isinstance(named, str) else named.get("id") if isinstance(named, dict) else None
        container = container or f"container_01{reply.random.word(22)}"
        message["container"] = {"id": container, "expires_at": "2026-11-15T12:30:00.000000Z"}
    if "context_management" in body.body:
        message["context_management"] = {"applied_edits": []}
    return message


def _prompt_counts(input: int, cache_write: int = 0, cache_read: int = 0, is_long: bool = False) -> Fields:
    return {
        "input_tokens": input,
        "cache_creation_input_tokens": cache_write,
        "cache_read_input_tokens": cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0 if is_long else cache_write,
            "ephemeral_1h_input_tokens": cache_write if is_long else 0,
        },
    }


def cached_blocks(body: MessagesBody) -> list[CachedBlock]:
    """Return the blocks with their marks; a mark of the body is on the last block that can be cached."""
    blocks = body.prompt_blocks
    seconds = [_seconds(block.mark) for block in blocks]
    last = max((index for index, block in enumerate(blocks) if block.is_cacheable), default=None)
    if last is not None:
        seconds[last] = seconds[last] or _seconds(body.body.get("cache_control"))
    return [CachedBlock(block.form, block.tokens, time) for block, time in zip(blocks, seconds, strict=True)]


def _seconds(mark: Fields | None) -> int:
    return 0 if mark is None else 3600 if mark.get("ttl") == "1h" else 300


def _usage(reply: MessagesReply) -> Fields:
    marks, prompt = reply.body.cache_marks(), reply.request.prompt_tokens
    parsed = reply.request.request
    used = parsed.prompt_cache.use(parsed.cache_scope, cached_blocks(reply.body)) if marks else CacheUse()
    is_long = bool(marks) and marks[-1][1].get("ttl") == "1h"
    output, limit = reply.output_tokens + (3 if reply.blocks else 0), reply.request.max_tokens
    output = output if limit is None else min(output, limit)
    counts = _prompt_counts(prompt - used.written - used.read, used.written, used.read, is_long)
    iterations: list[Fields] = []
    is_alone = reply.request.compaction == "alone"
    if reply.summary_tokens is not None:  # this work is only in the iterations
        iterations.append({**counts, "output_tokens": reply.summary_tokens, "type": "compaction"})
        if is_alone:
            counts, output = _prompt_counts(0), 0
        elif reply.blocks[0]["content"]:
            counts = _prompt_counts(reply.body.count_tokens(reply.blocks[:1]))
    if not is_alone:
        iterations.append({**counts, "output_tokens": output, "type": "message"})
    usage: Fields = {
        **counts,
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": reply.thinking_tokens},
        "service_tier": "standard",
        "inference_geo": "global",
    }
    if reply.body.is_summary_request or reply.body.compaction_edit:
        usage["iterations"] = iterations
    if reply.searches or reply.has_run_code:
        usage["server_tool_use"] = {"web_search_requests": reply.searches, "web_fetch_requests": 0}
    return usage


_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_PADDINGS = tuple(b"}" + b" " * width + b"}\n\n" for width in range(16))
"""A frame ends with some spaces, so that its length does not reveal the text."""
_STARTS: dict[str, Fields] = {
    "text": {"citations": [], "text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "compaction": {"content": None},
    "tool_use": {"input": {}},
    "server_tool_use": {"input": {}},
}
"""The fields that deltas fill, by the type of the block."""
_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
    "server_tool_use": ("input_json_delta", "partial_json"),
}


def stream_events(message: Fields, reply: MessagesReply) -> Iterator[bytes | Fault]:
    yield _frame("message_start", {"message": _start_of_message(message, reply.random)})
    parts, random, index = reply.parts, reply.random, -1
    closing: list[bytes] = [] if any(isinstance(part, ReplyBlock) for part in parts) else [_PING]
    for position, part in enumerate(parts):
        if isinstance(part, script.Disconnect):  # inside a block, before it is signed and closed
            yield part
            return
        if isinstance(part, script.StreamError):
            request = reply.request.request
            id = errors.request_id(request.provider, request.digest)
            error = errors.ApiError(status=part.status, message=part.message, request_id=id)
            yield _frame("error", errors.error_body(request.provider, error))
            return
        following = next((later for later in parts[position:] if isinstance(later, ReplyBlock)), None)
        if following is None or not following.joined:
            yield from closing
            closing = []
        if not isinstance(part, ReplyBlock):
            yield part
        elif part.joined:
            yield from _text_frames(index, "text", list(random.pieces(part.text)), random)
        else:
            index += 1
            yield from _block_frames(index, part, random)
            closing = [_frame("content_block_stop", {"index": index})]
            if part.block["type"] == "thinking":
                closing.insert(0, _delta(index, {"type": "signature_delta", "signature": part.block["signature"]}))
    yield from closing
    yield _frame("message_delta", _end_of_message(message))
    yield _frame("message_stop", {})


def _start_of_message(message: Fields, random: SeededRandom) -> Fields:
    later = ("output_tokens_details", "server_tool_use", "iterations")
    usage = {name: value for name, value in message["usage"].items() if name not in later}
    for first in message["usage"].get("iterations", ())[:1]:  # the compaction, if there is one
        usage |= {name: first[name] for name in usage.keys() & first.keys()}
    usage["output_tokens"] = min(usage["output_tokens"], 1 + random.random.randrange(8))
    empty: Fields = {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}
    return {name: value for name, value in (message | empty).items() if name not in ("container", "context_management")}


def _end_of_message(message: Fields) -> Fields:
    earlier = ("cache_creation", "service_tier", "inference_geo")
    names = ("stop_reason", "stop_sequence", "stop_details", "container")
    edits = {name: message[name] for name in ("context_management",) if name in message}
    return {
        "delta": {name: message[name] for name in names if name in message},
        "usage": {name: value for name, value in message["usage"].items() if name not in earlier},
        **edits,
    }


def _block_frames(index: int, part: ReplyBlock, random: SeededRandom) -> Iterator[bytes]:
    block, type = part.block, part.block["type"]
    empty = _STARTS.get(type, {})
    start = {name: empty.get(name, value) for name, value in block.items() if name != "encrypted_content"}
    yield _frame("content_block_start", {"index": index, "content_block": start})
    if index == 0 or random.random.random() < 0.05:
        yield _PING
    for citation in block.get("citations", ()):
        yield _delta(index, {"type": "citations_delta", "citation": citation})
    if type == "compaction" and block["content"] is not None:
        token = {name: block[name] for name in ("encrypted_content",) if name in block}
        yield _delta(index, {"type": "compaction_delta", "content": block["content"], **token})
    if type in _DELTAS:
        first = [""] if "input" in block else []
        yield from _text_frames(index, type, first, random)
        yield from _text_frames(index, type, list(random.pieces(part.text)), random)


def _delta(index: int, delta: Fields) -> bytes:
    return _frame("content_block_delta", {"index": index, "delta": delta})


def _text_frames(index: int, type: str, pieces: list[str], random: SeededRandom) -> list[bytes]:
    delta, field = _DELTAS[type]
    head = (
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},'
        f'"delta":{{"type":"{delta}","{field}":'
    ).encode()
    paddings = random.random.choices(_PADDINGS, k=len(pieces))
    return [head + encode_piece(piece) + padding for piece, padding in zip(pieces, paddings, strict=True)]


def _frame(type: str, fields: Fields) -> bytes:
    return f"event: {type}\ndata: ".encode() + jsonio.encode({"type": type, **fields}) + b"\n\n"


DIALECT = SimDialect(
    to_turn_request=to_turn_request,
    write=write,
    count=lambda request: {"input_tokens": request.prompt_tokens},
    read_id=read_call_id,
    prefix_digests=lambda body, turn: body.turn_prefixes[turn],
)
