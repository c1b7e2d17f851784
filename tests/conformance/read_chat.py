"""Read a Chat Completions reply from its bytes, without the codec under test."""

from __future__ import annotations

from typing import Any

from conformance.jsontext import elements, load, members, text_at
from conformance.reply_values import DONE, Answer, Call, Read, frames, merge, text_merge

__all__ = ["FRAMING", "IMPLIED", "calls_in", "normal", "read"]

IMPLIED = {"object": ("chat.completion", "chat.completion.chunk")}
FRAMING = {
    "obfuscation": "padding against traffic analysis",
    "p": "padding against traffic analysis",
    "choices[].message": "some hosts repeat each delta as a message",
    "choices[].text": "some hosts repeat each delta's content as text",
    "choices[].delta.tool_calls[].index": "the place of a piece, not a part of the call",
}
"""Fields of frames that are not part of the reply."""

_TEXTS = ("content", "reasoning", "reasoning_content", "refusal")


def normal(blocks: list[Any], *, streamed: bool) -> list[Any]:
    """A streamed message is compared without the indexes of its parts, with its content list joined, and with the
    default role.
    """
    with_role = [{"role": "assistant", **message} for message in blocks]
    messages = [message for message in with_role if message != {"role": "assistant"}]
    return [_unplaced(message) for message in messages] if streamed else messages


