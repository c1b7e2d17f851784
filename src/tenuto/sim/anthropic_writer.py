"""Write a turn in the Messages dialect: one message, or the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.rules.anthropic_body import (
    REASONING,
    SERVER_CALLS,
    MessagesBody,
    forms_of,
    is_server_result,
    tool_changes_digest,
)
from tenuto.rules.body import Fields, text
from tenuto.rules.issued_tokens import CompactedMessages, IssuedItem, IssuedToken, content_digest
from tenuto.sim import errors, models_list, script
from tenuto.sim.anthropic_reader import MessagesTurnRequest, count_tokens, to_turn_request
from tenuto.sim.dialects import SimDialect
from tenuto.sim.prompt_cache import CachedBlock, CacheUse
from tenuto.sim.reply_parts import add_faults, cut_text, encode_piece, summary_of
from tenuto.sim.script import Fault, Step, Turn, join_text, split_compaction
from tenuto.sim.tokens import BASE62, SeededRandom, TokenSealer, estimate_tokens

ReplyText: TypeAlias = str | list[str]
"""A text, or the pieces in which it is streamed."""
_SIGNATURE_SIZE, _INDEX_SIZE = 210, 138
_TOKEN_OVERHEAD = 32
"""The size of a sealed token without its content, in bytes."""
_DIRECT = {"type": "direct"}
_DROP_REASONS = {
    "ANT-THINK-10": "model_binding_mismatch",
    "ANT-THINK-11": "organization_binding_mismatch",
    "ANT-THINK-12": "prefix_binding_mismatch",
}


# --- ids and tokens ---------------------------------------------------------------------------------------------------

_HEAD, _TAIL = 14, 8
_CALL_KINDS = {
    "reasoning": IssuedItem(kind="tool_use", started_with_reasoning=True, has_reasoning=True, fields=("caller",)),
    "silent": IssuedItem(kind="tool_use", started_with_reasoning=False, fields=("caller",)),
    "plain": IssuedItem(kind="tool_use", fields=("caller",)),
}
"""Calls of a reply with reasoning; of one that should have started with reasoning and did not; others."""


def call_id(random: SeededRandom, kind: str) -> str:
    """Return the id of a call. Its end tells which kind of reply it comes from."""
    head = random.word(_HEAD)
    return f"toolu_01{head}{_id_tail(random.sealer, head, kind)}"


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


def prefix_digests(body: MessagesBody, turn: int) -> tuple[str, ...]:
    """Return the digests that stand for everything before a turn."""
    return body.turn_prefixes[turn]


# --- server tools -----------------------------------------------------------------------------------------------------

_PAGE_AGES = (None, None, None, "2 days ago", "3 weeks ago", "May 2, 2026", "November 19, 2025")


def _server_call(random: SeededRandom, name: str, input: Fields) -> Fields:
    return {"type": "server_tool_use", "id": f"srvtoolu_01{random.word(22)}", "name": name, "input": input}


def _search_result(random: SeededRandom, id: str, results: Iterable[script.SearchResult]) -> Fields:
    content = [
        {
            "type": "web_search_result",
            "title": result.title,
            "url": result.url,
            "encrypted_content": _seal_subject(
                random, "encrypted_content", result.url, 220 + len(result.text) + random.random.randrange(900)
            ),
            "page_age": random.random.choice(_PAGE_AGES),
        }
        for result in results
    ]
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": content, "caller": _DIRECT}


def _citation(random: SeededRandom, cite: script.Cite) -> Fields:
    return {
        "type": "web_search_result_location",
        "cited_text": cite.quote,
        "url": cite.url,
        "title": cite.title,
        "encrypted_index": _seal_subject(random, "encrypted_index", cite.url, _INDEX_SIZE),
    }


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
    """Return the result of a call at which a turn was paused."""
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


# --- the reply --------------------------------------------------------------------------------------------------------


class ReplyBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block, whole and as it is streamed."""

    block: Fields
    start: Fields
    """The block in `content_block_start`."""
    first: tuple[Fields, ...] = ()
    """Deltas before the text."""
    delta: str = ""
    """The field of the deltas with the text."""
    text: ReplyText = ""
    last: Fields | None = None
    """The delta after the text."""
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
            add = self._STEPS.get(type(step))
            if add:
                add(self, step)
            elif isinstance(step, Fault | script.StreamError):
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

    def _fit(self, value: ReplyText) -> ReplyText:
        """Cut a text at `max_tokens` and count it."""
        left = max(0, self._tokens_left())
        if estimate_tokens(join_text(value)) > left:
            value, self.reason = cut_text(value, left * 4), "max_tokens"
        self.output_tokens += estimate_tokens(join_text(value))
        return value

    def _add(self, part: ReplyBlock) -> None:
        self.parts.append(part)
        self.blocks.append(part.block)

    def _think(self, step: script.Think) -> None:
        value = self._fit(step.text)
        whole = join_text(value)
        self.thinking_tokens += estimate_tokens(whole)
        shown = whole if self.request.shows_thinking and not step.redacted else ""
        kind = "redacted_thinking" if step.redacted else "thinking"
        token = self._sign(kind, shown, len(whole.encode("utf-8", "replace")))
        if step.redacted:
            block = {"type": kind, "data": token}
            self._add(ReplyBlock(block=block, start=block))
            return
        self._add(
            ReplyBlock(
                block={"type": kind, "thinking": shown, "signature": token},
                start={"type": kind, "thinking": "", "signature": ""},
                delta="thinking",
                text=value if shown else "",
                last={"type": "signature_delta", "signature": token},
            )
        )

    def _sign(self, kind: str, shown: str, size: int) -> str:
        request, body = self.request.request, self.body
        prefix = body.turn_prefixes[len(body.turns) - bool(body.open_turn)][0]
        if self.blocks and self.blocks[0]["type"] == "compaction":
            prefix = body.digest_after(self.blocks[0])
        token = IssuedToken(
            kind=kind,
            provider=request.provider.name,
            account=request.account,
            model=request.model,
            index=len(self.blocks),
            contents=() if kind == "redacted_thinking" else (content_digest(shown),),
            length=len(shown),
            before=content_digest(*forms_of(self.blocks)),
            reasoning_before=sum(block["type"] in REASONING for block in self.blocks),
            offset=len(body.open_turn.blocks) if body.open_turn else 0,
            prefix=prefix if body.traits.prefix_bound else "",
        )
        return _seal(self.random, token, _SIGNATURE_SIZE + size + self.random.random.randrange(12))

    def _compact(self, step: script.Compact) -> None:
        """Add the summary. On demand it has a signature, in a reply it has encrypted content."""
        if step.text is None:
            self.summary_tokens = 0
            block: Fields = {"type": "compaction", "content": None}
            self._add(ReplyBlock(block=block, start=block))
            return
        content = summary_of(step, self.request)
        self.summary_tokens = estimate_tokens(content)
        changes = _tool_changes(self.body)
        token = self._seal_compaction(content, changes)
        delta: Fields = {"type": "compaction_delta", "content": content}
        start: Fields = {"type": "compaction", "content": None}
        if self.body.is_summary_request:
            start |= {"signature": token, "tool_changes": changes}
        else:
            delta["encrypted_content"] = token
        self._add(ReplyBlock(block=start | {**delta, "type": "compaction"}, start=start, first=(delta,)))

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
        if self._is_interrupted() and not step.cites:
            self.blocks[-1]["text"] += whole
            self.parts.append(ReplyBlock(block=self.blocks[-1], start={}, delta="text", text=value, joined=True))
            return
        citations = [_citation(self.random, cite) for cite in step.cites]
        self._add(
            ReplyBlock(
                block={**({"citations": citations} if citations else {}), "type": "text", "text": whole},
                start={**({"citations": []} if citations else {}), "type": "text", "text": ""},
                first=tuple({"type": "citations_delta", "citation": citation} for citation in citations),
                delta="text",
                text=value,
            )
        )

    def _is_interrupted(self) -> bool:
        """Tell whether a fault has just interrupted a text."""
        at_fault = bool(self.parts) and isinstance(self.parts[-1], Fault)
        return at_fault and bool(self.blocks) and self.blocks[-1]["type"] == "text"

    def _call(self, step: script.CallTool) -> None:
        args = step.args if isinstance(step.args, str) else json.dumps(step.args, ensure_ascii=False)
        self.output_tokens += estimate_tokens(step.name)
        value = join_text(self._fit("" if args == "{}" else args))
        base = {"type": "tool_use", "id": step.id or call_id(self.random, self._call_kind()), "name": step.name}
        self._add(
            ReplyBlock(
                block={**base, "input": _parse_input(value), "caller": _DIRECT},
                start={**base, "input": {}, "caller": _DIRECT},
                delta="partial_json",
                text=value,
            )
        )

    def _call_kind(self) -> str:
        types = [block["type"] for block in self.blocks]
        if self.body.mode == "enabled" and not (types and types[0] in REASONING):
            return "silent"
        return "reasoning" if any(type in REASONING for type in types) else "plain"

    def _serve(self, call: Fields, result: Fields | None) -> bool:
        """Add a call of a server tool and its result; neither if the reply is full before the tool runs."""
        args = json.dumps(call["input"], ensure_ascii=False)
        if estimate_tokens(args) > self._tokens_left():
            self.reason = "max_tokens"
            return False
        self.output_tokens += estimate_tokens(args)
        self._add(ReplyBlock(block=call, start={**call, "input": {}}, delta="partial_json", text=args))
        if result is not None:
            self._add(ReplyBlock(block=result, start=result))
        return True

    def _search(self, step: script.Search) -> None:
        call = _server_call(self.random, "web_search", {"query": step.query})
        self.searches += self._serve(call, _search_result(self.random, call["id"], step.found))

    def _run(self, step: script.RunCode) -> None:
        form = _code_form(self.body)
        call = _code_call(self.random, form, step.code)
        self.has_run_code |= self._serve(call, _code_result(self.random, form, call["id"], step))

    def _send_image(self, step: script.SendImage) -> None:
        """Claude has no images in replies: write it as a Markdown image."""
        self._say(script.Say(f"![picture](data:{step.media_type};base64,{step.data})"))

    def _refuse(self, step: script.Refuse) -> None:
        self.reason = "refusal"
        self.details = {"type": "refusal", "category": step.category or None, "explanation": step.text}
        self.output_tokens += 5

    def _pause(self, _: script.Pause) -> None:
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
                result = _late_result(self.random, call, self.body)
                self._add(ReplyBlock(block=result, start=result))

    def _stop(self, step: script.Stop) -> None:
        self.reason = {"length": "max_tokens", "stop_sequence": "stop_sequence", "filter": "refusal"}[step.reason]
        if step.reason == "stop_sequence":
            self.sequence = step.sequence or next(iter(self.request.stop), "")
        if step.reason == "filter":
            self.details = {"type": "refusal", "category": None, "explanation": None}

    _STEPS: ClassVar[dict[type[Step], Callable[..., None]]] = {
        script.Think: _think, script.Say: _say, script.CallTool: _call, script.Search: _search, script.RunCode: _run,
        script.SendImage: _send_image, script.Refuse: _refuse, script.Pause: _pause, script.Stop: _stop,
        script.Compact: _compact,
    }  # fmt: skip


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


