"""Writing an answer: one body, or the events of a stream with their numbers, their padding and their repetitions."""

from __future__ import annotations

from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Asked
from tenuto.sim.mint import Mint
from tenuto.sim.responses.planning import Plan, Planned, plan, summary_parts
from tenuto.sim.responses.replying import Reply
from tenuto.sim.script import Cut, Drip, Fail, Fault, Picture, Stall, Turn

__all__ = ["write"]

_PAD = 16
_NOISE = 600
_HOSTED = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
}
_TROUBLE = {
    429: ("tokens", "rate_limit_exceeded", "Rate limit reached for this model. Please try again in 1s."),
    503: ("service_unavailable_error", "server_is_overloaded", "Our servers are currently overloaded. Please try again later."),
}  # fmt: skip
_SORRY = (
    "The server had an error while processing your request. Sorry about that! You can retry your request, or contact us "
    "through our help center if the error persists."
)
_encode = msgspec.json.Encoder().encode


def write(asked: Asked, turn: Turn, mint: Mint) -> list[bytes | Fault]:
    """Say a turn: one body, or the frames of a stream, with faults where they are to happen."""
    told = plan(asked, turn, mint)
    reply = Reply(asked, told, mint)
    if asked.request.stream:
        return _Stream(asked, told, reply, mint).frames()
    body = jsonio.encode(reply.ended(billed=True))
    early: list[bytes | Fault] = [step for step in turn if isinstance(step, Stall | Drip)]
    cut = next((step for step in turn if isinstance(step, Cut)), None)
    return [*early, body[: len(body) // 2], cut] if cut else [*early, body]


class _Stream:
    """The events of one response, in the order they are sent."""

    def __init__(self, asked: Asked, told: Plan, reply: Reply, mint: Mint) -> None:
        self._told = told
        self._reply = reply
        self._mint = mint
        self._style = asked.request.style.name
        self._out: list[bytes | Fault] = []
        self._at = 0
        options = asked.request.body.get("stream_options")
        wanted = not (isinstance(options, dict) and options.get("include_obfuscation") is False)
        padded = wanted and self._style in ("openai", "azure")
        self._noise = mint.word(_NOISE).encode() if padded else b""

    def frames(self) -> list[bytes | Fault]:
        """Return all frames and faults."""
        begun = self._reply.begun()
        self._event("response.created", response=begun)
        self._event("response.in_progress", response=begun)
        index = 0
        for step in self._told.steps:
            if isinstance(step, Planned):
                self._item(index, step)
                index += 1
            else:
                self._out.append(step)
        if self._told.failure:
            self._fail(self._told.failure)
        else:
            self._event(f"response.{self._told.status}", response=self._reply.ended())
        return self._out

    def _fail(self, failure: Fail) -> None:
        otherwise = ("server_error", "server_error", _SORRY)
        type, code, message = _TROUBLE.get(503 if failure.status == 529 else failure.status, otherwise)
        message = failure.message or message
        self._event("error", error={"type": type, "code": code, "message": message, "param": None})
        known = (
            code if code == "rate_limit_exceeded" else "server_error"
        )  # a response has fewer words for what went wrong
        self._event("response.failed", response=self._reply.failed(known, message))

    def _event(self, type: str, **fields: Any) -> None:
        data = jsonio.encode({"type": type, **fields, "sequence_number": self._at})
        self._out.append(b"event: %b\ndata: %b\n\n" % (type.encode(), data))
        self._at += 1

    def _deltas(self, type: str, pieces: list[Any], **where: Any) -> None:
        """Write the pieces of a text. Only the text, the padding and the number change from one to the next."""
        inner = jsonio.encode(where)[1:-1]
        head = b'event: %b\ndata: {"type":"%b",%b,"delta":' % (type.encode(), type.encode(), inner)
        noise = self._noise
        out, at = self._out, self._at
        for piece in pieces:
            if isinstance(piece, Cut | Stall | Drip):
                out.append(piece)
                continue
            for part in self._mint.pieces(piece):
                if noise:
                    start = at * 7 % (_NOISE - _PAD)
                    pad = noise[start : start + _PAD - len(part) % _PAD]
                    tail = b',"obfuscation":"%b","sequence_number":%d}\n\n' % (pad, at)
                else:
                    tail = b',"sequence_number":%d}\n\n' % at
                out.append(b"%b%b%b" % (head, _quoted(part), tail))
                at += 1
        self._at = at

    def _item(self, index: int, item: Planned) -> None:
        self._event("response.output_item.added", item=item.opening, output_index=index)
        where = {"item_id": item.id, "output_index": index}
        if item.kind == "reasoning":
            self._reasoning(item, where)
        elif item.kind == "message":
            self._message(item, where)
        elif item.kind == "function_call":
            key = "response.function_call_arguments"
            self._deltas(f"{key}.delta", item.pieces if self._style != "xai" else [[item.text]], **where)
            self._event(f"{key}.done", arguments=item.text, **where)
        elif item.kind == "custom_tool_call":
            self._deltas("response.custom_tool_call_input.delta", item.pieces, **where)
            self._event("response.custom_tool_call_input.done", input=item.text, **where)
        elif self._style == "xai" and not isinstance(item.step, Picture):
            pass  # what the item says is all
        elif item.kind == "code_interpreter_call":
            self._code(item, where)
        else:
            self._hosted(item, where)
        self._event("response.output_item.done", item=item.done, output_index=index)

    def _reasoning(self, item: Planned, where: dict[str, Any]) -> None:
        if self._style == "deepseek":
            empty = {"type": "reasoning_text", "text": ""}
            place = {"content_index": 0, **where}
            self._event("response.content_part.added", part=empty, **place)
            self._deltas("response.reasoning_text.delta", item.pieces, **place)
            self._event("response.reasoning_text.done", text=item.text, **place)
            self._event("response.content_part.done", part=empty | {"text": item.text}, **place)
            return
        parts = summary_parts(item)
        for at, text in enumerate(parts):
            place = {**where, "summary_index": at}
            key = "response.reasoning_summary"
            self._event(f"{key}_part.added", part={"type": "summary_text", "text": ""}, **place)
            self._deltas(f"{key}_text.delta", item.pieces if len(parts) == 1 else [text], **place)
            self._event(f"{key}_text.done", text=text, **place)
            self._event(f"{key}_part.done", part={"type": "summary_text", "text": text}, **place)

    def _message(self, item: Planned, where: dict[str, Any]) -> None:
        place = {"content_index": 0, **where}
        (part,) = item.done["content"]
        if item.refusal:
            self._event("response.content_part.added", part=part | {"refusal": ""}, **place)
            self._deltas("response.refusal.delta", item.pieces, **place)
            self._event("response.refusal.done", refusal=item.text, **place)
        else:
            self._event("response.content_part.added", part=part | {"text": "", "annotations": []}, **place)
            self._deltas("response.output_text.delta", item.pieces, **place, logprobs=[])
            for at, annotation in enumerate(part["annotations"]):
                told = {"annotation": annotation, "annotation_index": at}
                self._event("response.output_text.annotation.added", **told, **place)
            self._event("response.output_text.done", text=item.text, logprobs=[], **place)
        self._event("response.content_part.done", part=part, **place)

    def _code(self, item: Planned, where: dict[str, Any]) -> None:
        key = "response.code_interpreter_call"
        self._event(f"{key}.in_progress", **where)
        self._deltas(f"{key}_code.delta", item.pieces, **where)
        self._event(f"{key}_code.done", code=item.text, **where)
        self._event(f"{key}.interpreting", **where)
        self._event(f"{key}.completed", **where)

    def _hosted(self, item: Planned, where: dict[str, Any]) -> None:
        for word in _HOSTED[item.kind]:
            if word == "completed" and isinstance(item.step, Picture) and self._style != "xai":
                told = {key: item.done[key] for key in ("size", "quality", "background", "output_format")}
                told |= {"partial_image_index": 0, "partial_image_b64": item.done["result"]}
                self._event("response.image_generation_call.partial_image", **where, **told)
            self._event(f"response.{item.kind}.{word}", **where)


def _quoted(text: str) -> bytes:
    try:
        return _encode(text)
    except UnicodeEncodeError:  # half a character
        return jsonio.encode(text)