def _unplaced(message: dict[str, Any]) -> dict[str, Any]:
    found = dict(message)
    if isinstance(calls := found.get("tool_calls"), list):
        found["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in calls]
    if isinstance(content := found.get("content"), list):
        found["content"] = _joined(content)
    return found


def read(data: bytes, *, streamed: bool) -> Read:
    """Return the content of the bytes."""
    return _stream(data) if streamed else _body(data.decode("utf-8-sig", "surrogatepass"))


def _body(text: str) -> Read:
    found = Read()
    body = load(text)
    if not isinstance(body, dict) or (body.get("error") and not body.get("choices")):
        found.error = body.get("error") if isinstance(body, dict) else body
        return found
    spelt = elements(text_at(text, "choices"))
    for at, choice in enumerate(body.get("choices") or []):
        message = choice.get("message")
        calls = calls_in(text_at(spelt[at], "message")) if isinstance(message, dict) else []
        beside = {key: value for key, value in choice.items() if key not in ("message", "finish_reason")}
        blocks = [message] if isinstance(message, dict) else [{}]
        found.answers.append(Answer(blocks, calls, choice.get("finish_reason"), beside))
    _close(found, body)
    return found


def _close(found: Read, body: dict[str, Any]) -> None:
    fields = {name: value for name, value in body.items() if name not in ("choices", "usage")}
    found.named(fields.pop("id", None), fields.pop("model", None))
    found.usage = body.get("usage") if found.usage is None else found.usage
    found.fields = fields
    found.error = found.error or fields.pop("error", None)


def calls_in(message: str) -> list[Call]:
    """Return the calls that a message's text holds."""
    fields = members(message)
    pieces = elements(fields.get("tool_calls", ""))
    if "function_call" in fields:
        pieces.append(f'{{"function":{fields["function_call"]}}}')
    found = []
    for piece in pieces:
        call = load(piece)
        function = call.get("function")
        if isinstance(function, dict):
            args = function.get("arguments")
            exact = args if isinstance(args, str) else text_at(piece, "function", "arguments")
            found.append(Call(call.get("id"), function.get("name"), None if args is None else exact))
    return found


# --- streams ----------------------------------------------------------------------------------------------------------


class _Choice:
    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.calls: dict[Any, dict[str, Any]] = {}
        self.fields: dict[str, Any] = {}
        self.stop: Any = None
        self.order: list[str] = []

    def take(self, choice: dict[str, Any]) -> None:
        skipped = ("delta", "message", "text", "finish_reason", "logprobs")
        merge(self.fields, {k: v for k, v in choice.items() if k not in skipped})
        if "logprobs" in choice:
            self._logprobs(choice["logprobs"])
        self.stop = choice.get("finish_reason") or self.stop
        for name, value in (choice.get("delta") or {}).items():
            if value and name not in self.order:
                self.order.append(name)
            self._field(name, value)

    def _logprobs(self, tokens: Any) -> None:
        """Join the lists of log probabilities: each chunk has those of its own tokens."""
        kept = self.fields.get("logprobs")
        if not isinstance(kept, dict) or not isinstance(tokens, dict):
            merge(self.fields, {"logprobs": tokens})
            return
        lists = {name: [*kept[name], *new] for name, new in tokens.items() if isinstance(new, list) and kept.get(name)}
        self.fields["logprobs"] = {**kept, **{k: v for k, v in tokens.items() if v is not None}, **lists}

    def _field(self, name: str, value: Any) -> None:
        if name == "content" and (isinstance(value, list) or isinstance(self.message.get(name), list)):
            self.message[name] = _joined([*_chunks(self.message.get(name)), *_chunks(value)])
        elif name in _TEXTS and not isinstance(value, dict):
            text_merge(self.message, name, value)
        elif name == "tool_calls" and isinstance(value, list):
            for piece in value:
                self._call(piece)
            self.message[name] = list(self.calls.values())
        elif name == "function_call" and isinstance(value, dict):
            self.message[name] = self._function(self.message.get(name) or {}, value)
        elif name == "reasoning_details" and isinstance(value, list):
            self.message[name] = _details(self.message.get(name) or [], value)
        elif name == "annotations" and isinstance(value, list):
            self.message[name] = [*(self.message.get(name) or []), *value]
        else:
            merge(self.message, {name: value})

    def _call(self, piece: dict[str, Any]) -> None:
        key = piece.get("index")
        if key is None:  # some hosts omit the index: a delta with an id begins a call
            key = ("new", len(self.calls)) if piece.get("id") or not self.calls else next(reversed(self.calls))
        elif piece.get("id") and self.calls.get(key, {}).get("id") not in (None, "", piece["id"]):
            key = ("again", key, piece["id"])  # some hosts give every call the index 0
        call = self.calls.setdefault(key, {})
        function = piece.get("function")
        merge(call, {k: v for k, v in piece.items() if k not in ("function", "index") and (v != "" or not call.get(k))})
        if isinstance(function, dict):
            call["function"] = self._function(call.get("function") or {}, function)

    @staticmethod
    def _function(merged: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
        both = dict(merged)
        merge(both, {name: value for name, value in update.items() if name not in ("arguments", "name")})
        if update.get("name") or "name" not in both:
            merge(both, {"name": update["name"]} if "name" in update else {})
        if isinstance(update.get("arguments"), dict):
            both["arguments"] = update["arguments"]
        elif "arguments" in update:
            text_merge(both, "arguments", update["arguments"])
        return both


def _chunks(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _joined(chunks: list[Any]) -> list[Any]:
    """Join adjacent elements of the same kind in a streamed content list."""
    found: list[Any] = []
    for chunk in chunks:
        last = found[-1] if found else None
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if kind not in ("text", "thinking") or not isinstance(last, dict) or last.get("type") != kind:
            found.append(chunk)
            continue
        both = dict(last)
        merge(both, {name: value for name, value in chunk.items() if name not in ("type", kind)})
        both[kind] = _grown(last.get(kind), chunk.get(kind))
        found[-1] = both
    return found


def _grown(old: Any, new: Any) -> Any:
    if isinstance(old, list) and isinstance(new, list):
        return _joined([*old, *new])
    return (old or "") + (new or "") if isinstance(old or "", str) and isinstance(new or "", str) else new


def _details(merged: list[Any], update: list[Any]) -> list[Any]:
    found = list(merged)
    for item in update:
        at = _same_detail(found, item)
        if at is None:
            found.append(item)
            continue
        both = dict(found[at])
        for name, value in item.items():
            if name in ("text", "summary", "data"):
                text_merge(both, name, value)
            else:
                merge(both, {name: value})
        found[at] = both
    return found


def _same_detail(merged: list[Any], item: dict[str, Any]) -> int | None:
    if item.get("index") is not None:
        indexes = [
            at
            for at, old in enumerate(merged)
            if (old.get("index"), old.get("type")) == (item["index"], item.get("type"))
        ]
        return indexes[-1] if indexes else None
    last = merged[-1] if merged else None
    if (
        last is not None
        and last.get("index") is None
        and (last.get("type"), last.get("id")) == (item.get("type"), item.get("id"))
    ):
        return len(merged) - 1
    return None


def _stream(data: bytes) -> Read:
    found = Read(ended=False)
    choices: dict[Any, _Choice] = {}
    top: dict[str, Any] = {}
    for _, spelt in frames(data):
        if spelt.strip() == DONE:
            found.ended = True
            continue
        chunk = load(spelt)
        chunk_fields = {
            k: v for k, v in chunk.items() if k not in ("choices", "usage", "obfuscation", "p", "id", "model")
        }
        merge(top, chunk_fields)
        found.named(chunk.get("id"), chunk.get("model"))
        found.usage = _usage(chunk) or found.usage
        for choice in chunk.get("choices") or []:
            choices.setdefault(choice.get("index"), _Choice()).take(choice)
    for _, choice in sorted(choices.items(), key=lambda pair: str(pair[0] or "")):
        found.answers.append(Answer([choice.message], _spelt(choice.message), choice.stop, choice.fields, choice.order))
        found.ended = found.ended or choice.stop is not None
    _close(found, top)
    return found


def _usage(chunk: dict[str, Any]) -> Any:
    inner = chunk.get("x_groq")
    return chunk.get("usage") or (inner.get("usage") if isinstance(inner, dict) else None)


def _spelt(message: dict[str, Any]) -> list[Call]:
    functions = [(call.get("id"), call.get("function")) for call in message.get("tool_calls") or []]
    if isinstance(message.get("function_call"), dict):
        functions.append((None, message["function_call"]))
    return [Call(id, f.get("name"), f.get("arguments")) for id, f in functions if isinstance(f, dict)]