# --- whole ------------------------------------------------------------------------------------------------------------


def write(request: MessagesTurnRequest, turn: Turn, random: SeededRandom) -> list[bytes | Fault]:
    reply = MessagesReply(request, random)
    id = f"msg_01{random.word(22)}"
    reply.play(turn)
    message = response_object(id, reply)
    if request.request.stream:
        return list(stream_events(message, reply))
    return add_faults(jsonio.encode(message), reply.parts)


def response_object(id: str, reply: MessagesReply) -> Fields:
    body = reply.body
    message: Fields = {
        "model": reply.request.request.requested_model,
        "id": id,
        "type": "message",
        "role": "assistant",
        "content": reply.blocks,
        "stop_reason": reply.reason,
        "stop_sequence": reply.sequence,
        "stop_details": reply.details,
        "usage": _usage(reply),
    }
    if body.has_beta("thinking-binding-controls-"):
        message["input_transformations"] = [
            {
                "type": "thinking_dropped",
                "path": f"messages.{item.block.i}.content.{item.block.j}",
                "reason": _DROP_REASONS[rule],
            }
            for item, rule in body.reasoning_rules or ()
            if rule in _DROP_REASONS
        ]
    if reply.has_run_code:
        message["container"] = _container(reply.random, body.body.get("container"))
    if "context_management" in body.body:
        message["context_management"] = {"applied_edits": []}
    return message


