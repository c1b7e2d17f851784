"""Embeddings: split texts into requests that keep to the provider's limits, write them, read vectors."""

import base64
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.embeddings import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.jsonio import NULL, Fields, is_text, object_or_empty, read_optional_list
from tenuto.core.loss import Location, Loss
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import TranscriptError, UnsupportedModel
from tenuto.wire.body_builder import BodyBuilder, model_path, model_resource
from tenuto.wire.codec import codec_for
from tenuto.wire.provider_errors import protocol_errors, reply_fields
from tenuto.wire.usage import read_count

UNSTATED = 96  # texts per request if the provider states no limit: most limits are higher
MARKS = 2  # tokens that a tokenizer may put around each text


class Batch(NamedTuple):
    """The texts of one request, and the index of the first one among all."""

    start: int
    texts: tuple[str, ...]


class EmbeddingEndpoint(NamedTuple):
    max_texts: int  # the most texts in one request
    write: Callable[[BodyBuilder, EmbedRequest, Batch], WireRequest]
    read: Callable[[Fields, Target, int, str], EmbedResponse]
    """Read the fields of a response; the number of its first text and the encoding of packed vectors follow."""
    extra_body_in_items: bool = False  # a request with several texts repeats `extra_body` in each item


def batches(request: EmbedRequest, target: Target) -> list[Batch]:
    """Split the texts into requests that keep to the provider's limits. A token has at least one byte, so bytes are
    counted against a limit of tokens; a text over the limit is sent alone. Raise `UnsupportedModel` if there are no
    embeddings.
    """
    max_texts, max_tokens = _endpoint(target).max_texts, target.provider.embeddings.tokens
    result: list[Batch] = []
    texts: list[str] = []
    size = start = 0
    for index, text in enumerate(request.texts):
        weight = len(text.encode("utf-8", "replace")) + MARKS if max_tokens else 0
        if texts and (len(texts) >= max_texts or size + weight > max_tokens > 0):
            result.append(Batch(start, tuple(texts)))
            texts, size, start = [], 0, index
        texts.append(text)
        size += weight
    return [*result, Batch(start, tuple(texts))] if texts else result


def encode(request: EmbedRequest, target: Target, batch: Batch) -> WireRequest:
    """Write the request for one batch; an unknown option is a `Loss`. Raise `UnsupportedModel` or `TranscriptError`."""
    endpoint = _endpoint(target)
    in_items = endpoint.extra_body_in_items and len(batch.texts) > 1
    extra_body, headers = {} if in_items else request.extra_body, request.extra_headers
    chat_request = ChatRequest(model=request.model, messages=(), extra_body=extra_body, extra_headers=headers)
    try:
        return endpoint.write(BodyBuilder(chat_request, target), request, batch)
    except jsonio.JsonError as exc:
        raise TranscriptError(f"the request cannot be written as JSON: {exc}") from exc


def decode(body: bytes, request: EmbedRequest, target: Target, batch: Batch) -> EmbedResponse:
    """Read one vector for each text, in order. Raise the provider's error, or `ProtocolError`."""
    provider = target.provider
    with protocol_errors("the embeddings", body, provider.name):
        format = str(request.extra_body.get("encoding_format") or "")
        packed = format if format.startswith("base64") else provider.embeddings.packed
        response = _endpoint(target).read(reply_fields(body, provider.name), target, batch.start, packed)
        if len(response.embeddings) != len(batch.texts):
            raise ValueError(f"{len(batch.texts)} texts went out, {len(response.embeddings)} embeddings came back")
        if not all(response.embeddings):
            raise ValueError("an embedding holds no numbers")
    return response


def joined(parts: Sequence[EmbedResponse], target: Target) -> EmbedResponse:
    """Join the responses to all batches. Usage is summed; without a batch it is 0."""
    prompt_tokens = sum_counts([part.usage.prompt_tokens for part in parts])
    total_tokens = sum_counts([part.usage.total_tokens for part in parts])
    return EmbedResponse(
        parts[0].model if parts else target.model,
        target.provider.name,
        tuple(vector for part in parts for vector in part.embeddings),
        EmbedUsage(prompt_tokens, total_tokens),
        tuple(dict.fromkeys(loss for part in parts for loss in part.losses)),
        tuple(extra for part in parts for extra in part.extra),
    )


