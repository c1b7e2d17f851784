"""Embedding endpoints: `embedContent`, `batchEmbedContents`, and `predict` on Google Cloud."""

from __future__ import annotations

import re
from typing import Any

from tenuto.core import jsonio
from tenuto.core.embedding import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.loss import Loss
from tenuto.core.provider import Target, WireRequest
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.embeddings import (
    UNSTATED,
    Batch,
    EmbeddingEndpoint,
    other_fields,
    read_usage,
    read_vector,
    sum_counts,
    truncation_loss,
)
from tenuto.wire.rawjson import Fields, object_or_empty, read_optional_list
from tenuto.wire.urls import model_path, model_resource
from tenuto.wire.usage import read_count


def choose_endpoint(target: Target) -> EmbeddingEndpoint:
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
    contents = [
        {"model": model_resource(target.model), "content": {"parts": [{"text": text}]}, **options}
        for text in batch.texts
    ]
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
    entries = [
        object_or_empty(jsonio.members(entry).get("embeddings"))
        for entry in read_optional_list(fields.get("predictions"))
    ]
    statistics = [object_or_empty(entry.get("statistics")) for entry in entries]
    tokens = sum_counts([read_count(item.get("token_count")) for item in statistics])
    vectors = tuple(read_vector(entry.get("values"), packed) for entry in entries)
    losses: list[Loss] = []
    for index, item in enumerate(statistics, start):
        losses += truncation_loss(item.get("truncated"), index)
    usage, extra = EmbedUsage(tokens, tokens), other_fields(fields, "predictions")
    return EmbedResponse(target.model, target.provider.name, vectors, usage, tuple(losses), extra)