def _container(random: SeededRandom, named: Any) -> dict[str, str]:
    id = named if isinstance(named, str) else named.get("id") if isinstance(named, dict) else None
    minute, second = divmod(random.random.randrange(3600), 60)
    expires = f"2026-11-15T12:{minute:02d}:{second:02d}.{random.random.randrange(10**6):06d}Z"
    return {"id": id or f"container_01{random.word(22)}", "expires_at": expires}


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


# --- streamed ---------------------------------------------------------------------------------------------------------

_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_PADDINGS = tuple(b"}" + b" " * width + b"}\n\n" for width in range(16))
"""A frame ends with some spaces, so that its length does not reveal the text."""
_DELTAS = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}


def stream_events(message: Fields, reply: MessagesReply) -> Iterator[bytes | Fault]:
    yield _frame("message_start", {"message": _start_of_message(message, reply.random)})
    parts, random, index = reply.parts, reply.random, -1
    closing: list[bytes] = [] if any(isinstance(part, ReplyBlock) for part in parts) else [_PING]
    for position, part in enumerate(parts):
        if isinstance(part, script.Disconnect):  # inside a block, before it is signed and closed
            yield part
            return
        if isinstance(part, script.StreamError):
            yield _error_frame(reply, part)
            return
        following = next((later for later in parts[position:] if isinstance(later, ReplyBlock)), None)
        if following is None or not following.joined:
            yield from closing
            closing = []
        if not isinstance(part, ReplyBlock):
            yield part
        elif part.joined:
            yield from _text_frames(index, part.delta, list(random.pieces(part.text)), random)
        else:
            index += 1
            yield from _block_frames(index, part, random)
            last = [_frame("content_block_delta", {"index": index, "delta": part.last})] if part.last else []
            closing = [*last, _frame("content_block_stop", {"index": index})]
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
    """Yield the frames of a block up to the end of its text."""
    yield _frame("content_block_start", {"index": index, "content_block": part.start})
    if index == 0 or random.random.random() < 0.05:
        yield _PING
    for delta in part.first:
        yield _frame("content_block_delta", {"index": index, "delta": delta})
    if part.delta == "partial_json":
        yield from _text_frames(index, part.delta, [""], random)
    yield from _text_frames(index, part.delta, list(random.pieces(part.text)), random)


def _text_frames(index: int, field: str, pieces: list[str], random: SeededRandom) -> list[bytes]:
    head = (
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},'
        f'"delta":{{"type":"{_DELTAS.get(field)}","{field}":'
    ).encode()
    paddings = random.random.choices(_PADDINGS, k=len(pieces))
    return [head + encode_piece(piece) + padding for piece, padding in zip(pieces, paddings, strict=True)]


def _frame(type: str, fields: Fields) -> bytes:
    return f"event: {type}\ndata: ".encode() + jsonio.encode({"type": type, **fields}) + b"\n\n"


def _error_frame(reply: MessagesReply, step: script.StreamError) -> bytes:
    request = reply.request.request
    id = errors.request_id(request.provider, request.digest)
    error = errors.ApiError(status=step.status, message=step.message, request_id=id)
    return _frame("error", errors.error_body(request.provider, error))


DIALECT = SimDialect(
    to_turn_request=to_turn_request,
    write=write,
    count=count_tokens,
    read_id=read_call_id,
    prefix_digests=prefix_digests,
    listed_dialects=("anthropic-messages",),
    model_entry=models_list.anthropic_entry,
    model_list=models_list.anthropic_list,
)