def sum_counts(counts: Sequence[int | None]) -> int | None:
    """Add counts; the sum is unknown if one of them is."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _endpoint(target: Target) -> EmbeddingEndpoint:
    """Choose the endpoint. Raise `UnsupportedModel` if there are no embeddings."""
    choose, name = codec_for(target.dialect).embeddings, f"{target.provider.name}/{target.model}"
    if choose is None:
        raise UnsupportedModel(name, "there are no embeddings in this dialect; use another provider")
    if not target.provider.embeddings.path:
        raise UnsupportedModel(name, "this provider has no embeddings; ask another one")
    return choose(target)


def common_endpoint(target: Target) -> EmbeddingEndpoint:
    """Return the endpoint that OpenAI made common."""
    return EmbeddingEndpoint(target.provider.embeddings.batch or UNSTATED, _write_common, _read_common)


def _write_common(builder: BodyBuilder, request: EmbedRequest, batch: Batch) -> WireRequest:
    switches = builder.target.provider.embeddings
    texts = request.input if isinstance(request.input, str) else batch.texts
    builder.set_if_given(model=builder.target.model, input=texts)
    for name, value, field in (
        ("dimensions", request.dimensions, switches.dimensions_field),
        ("task", request.task, switches.task_field),
        ("title", request.title, ""),
    ):
        if value and field:
            builder.body[field] = value
        elif value:
            builder.record_loss("unsupported-parameter", name, repr(value), "leave it out, or name it in extra_body")
    return builder.finish(switches.path)


def _read_common(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    indices, vectors = [], []
    for position, raw in enumerate(read_optional_list(fields.get("data"))):
        entry = jsonio.members(raw)
        index = entry.get("index", NULL)
        indices.append(position if index == NULL else jsonio.decode_as(index, int))
        vectors.append(read_vector(entry.get("embedding"), packed))
    losses: list[Loss] = []
    if len(indices) > 1 and not any(indices):  # some hosts number nothing
        detail = "every embedding came as number 0: taken as listed"
        losses.append(Loss("no-order", Location(path=f"input[{start}]"), detail))
        indices = list(range(len(indices)))
    if sorted(indices) != list(range(len(indices))):
        raise ValueError(f"the embeddings are numbered {indices[:20]}")
    model = jsonio.text_of(fields.get("model")) or target.model
    ordered = tuple(vector for _, vector in sorted(zip(indices, vectors, strict=True)))
    usage = read_usage(fields.get("usage"), "prompt_tokens", "total_tokens")
    extra = other_fields(fields, "data", "model", "object")
    return EmbedResponse(model, target.provider.name, ordered, usage, tuple(losses), extra)


def read_usage(raw: Raw | None, prompt_name: str, total_name: str) -> EmbedUsage:
    usage = object_or_empty(raw)
    prompt, total = read_count(usage.get(prompt_name)), read_count(usage.get(total_name))
    return EmbedUsage(prompt, prompt if total is None else total)


def read_vector(raw: Raw | None, packed: str) -> tuple[float, ...]:
    """Read one embedding: a list of numbers, or a string with packed numbers."""
    if raw is None:
        raise ValueError("an embedding is missing")
    if not is_text(raw):
        return jsonio.decode_as(raw, tuple[float, ...])
    data = base64.b64decode(jsonio.text_of(raw), validate=True)
    if packed == "base64_int8":
        return tuple(map(float, struct.unpack(f"<{len(data)}b", data)))
    if packed != "base64" or len(data) % 4:
        raise ValueError(f"{len(data)} bytes in the encoding {packed!r}, which is not read here")
    return struct.unpack(f"<{len(data) // 4}f", data)


def truncation_loss(raw: Raw | None, index: int) -> tuple[Loss, ...]:
    if raw is None or bytes(raw) != b"true":
        return ()
    detail = "longer than the model reads: its end was left off"
    return (Loss("truncated-input", Location(path=f"input[{index}]"), detail, "split it"),)


def other_fields(fields: Fields, *read: str) -> tuple[str, ...]:
    rest = {name: raw for name, raw in fields.items() if name not in read}
    return (jsonio.object_text(rest),) if rest else ()


# --- Gemini: embedContent, batchEmbedContents, and predict on Google Cloud --------------------------------------------


def gemini_endpoint(target: Target) -> EmbeddingEndpoint:
    model = target.model.rpartition("/")[2]
    for pattern, max_texts in target.provider.embeddings.predict.items():
        if re.fullmatch(pattern, model):
            return EmbeddingEndpoint(max_texts, _write_predict, _read_predict)
    # On Google Cloud, embedContent takes one text; there is no endpoint for several.
    max_texts = 1 if target.provider.gemini.vertex else target.provider.embeddings.batch or UNSTATED
    return EmbeddingEndpoint(max_texts, _write_contents, _read_contents, extra_body_in_items=True)


def _write_contents(builder: BodyBuilder, request: EmbedRequest, batch: Batch) -> WireRequest:
    target = builder.target
    fields = {"taskType": request.task, "title": request.title, "outputDimensionality": request.dimensions}
    options: dict[str, Any] = {name: value for name, value in fields.items() if value}
    if target.provider.gemini.vertex:
        builder.body["content"] = {"role": "user", "parts": [{"text": batch.texts[0]}]}
        builder.set_if_given(embedContentConfig=options or None)
        return builder.finish(f"{model_path(target.model)}:embedContent")
    model = model_resource(target.model)
    contents = [{"model": model, "content": {"parts": [{"text": text}]}, **options} for text in batch.texts]
    if len(contents) == 1:
        builder.body.update(contents[0])
        return builder.finish(f"{model_path(target.model)}:embedContent")
    builder.body["requests"] = [{**content, **request.extra_body} for content in contents]
    return builder.finish(f"{model_path(target.model)}:batchEmbedContents")


def _write_predict(builder: BodyBuilder, request: EmbedRequest, batch: Batch) -> WireRequest:
    options = {name: value for name, value in (("task_type", request.task), ("title", request.title)) if value}
    builder.body["instances"] = [{"content": text, **options} for text in batch.texts]
    if request.dimensions:
        builder.body["parameters"] = {"outputDimensionality": request.dimensions}
    return builder.finish(f"{model_path(builder.target.model)}:predict")


def _read_contents(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    single = fields.get("embedding")
    entries = read_optional_list(fields.get("embeddings")) if single is None else [single]
    vectors = tuple(read_vector(jsonio.members(entry).get("values"), packed) for entry in entries)
    usage = read_usage(fields.get("usageMetadata"), "promptTokenCount", "totalTokenCount")
    losses, extra = truncation_loss(fields.get("truncated"), start), other_fields(fields, "embedding", "embeddings")
    return EmbedResponse(target.model, target.provider.name, vectors, usage, losses, extra)


def _read_predict(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    predictions = read_optional_list(fields.get("predictions"))
    entries = [object_or_empty(jsonio.members(entry).get("embeddings")) for entry in predictions]
    statistics = [object_or_empty(entry.get("statistics")) for entry in entries]
    tokens = sum_counts([read_count(item.get("token_count")) for item in statistics])
    vectors = tuple(read_vector(entry.get("values"), packed) for entry in entries)
    losses: list[Loss] = []
    for index, item in enumerate(statistics, start):
        losses += truncation_loss(item.get("truncated"), index)
    usage, extra = EmbedUsage(tokens, tokens), other_fields(fields, "predictions")
    return EmbedResponse(target.model, target.provider.name, vectors, usage, tuple(losses), extra)
