"""Saying a turn: one body, or chunks as server-sent events, or, where nobody asked for those, as a JSON array."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.sim import envelopes
from tenuto.sim.asked import Asked
from tenuto.sim.gemini.opening import media
from tenuto.sim.gemini.partial import pieces_of_call
from tenuto.sim.gemini.planning import Plan, Run, Whole, option, plan
from tenuto.sim.mint import Mint, digest
from tenuto.sim.script import Cut, Drip, Fail, Fault, Stall, Turn

__all__ = ["write"]

_CALLED = "Model generated function call(s)."
_RATINGS = [
    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True},
    {"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"},
    {"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "NEGLIGIBLE"},
    {"category": "HARM_CATEGORY_SEXUALLY_EXPLICIT", "probability": "NEGLIGIBLE"},
]
_EVENT = b"data: ", b"\r\n\r\n"
_FAULTS = Cut | Stall | Drip
_EPOCH = 1_790_000_000
_YEAR = 31_536_000
_encode = msgspec.json.Encoder().encode
_Beat: TypeAlias = tuple[bytes, int, bool] | Fault | Fail
"""One part of a stream as JSON, the tokens said up to its end, and whether it is said or only thought."""


def write(asked: Asked, turn: Turn, mint: Mint) -> list[bytes | Fault]:
    """Say a turn: one body, or the frames of a stream if one is wanted, with faults where they are to happen."""
    made = plan(asked, turn, mint)
    if not asked.request.stream:
        return _spoilt(_Reply(asked, made).body(), turn)
    if asked.choices == 1 and asked.request.headers.get("x-sim-alt") == "sse":
        return _Reply(asked, made, *_EVENT).stream()
    payloads = _Reply(asked, made).stream()
    if asked.choices > 1:
        payloads = [_repeated(payload, asked.choices) for payload in payloads]
    if asked.request.headers.get("x-sim-alt") == "sse":
        return [_EVENT[0] + one + _EVENT[1] if isinstance(one, bytes) else one for one in payloads]
    return [*_array(payloads)]


def _array(payloads: list[bytes | Fault]) -> Iterator[bytes | Fault]:
    opened = False
    for payload in payloads:
        if isinstance(payload, bytes):
            yield b"%b%b\n" % (b",\r\n" if opened else b"[", payload)
            opened = True
        else:
            yield payload
    yield b"]" if opened else b"[]"


def _spoilt(body: bytes, turn: Turn) -> list[bytes | Fault]:
    before: list[bytes | Fault] = [step for step in turn if isinstance(step, Stall | Drip)]
    cut = next((step for step in turn if isinstance(step, Cut)), None)
    return [*before, body[: len(body) // 2], cut] if cut else [*before, body]


def _repeated(payload: bytes | Fault, choices: int) -> bytes | Fault:
    """Give every candidate that was asked for the same answer."""
    if not isinstance(payload, bytes):
        return payload
    told = jsonio.parse(payload)
    if "candidates" in told:
        told["candidates"] = [{**one, "index": n} for one in told["candidates"] for n in range(choices)]
    return jsonio.encode(told)


def _json(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a character
        return jsonio.encode(value)


def _signed(beats: list[_Beat], last: int, run: Run, before: int) -> None:
    """Put the signature of a text where it is to stand."""
    signature = b',"thoughtSignature":' + _json(run.signature) + b"}"
    beat = beats[last] if last >= 0 else (b"", before, True)
    assert isinstance(beat, tuple)
    part, count, spoken = beat
    if run.tail:
        beats.insert(last + 1, (b'{"text":""' + signature, count, spoken))
    else:
        beats[last] = part[:-1] + signature, count, spoken


class _Reply:
    """What is the same in every chunk of a reply, and the ways to put one together."""

    def __init__(self, asked: Asked, made: Plan, before: bytes = b"", after: bytes = b"") -> None:
        request = asked.request
        self.before, self.after = before, after
        self.head = before + (_VERTEX_HEAD if request.style.name == "vertex" else _HEAD)
        self.asked = asked
        self.made = made
        self.vertex = request.style.name == "vertex"
        heavy = media(request.body)
        details = {"TEXT": max(0, asked.prompt_tokens - sum(heavy.values())), **heavy}
        self.details = [{"modality": name, "tokenCount": size} for name, size in details.items()]
        about: dict[str, Any] = {"modelVersion": request.named}
        if self.vertex:
            about["createTime"] = _created(request.digest)
        self.about = _json({**about, "responseId": made.id})[1:]
        self.tail = _VERTEX_TAIL + self.about + after
        self._constant = self._fixed(0), self._fixed(made.thoughts)
        self.streamed = self.vertex and bool(
            option(request.body, "toolConfig", "functionCallingConfig", "streamFunctionCallArguments")
        )

    # --- usage --------------------------------------------------------------------------------------------------------

    def usage(self, said: int, *, thought: bool = True, final: bool = False) -> dict[str, Any]:
        """Return the counts after so many tokens; Vertex gives them at the end only."""
        if self.vertex and not final:
            return {"trafficType": "ON_DEMAND"}
        prompt, made = self.asked.prompt_tokens, self.made
        thoughts = made.thoughts if thought else 0
        used = made.used if final else 0
        told: dict[str, Any] = {"promptTokenCount": prompt}
        if said:
            told["candidatesTokenCount"] = said
        told["totalTokenCount"] = prompt + said + thoughts + used
        if self.vertex:
            told["trafficType"] = "ON_DEMAND"
        told["promptTokensDetails"] = self.details
        if self.vertex and said:
            told["candidatesTokensDetails"] = [{"modality": "TEXT", "tokenCount": said}]
        if used:
            told["toolUsePromptTokenCount"] = used
            told["toolUsePromptTokensDetails"] = [{"modality": "TEXT", "tokenCount": used}]
        if thoughts:
            told["thoughtsTokenCount"] = thoughts
        if option(self.asked.request.body, "cachedContent") and final:
            told["cachedContentTokenCount"] = prompt // 2
            told["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": prompt // 2}]
        return told if self.vertex else {**told, "serviceTier": "standard"}

    # --- one body -----------------------------------------------------------------------------------------------------

    def body(self) -> bytes:
        """Return the whole reply."""
        if self.made.blocked is not None:
            return self.blocked()
        parts = [item.part for item in self.made.items if isinstance(item, Run | Whole)]
        parts = [part for part in parts if part.get("text") != "" or "thoughtSignature" in part]
        content: dict[str, Any] = {"parts": parts, "role": "model"} if parts else {"role": "model"}
        if not parts and self.made.finish not in ("STOP", "MAX_TOKENS"):
            content = {}
        candidate = {"content": content, **self.ending()}
        candidates = [candidate]
        if self.asked.choices > 1:
            candidates = [{**candidate, "index": n} for n in range(self.asked.choices)]
        told = {"candidates": candidates, "usageMetadata": self.usage(self.made.said, final=True)}
        return _json(told)[:-1] + b"," + self.about

    def blocked(self) -> bytes:
        """Return the reply to a prompt that is blocked."""
        usage = self.usage(0, final=not self.vertex)
        return _json({"promptFeedback": self.made.blocked, "usageMetadata": usage})[:-1] + b"," + self.about

    def ending(self) -> dict[str, Any]:
        """Return what the last words of a candidate have besides their content."""
        told: dict[str, Any] = {"finishReason": self.made.finish}
        if not self.vertex:
            told["index"] = 0
        called = any(isinstance(item, Whole) and "functionCall" in item.bare for item in self.made.items)
        message = self.made.message or (_CALLED if called and not self.vertex else "")
        if message:
            told["finishMessage"] = message
        if self.made.grounding is not None:
            told["groundingMetadata"] = self.made.grounding
        if self.made.finish == "SAFETY":
            told["safetyRatings"] = _RATINGS
        return told

    # --- a stream -----------------------------------------------------------------------------------------------------

    def stream(self) -> list[bytes | Fault]:
        """Return the chunks of a stream, with faults where they are to happen. An error ends it."""
        if self.made.blocked is not None:
            return [self.before + self.blocked() + self.after]
        beats = list(self._beats())
        failed = next((at for at, beat in enumerate(beats) if isinstance(beat, Fail)), None)
        places = [at for at, beat in enumerate(beats) if isinstance(beat, tuple)]
        if failed is None and not places:
            return [*(beat for beat in beats if isinstance(beat, _FAULTS)), self._last(b"", 0)]
        last = places[-1] if failed is None else -1
        found: list[bytes | Fault] = []
        for at, beat in enumerate(beats):
            if isinstance(beat, tuple):
                found.append(self._last(beat[0], beat[1]) if at == last else self._between(*beat))
            elif isinstance(beat, Fail):
                return [*found, self._error(beat)]
            else:
                found.append(beat)
        return found

    def _beats(self) -> Iterator[_Beat]:
        said = 0
        for item in self.made.items:
            if isinstance(item, Run):
                yield from self._spoken(item, said)
                said += 0 if item.thought else (len(item.text) + 3) // 4
            elif isinstance(item, Whole):
                said += item.tokens
                parts = pieces_of_call(item.part) if self.streamed else [item.part]
                for part in parts:
                    yield _json(part), said, True
            else:
                yield item

    def _spoken(self, run: Run, before: int) -> list[_Beat]:
        """Return the beats of a text: a signature closes its last piece, or stands on one more without words."""
        close = b',"thought":true}' if run.thought else b"}"
        spoken = not run.thought or before > 0
        beats: list[_Beat] = []
        last, length = -1, 0
        for piece in run.pieces:
            if not isinstance(piece, str):
                beats.append(piece)
            elif piece:
                last = len(beats)
                length += len(piece)
                count = before if run.thought else before + (length + 3) // 4
                beats.append((b'{"text":' + _json(piece) + close, count, spoken))
        if run.signature:
            _signed(beats, last, run, before)
        return beats

    def _between(self, part: bytes, said: int, spoken: bool) -> bytes:
        """Put a chunk together that is not the last: of constant pieces, for there are many."""
        if self.vertex:
            return b"%b%b%b" % (self.head, part, self.tail)
        head, base, tail = self._constant[spoken]
        if said:
            told = b'%b%b%b,"candidatesTokenCount":%d,"totalTokenCount":%d%b'
            return told % (self.head, part, head, said, base + said, tail)
        return b'%b%b%b,"totalTokenCount":%d%b' % (self.head, part, head, base, tail)

    def _fixed(self, thoughts: int) -> tuple[bytes, int, bytes]:
        """Return what stands around the counts of a chunk, and what the total begins with."""
        prompt = self.asked.prompt_tokens
        more = {"thoughtsTokenCount": thoughts} if thoughts else {}
        tail = _json({"promptTokensDetails": self.details, **more, "serviceTier": "standard"})
        head = b'],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":%d' % prompt
        return head, prompt + thoughts, b"," + tail[1:] + b"," + self.about + self.after

    def _last(self, part: bytes, said: int) -> bytes:
        """Put the last chunk together, which tells why it is; without a part if nothing was said at all."""
        usage = self.usage(said, final=True)
        if not part:
            candidate = {"content": {"role": "model"}, **self.ending()}
            told = _json({"candidates": [candidate], "usageMetadata": usage})[:-1] + b"," + self.about
        else:
            told = self._chunk(part, self.ending(), usage)
        return self.before + told + self.after

    def _chunk(self, part: bytes, ending: dict[str, Any], usage: dict[str, Any]) -> bytes:
        content = b'"role":"model","parts":[%b]' if self.vertex else b'"parts":[%b],"role":"model"'
        told = b'{"candidates":[{"content":{%b},%b],"usageMetadata":%b,'
        return told % (content % part, _json(ending)[1:], _json(usage)) + self.about

    def _error(self, step: Fail) -> bytes:
        status = 503 if step.status == 529 else step.status
        problem = envelopes.Problem(status=status, message=step.message)
        return self.before + _json(envelopes.body(self.asked.request.style, problem)) + self.after


_HEAD = b'{"candidates":[{"content":{"parts":['
_VERTEX_HEAD = b'{"candidates":[{"content":{"role":"model","parts":['
_VERTEX_TAIL = b']}}],"usageMetadata":{"trafficType":"ON_DEMAND"},'


def _created(told: str) -> str:
    """Return a time that is the same for the same request."""
    moment = int(digest(told, "created"), 16)
    stamp = time.gmtime(_EPOCH + moment % _YEAR)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', stamp)}.{moment // _YEAR % 1_000_000:06d}Z"
