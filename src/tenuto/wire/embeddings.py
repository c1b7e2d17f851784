"""Embeddings: split texts into requests that keep to the provider's limits, write them, read vectors."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.embedding import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.loss import Loss
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import TranscriptError, UnsupportedModel
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.json_reply import protocol_errors, read_optional_list, reply_fields
from tenuto.wire.rawjson import Fields, object_or_empty
from tenuto.wire.registry import codec_for
from tenuto.wire.usage import read_count

UNSTATED = 96
"""Texts per request if the provider states no limit: most limits are higher."""
MARKS = 2
"""Tokens that a tokeniser may put around each text."""

Vector: TypeAlias = tuple[float, ...]


class Batch(NamedTuple):
    """The texts of one request, and the index of the first one among all."""

    start: int
    texts: tuple[str, ...]


class EmbeddingEndpoint(NamedTuple):
    """How one endpoint embeds texts."""

    max_texts: int
    """The most texts in one request."""
    write: Callable[[BodyBuilder, EmbedRequest, Batch], WireRequest]
    read: Callable[[Fields, Target, int, str], EmbedResponse]
    """Read the fields of a response; the number of its first text and the encoding of packed vectors follow."""
    extra_body_in_items: bool = False
    """A request with several texts repeats `extra_body` in each item."""


def batches(request: EmbedRequest, target: Target) -> list[Batch]:
    """Split the texts into requests that keep to the provider's limits, in order.

    A token has at least one byte, so bytes are counted where tokens are limited; a text that is too long by itself goes
    out by itself, and the provider says what it makes of it. Raise `UnsupportedModel` where there are no embeddings.
    """
    most, switches = _endpoint(target).max_texts, target.provider.embeddings
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
    endpoint = _endpoint(target)
    in_items = endpoint.extra_body_in_items and len(batch.texts) > 1
    own = {} if in_items else request.extra_body
    asked = ChatRequest(model=request.model, messages=(), extra_body=own, extra_headers=request.extra_headers)
    draft = BodyBuilder(asked, target)
    try:
        return endpoint.write(draft, request, batch)
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
        read = _endpoint(target).read(reply_fields(body, provider), target, batch.start, packed)
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
            sum_counts([part.usage.prompt_tokens for part in parts]),
            sum_counts([part.usage.total_tokens for part in parts]),
        ),
        tuple(dict.fromkeys(loss for part in parts for loss in part.losses)),
        tuple(extra for part in parts for extra in part.extra),
    )


def sum_counts(numbers: Sequence[int | None]) -> int | None:
    """Add counts; one that is unknown makes the sum unknown, since a part of a bill is not the bill."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


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


# --- from the wire ----------------------------------------------------------------------------------------------------


def _read_common(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    entries = [jsonio.members(entry) for entry in read_optional_list(fields.get("data"))]
    vectors = [read_vector(entry.get("embedding"), packed) for entry in entries]
    losses: list[Loss] = []
    order = [_index(entry.get("index"), at) for at, entry in enumerate(entries)]
    if len(order) > 1 and not any(order):  # some hosts number nothing: the order of the list is all there is
        losses.append(Loss("no-order", f"input[{start}]", "every embedding came as number 0: taken as listed"))
        order = list(range(len(order)))
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"the embeddings are numbered {order[:20]}")
    usage = object_or_empty(fields.get("usage"))
    prompt, total = read_count(usage.get("prompt_tokens")), read_count(usage.get("total_tokens"))
    return EmbedResponse(
        jsonio.text_of(fields.get("model")) or target.model,
        target.provider.name,
        tuple(vector for _, vector in sorted(zip(order, vectors, strict=True), key=lambda pair: pair[0])),
        EmbedUsage(prompt, prompt if total is None else total),
        tuple(losses),
        other_fields(fields, "data", "model", "object"),
    )


def read_vector(raw: Raw | None, packed: str) -> Vector:
    """Read one embedding: a list of numbers, or a string that holds them packed."""
    if raw is None:
        raise ValueError("an embedding is missing")
    if bytes(raw)[:1] != b'"':
        return jsonio.decode_as(raw, tuple[float, ...])
    data = base64.b64decode(jsonio.text_of(raw), validate=True)
    if packed == "base64_int8":
        return tuple(map(float, struct.unpack(f"<{len(data)}b", data)))
    if packed != "base64" or len(data) % 4:
        raise ValueError(f"{len(data)} bytes in the encoding {packed!r}, which is not read here")
    return struct.unpack(f"<{len(data) // 4}f", data)


def _index(raw: Raw | None, at: int) -> int:
    return at if raw is None or bytes(raw) == b"null" else jsonio.decode_as(raw, int)


def truncation_loss(raw: Raw | None, at: int) -> tuple[Loss, ...]:
    if raw is None or bytes(raw) != b"true":
        return ()
    return (Loss("truncated-input", f"input[{at}]", "longer than the model reads: its end was left off", "split it"),)


def other_fields(fields: Fields, *read: str) -> tuple[str, ...]:
    rest = {name: raw for name, raw in fields.items() if name not in read}
    return (jsonio.object_text(rest),) if rest else ()
