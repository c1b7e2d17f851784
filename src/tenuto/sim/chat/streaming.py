"""The frames of a chat stream. A delta is a constant beginning, a text and a constant end: no object is made for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim import envelopes, script
from tenuto.sim.chat.reply import Reply, Told
from tenuto.sim.chat.saying import Broke, Calling, Item, Refusal, Sources, Text, Thought
from tenuto.sim.chat.usage import Cost, usage
from tenuto.sim.envelopes import Problem
from tenuto.sim.mint import Mint, tokens
from tenuto.sim.script import Fault

__all__ = ["frames"]

_encode = jsonio.encode
_quick = msgspec.json.Encoder().encode
_MARK, _ECHO = "\x02", "\x03"
_MARKED, _ECHOED = b'"\\u0002"', b'"\\u0003"'
_COMMENT = b": OPENROUTER PROCESSING\n\n"
_DONE = b"data: [DONE]\n\n"
_END = b'"}\n\n'
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def frames(reply: Reply, mint: Mint) -> list[bytes | Fault]:
    """Return the frames of a stream, with faults where they are to happen."""
    out: list[bytes | Fault] = []
    if reply.style == "openrouter":
        out += [_COMMENT] * mint.random.randrange(3)
    if reply.style == "azure":
        first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", **reply.extra}
        out.append(b"data: " + _encode(first) + b"\n\n")
    writers = [_Choice(reply, told, mint) for told in reply.told]
    said = [[*writer.items()] for writer in writers]
    out += said[0] if len(said) == 1 else _woven(said)
    if writers[0].broken:
        return out
    out += [writer.end(last=writer is writers[-1]) for writer in writers]
    out += writers[-1].bill()
    return [*out, _DONE]


def _woven(said: list[list[bytes | Fault]]) -> list[bytes | Fault]:
    return [frame for row in zip_longest(*said) for frame in row if frame is not None]


class _Choice:
    """Writes the chunks of one choice."""

    def __init__(self, reply: Reply, told: Told, mint: Mint) -> None:
        self.reply, self.told, self.mint, self.own = reply, told, mint, reply.habits
        self.asks = _asks_usage(reply.asked.request.body)
        self.broken = False
        self.signatures = iter(told.signatures)
        self.thought = False
        self.chunked = False
        self.written = 0
        noise = _ALPHABET if reply.style == "mistral" else mint.word(48)
        self.noise = noise.encode()
        self.echo = b""
        self.head, self.middle, self.tail = self._parts()
        self.role = b'"role":"assistant",'
        if reply.style == "together":
            self.role = b'"token_id":null,' + self.role

    # --- chunks -------------------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[bytes, bytes, bytes]:
        """Cut a chunk at its delta, and before that at the echo of the text, which Together has."""
        whole = b"data: " + _encode(self._chunk(_MARK, None))
        head, _, tail = whole.partition(_MARKED)
        head, _, middle = head.partition(_ECHOED)
        if self.own.usage == "each":
            return head, middle, tail[:-1]
        return head, middle, tail[:-1] + (b',"' + self.own.padded.encode() + b'":"' if self.own.padded else b"}\n\n")

    def _chunk(self, delta: Any, finish: str | None) -> dict[str, Any]:
        reply, own = self.reply, self.own
        choice: dict[str, Any] = {"index": self.told.index}
        if reply.style == "together":
            choice["text"] = _ECHO if delta == _MARK else ""
        choice |= {"delta": delta, **own.choice}
        if finish is not None or own.open_end:
            choice["finish_reason"] = finish
        if finish is not None:
            choice |= reply.native(finish)
        named = reply.asked.request.named
        kind = "chat.completion.done" if finish and reply.style == "perplexity" else "chat.completion.chunk"
        chunk = {"id": reply.id, "object": kind, "created": reply.created, "model": named, **reply.top}
        chunk |= {"choices": [choice], **reply.beside()}
        if own.nulls == "always" or (own.nulls == "asked" and self.asks):
            chunk["usage"] = None
        return chunk

    def _run(self, before: bytes, pieces: Iterable[str], after: bytes, again: bytes = b"") -> list[bytes]:
        """Return a chunk for each piece: what stands before it in the delta, the piece, what stands after it.

        With `again` the piece stands there twice.
        """
        if self.own.usage == "each":
            return [self._metered(piece, before, after) for piece in pieces]
        if self.reply.style == "together":
            return [self._echoed(piece, before, after, again) for piece in pieces]
        texts = _encoded([*pieces])
        head, tail = self.head + self.middle + before, after + self.tail
        if again:
            texts = [text + again + text for text in texts]
        if not self.own.padded:
            return [head + text + tail for text in texts]
        noise, at = self.noise, self.written
        self.written += len(texts)
        if self.reply.style == "mistral":
            return [head + text + tail + noise[: 5 + i * 7 % 29] + _END for i, text in enumerate(texts, at)]
        return [head + text + tail + noise[i % 32 : i % 32 + 3 + i * 7 % 12] + _END for i, text in enumerate(texts, at)]

    def _metered(self, piece: str, before: bytes, after: bytes) -> bytes:
        """Perplexity and NVIDIA say with each chunk what was spent so far."""
        self.written += max(1, tokens(piece))
        spent = msgspec.structs.replace(self.reply.spent, answer=self.written, thought=0)
        told = _encode(usage(self.reply.style, spent, done=False))
        return self.head + before + _encode(piece) + after + self.tail + b',"usage":' + told + b"}\n\n"

    def _echoed(self, piece: str, before: bytes, after: bytes, again: bytes) -> bytes:
        text = _encode(piece)
        said = text if before.endswith(b'"content":') else b'""'
        return self.head + said + self.middle + before + text + (again + text if again else b"") + after + self.tail

    def _one(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        """Return one chunk that is like no other."""
        chunk = {**self._chunk(delta, finish), **more}
        if self.own.usage == "each":
            done = finish is not None
            chunk["usage"] = usage(self.reply.style, self._so_far(done=done), done=done)
        if self.own.padded:
            chunk[self.own.padded] = self.noise[: 4 + self.written % 16].decode()
        return b"data: " + _encode(chunk) + b"\n\n"

    def _so_far(self, *, done: bool) -> Cost:
        spent = self.reply.spent
        return spent if done else msgspec.structs.replace(spent, answer=self.written, thought=0)

    # --- what is said -------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[bytes | Fault]:
        """Yield the chunks of what is said, up to the end or the error that breaks it off."""
        items = self.told.said.items
        if self.own.opening:
            spoken = [item for item in items if not isinstance(item, script.Cut | script.Stall | script.Drip)]
            if not (spoken and isinstance(spoken[0], Calling) and self.reply.style in ("openai", "azure", "alibaba")):
                yield self._opening(spoken[0] if spoken else None)
        for item in items:
            if isinstance(item, script.Cut | script.Stall | script.Drip):
                yield item
            elif isinstance(item, Broke):
                yield self._error(item.problem)
                self.broken = True
                return
            else:
                yield from self._item(item)

    def _opening(self, first: Item | None) -> bytes:
        delta: dict[str, Any] = {"role": "assistant", "content": ""}
        if self.reply.always or (
            isinstance(first, Thought) and self.own.after and self.reply.place == "reasoning_content"
        ):
            delta |= {"content": None, "reasoning_content": ""} if self.own.after else {"reasoning_content": ""}
        if "refusal" in self.own.message and self.reply.style in ("openai", "azure"):
            delta["refusal"] = None
        if not self.own.every_role:
            self.role = b""
        more: dict[str, Any] = {}
        if self.reply.style == "groq":
            more["x_groq"] = self.reply.extra["x_groq"]
        return self._one(delta, **more)

    def _item(self, item: Item) -> Iterator[bytes]:
        match item:
            case Thought():
                yield from self._thought(item)
                yield from self._details(item)
                self.thought = True
            case Text():
                yield from self._text(item)
            case Calling():
                if self.reply.style != "mistral":  # there the calls are in the last chunk
                    yield from self._call(item)
                yield from self._details(item)
            case Refusal():
                yield from self._spread(b'"refusal":', self.mint.pieces(item.text), b"}")
            case Sources():
                yield self._one(self._delta({"annotations": item.notes}))

    def _spread(self, key: bytes, pieces: Iterable[str], after: bytes, again: bytes = b"") -> Iterator[bytes]:
        """Yield chunks for the pieces; the first says the role, if nobody did."""
        left = iter(pieces)
        if not self.own.every_role and self.role:
            first = next(left, None)
            if first is None:
                return
            yield from self._run(b"{" + self.role + key, [first], after, again)
            self.role = b""
        yield from self._run(b"{" + self.role + key, left, after, again)

    def _text(self, item: Text) -> Iterator[bytes]:
        pieces = [*self.mint.pieces(item.text)]
        if self.reply.place == "chunks" and self.chunked and pieces:
            yield self._one({"content": [{"type": "text", "text": pieces[0]}]})
            pieces, self.chunked = pieces[1:], False
        after = _members(self.own.after) if self.thought and self.reply.place == "reasoning_content" else b""
        yield from self._spread(b'"content":', pieces, (b"," + after if after else b"") + b"}")

    def _thought(self, item: Thought) -> Iterator[bytes]:
        if item.hidden:
            return
        place, pieces = self.reply.place, self.mint.pieces(item.text)
        beside = _members(self.own.beside) + b"," if self.own.beside else b""
        if place == "chunks":
            before = b'"content":[{"type":"thinking","thinking":[{"type":"text","text":'
            yield from self._spread(before, pieces, b'}],"closed":true}]}')
            token = next(self.signatures)
            if token is not None:
                chunk = {"type": "thinking", "thinking": [], "closed": True, "signature": token}
                yield self._one({"content": [chunk]})
            self.chunked = True
        elif place == "reasoning":
            again = b',"reasoning_content":' if self.reply.style == "together" else b""
            channel = "gpt-oss" in self.reply.asked.request.model and self.reply.style == "groq"
            after = b',"channel":"analysis"}' if channel else b"}"
            yield from self._spread(beside + b'"reasoning":', pieces, after, again)
        elif place == "reasoning_content":
            yield from self._spread(beside + b'"reasoning_content":', pieces, b"}")
        else:
            yield from self._detailed(item, pieces, beside)

    def _detailed(self, item: Thought, pieces: Iterable[str], beside: bytes) -> Iterator[bytes]:
        """Yield the text of a thought as pieces of its detail; at OpenRouter also as plain reasoning."""
        detail = next((one for owner, one in self.told.details if owner is item), None)
        if detail is None:
            return
        key = "summary" if "summary" in detail else "text"
        rest = {name: value for name, value in detail.items() if name in ("format", "index", "id")}
        start = b'"reasoning_details":[{"type":' + _encode(detail["type"]) + b"," + _encode(key) + b":"
        after = b"," + _members(rest) + b"}]}"
        if self.reply.style == "openrouter":
            yield from self._spread(beside + b'"reasoning":', pieces, after, b"," + start)
        else:
            yield from self._spread(start, pieces, after)

    def _details(self, item: Item) -> Iterator[bytes]:
        """Yield the tokens that belong to an item, each in a chunk of its own."""
        for owner, detail in self.told.details:
            if owner is item and ("data" in detail or "signature" in detail):
                bare = {name: value for name, value in detail.items() if name != "text"}
                plain = {"content": "", "reasoning": None} if self.reply.style == "openrouter" else {}
                yield self._one(self._delta({**plain, "reasoning_details": [bare]}))

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Put the role before a delta, where it belongs."""
        if not self.role:
            return delta
        if not self.own.every_role:
            self.role = b""
        token = {"token_id": None} if self.reply.style == "together" else {}
        blank = {"content": ""} if "content" not in delta and self.own.every_role else {}
        return {**token, "role": "assistant", **blank, **delta}

    def _call(self, call: Calling) -> Iterator[bytes]:
        args = call.args if self.own.whole else ""
        head = {"index": call.at, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": args}}
        delta: dict[str, Any] = {"tool_calls": [head]}
        if self.own.every_role or self.role or self.own.fragment:
            delta = {"content": "" if self.own.silent == "empty" and self.own.every_role else None, **delta}
        if self.role and self.reply.style in ("openai", "azure"):
            delta["refusal"] = None
        yield self._one(self._delta(delta))
        if self.own.whole:
            return
        lead = b'"content":null,' if self.own.every_role or self.own.fragment else b""
        again = _members(self.own.fragment) + b"," if self.own.fragment else b""
        before = lead + b'"tool_calls":[{"index":' + str(call.at).encode() + b"," + again + b'"function":{"arguments":'
        yield from self._spread(before, self.mint.pieces(call.args), b"}}]}")

    def _error(self, problem: Problem) -> bytes:
        style = self.reply.asked.request.style
        if style.name != "openrouter":
            return envelopes.chat_stream_event(style, problem)
        error = envelopes.body(style, problem)["error"]
        chunk = {**self._chunk({"role": "assistant", "content": ""}, "error"), "error": error}
        return b"data: " + _encode(chunk) + b"\n\n"

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(self, *, last: bool) -> bytes:
        """Return the chunk that says how the choice ends."""
        delta = dict(self.own.last)
        if self.own.every_role:
            delta = self._delta(delta)
        calls = self.told.said.of(Calling)
        if calls and self.reply.style == "mistral":
            delta["tool_calls"] = [_whole(call) for call in calls]
        more: dict[str, Any] = {}
        told = usage(self.reply.style, self.reply.spent)
        if last and self.own.usage == "final":
            more["usage"] = told
        if last and self.own.usage == "groq":
            more["x_groq"] = {"id": self.reply.extra["x_groq"]["id"], "usage": told}
            more |= {"usage": told} if self.asks else {}
        return self._one(delta, self.told.said.finish, **more)

    def bill(self) -> list[bytes]:
        """Return the chunk of usage, where it has one of its own."""
        told = usage(self.reply.style, self.reply.spent)
        if self.own.usage == "openrouter":
            return [self._one({"role": "assistant", "content": ""}, usage=told)]
        if self.own.usage == "own" or (self.own.usage == "asked" and self.asks):
            return [self._one({}, choices=[], usage=told)]
        return []


def _whole(call: Calling) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.args}
    return {"id": call.id, "function": function, "type": "function", "index": call.at}


def _encoded(pieces: list[str]) -> list[bytes]:
    try:
        return [_quick(piece) for piece in pieces]
    except UnicodeEncodeError:  # half a character, which only the careful encoder can write
        return [_encode(piece) for piece in pieces]


def _members(value: dict[str, Any]) -> bytes:
    return _encode(value)[1:-1]


def _asks_usage(body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
