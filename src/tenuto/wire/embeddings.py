"""Embeddings, to the wire and back: texts in, as many requests as the provider's limits make of them; vectors out.

There are three ways: the one that OpenAI made common, Gemini's `embedContent` and `batchEmbedContents`, and Google
Cloud's older `predict`. The row and its dialect say which.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.embedding import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.provider import Loss, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import TranscriptError, UnsupportedModel
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.json_reply import listed, protocol_errors, reply_fields
from tenuto.wire.urls import model_path, model_resource
from tenuto.wire.usage import count, plain

__all__ = ["UNSTATED", "Batch", "batches", "decode", "encode", "joined"]

UNSTATED = 96
"""How many texts go out at a time where nobody says how many may: most stated limits are higher."""
MARKS = 2
"""Tokens that a tokeniser may put around each text."""

Way: TypeAlias = Literal["embeddings", "content", "predict"]
Fields: TypeAlias = dict[str, Raw]
Vector: TypeAlias = tuple[float, ...]


class Batch(NamedTuple):
    """The texts of one request, and where the first of them stands among all."""

    start: int
    texts: tuple[str, ...]


def batches(request: EmbedRequest, target: Target) -> list[Batch]:
    """Split the texts into requests that keep to the provider's limits, in order.

    A token has at least one byte, so bytes are counted where tokens are limited; a text that is too long by itself goes
    out by itself, and the provider says what it makes of it. Raise `UnsupportedModel` where there are no embeddings.
    """
    way = _way(target)
    switches = target.provider.embeddings
    most = switches.batch or UNSTATED
    if way == "predict":
        most = _predicts(target)
    elif way == "content" and target.provider.gemini.vertex:
        most = 1  # its embedContent takes one, and it has no verb for several
    found: list[Batch] = []
    held: list[str] = []
    size = start = 0
    for at, text in enumerate(request.texts):
        weight = len(text.encode("utf-8", "replace")) + MARKS if switches.tokens else 0
        if held and (len(held) >= most or size + weight > switches.tokens > 0):
            found.append(Batch(start, tuple(held)))
            held, size, start = [], 0, at
        held.append(text)
        size += weight
    return [*found, Batch(start, tuple(held))] if held else found


def encode(request: EmbedRequest, target: Target, batch: Batch) -> WireRequest:
    """Write the request for one batch. What the provider has no word for is a `Loss`.

    Raise `UnsupportedModel` where there are no embeddings, `TranscriptError` for what no JSON can say.
    """
    way = _way(target)
    alone = len(batch.texts) == 1
    own = request.extra_body if way != "content" or alone else {}  # several contents have it in each of them
    asked = ChatRequest(model=request.model, messages=(), extra_body=own, extra_headers=request.extra_headers)
    draft = BodyBuilder(asked, target)
    try:
        if way == "embeddings":
            return _write_common(draft, request, batch)
        return _write_predict(draft, request, batch) if way == "predict" else _write_contents(draft, request, batch)
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the request cannot be written as JSON: {exc}") from exc


def decode(body: bytes, request: EmbedRequest, target: Target, batch: Batch) -> EmbedResponse:
    """Read the answer to one batch: one vector for each text, in the order of the texts.

    Raise the provider's error if the answer holds one, `ProtocolError` if it cannot be read or vectors are missing.
    """
    provider = target.provider.name
    with protocol_errors("the embeddings", body, provider):
        format = str(request.extra_body.get("encoding_format") or "")
        packed = format if format.startswith("base64") else target.provider.embeddings.packed
        read = _READERS[_way(target)](reply_fields(body, provider), target, batch.start, packed)
        if len(read.embeddings) != len(batch.texts):
            raise ValueError(f"{len(batch.texts)} texts went out, {len(read.embeddings)} embeddings came back")
        if not all(read.embeddings):
            raise ValueError("an embedding holds no numbers")
    return read


def joined(parts: Sequence[EmbedResponse], target: Target) -> EmbedResponse:
    """Put the answers to all batches together, in their order. Usage is summed: of nothing at all it is 0."""
    return EmbedResponse(
        parts[0].model if parts else target.model,
        target.provider.name,
        tuple(vector for part in parts for vector in part.embeddings),
        EmbedUsage(
            _sum([part.usage.prompt_tokens for part in parts]), _sum([part.usage.total_tokens for part in parts])
        ),
        tuple(dict.fromkeys(loss for part in parts for loss in part.losses)),
        tuple(extra for part in parts for extra in part.extra),
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Add counts; one that is unknown makes the sum unknown, since a part of a bill is not the bill."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _way(target: Target) -> Way:
    row, name = target.provider, f"{target.provider.name}/{target.model}"
    if target.dialect == "anthropic-messages":
        raise UnsupportedModel(name, "there are no embeddings in Anthropic's dialect; ask another provider")
    if not row.embeddings.path:
        raise UnsupportedModel(name, "this provider has no embeddings; ask another one")
    if target.dialect != "gemini":
        return "embeddings"
    return "predict" if _predicts(target) else "content"


def _predicts(target: Target) -> int:
    """Return how many texts `:predict` may hold for this model; 0 if it is not embedded so."""
    model = target.model.rpartition("/")[2]
    rules = target.provider.embeddings.predict.items()
    return next((most for pattern, most in rules if re.fullmatch(pattern, model)), 0)


# --- to the wire ------------------------------------------------------------------------------------------------------


def _write_common(draft: BodyBuilder, request: EmbedRequest, batch: Batch) -> WireRequest:
    switches = draft.target.provider.embeddings
    draft.set_if_given(model=draft.target.model, input=request.input if isinstance(request.input, str) else batch.texts)
    for name, value, field in (
        ("dimensions", request.dimensions, switches.dimensions_field),
        ("task", request.task, switches.task_field),
        ("title", request.title, ""),
    ):
        if value and field:
            draft.body[field] = value
        elif value:
            draft.record_loss("unsupported-parameter", name, repr(value), "leave it out, or name it in extra_body")
    return draft.finish(switches.path)


def _write_contents(draft: BodyBuilder, request: EmbedRequest, batch: Batch) -> WireRequest:
    target = draft.target
    options = _options(request)
    if target.provider.gemini.vertex:
        draft.body["content"] = {"role": "user", "parts": [{"text": batch.texts[0]}]}
        draft.set_if_given(embedContentConfig=options or None)
        return draft.finish(f"{model_path(target.model)}:embedContent")
    contents = [
        {"model": model_resource(target.model), "content": {"parts": [{"text": text}]}, **options}
        for text in batch.texts
    ]
    if len(contents) == 1:
        draft.body.update(contents[0])
        return draft.finish(f"{model_path(target.model)}:embedContent")
    draft.body["requests"] = [{**content, **request.extra_body} for content in contents]
    return draft.finish(f"{model_path(target.model)}:batchEmbedContents")


def _write_predict(draft: BodyBuilder, request: EmbedRequest, batch: Batch) -> WireRequest:
    about = {name: value for name, value in (("task_type", request.task), ("title", request.title)) if value}
    draft.body["instances"] = [{"content": text, **about} for text in batch.texts]
    if request.dimensions:
        draft.body["parameters"] = {"outputDimensionality": request.dimensions}
    return draft.finish(f"{model_path(draft.target.model)}:predict")


def _options(request: EmbedRequest) -> dict[str, Any]:
    named = {"taskType": request.task, "title": request.title, "outputDimensionality": request.dimensions}
    return {name: value for name, value in named.items() if value}


# --- from the wire ----------------------------------------------------------------------------------------------------


def _read_common(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    entries = [jsonio.members(entry) for entry in listed(fields.get("data"))]
    vectors = [_vector(entry.get("embedding"), packed) for entry in entries]
    losses: list[Loss] = []
    order = [_index(entry.get("index"), at) for at, entry in enumerate(entries)]
    if len(order) > 1 and not any(order):  # some hosts number nothing: the order of the list is all there is
        losses.append(Loss("no-order", f"input[{start}]", "every embedding came as number 0: taken as listed"))
        order = list(range(len(order)))
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"the embeddings are numbered {order[:20]}")
    usage = _members(fields.get("usage"))
    prompt, total = _count(usage.get("prompt_tokens")), _count(usage.get("total_tokens"))
    return EmbedResponse(
        jsonio.text_of(fields.get("model")) or target.model,
        target.provider.name,
        tuple(vector for _, vector in sorted(zip(order, vectors, strict=True), key=lambda pair: pair[0])),
        EmbedUsage(prompt, prompt if total is None else total),
        tuple(losses),
        _extra(fields, "data", "model", "object"),
    )


def _read_contents(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    alone = fields.get("embedding")
    entries = listed(fields.get("embeddings")) if alone is None else [alone]
    usage = _members(fields.get("usageMetadata"))
    prompt, total = _count(usage.get("promptTokenCount")), _count(usage.get("totalTokenCount"))
    return EmbedResponse(
        target.model,
        target.provider.name,
        tuple(_vector(jsonio.members(entry).get("values"), packed) for entry in entries),
        EmbedUsage(prompt, prompt if total is None else total),
        _cut(fields.get("truncated"), start),
        _extra(fields, "embedding", "embeddings"),
    )


def _read_predict(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    entries = [_members(jsonio.members(entry).get("embeddings")) for entry in listed(fields.get("predictions"))]
    facts = [_members(entry.get("statistics")) for entry in entries]
    tokens = _sum([_count(fact.get("token_count")) for fact in facts])
    return EmbedResponse(
        target.model,
        target.provider.name,
        tuple(_vector(entry.get("values"), packed) for entry in entries),
        EmbedUsage(tokens, tokens),
        tuple(loss for at, fact in enumerate(facts) for loss in _cut(fact.get("truncated"), start + at)),
        _extra(fields, "predictions"),
    )


_READERS: dict[Way, Callable[[Fields, Target, int, str], EmbedResponse]] = {
    "embeddings": _read_common,
    "content": _read_contents,
    "predict": _read_predict,
}


def _vector(raw: Raw | None, packed: str) -> Vector:
    """Read one embedding: a list of numbers, or a string that holds them packed."""
    if raw is None:
        raise ValueError("an embedding is missing")
    if bytes(raw)[:1] != b'"':
        return jsonio.typed(raw, tuple[float, ...])
    data = base64.b64decode(jsonio.text_of(raw), validate=True)
    if packed == "base64_int8":
        return tuple(map(float, struct.unpack(f"<{len(data)}b", data)))
    if packed != "base64" or len(data) % 4:
        raise ValueError(f"{len(data)} bytes in the encoding {packed!r}, which is not read here")
    return struct.unpack(f"<{len(data) // 4}f", data)


def _index(raw: Raw | None, at: int) -> int:
    return at if raw is None or bytes(raw) == b"null" else jsonio.typed(raw, int)


def _cut(raw: Raw | None, at: int) -> tuple[Loss, ...]:
    if raw is None or bytes(raw) != b"true":
        return ()
    return (Loss("truncated-input", f"input[{at}]", "longer than the model reads: its end was left off", "split it"),)


def _members(raw: Raw | None) -> Fields:
    return jsonio.members(raw) if raw is not None and bytes(raw)[:1] == b"{" else {}


def _count(raw: Raw | None) -> int | None:
    return count(plain(raw))


def _extra(fields: Fields, *read: str) -> tuple[str, ...]:
    rest = {name: raw for name, raw in fields.items() if name not in read}
    return (jsonio.object_text(rest),) if rest else ()
