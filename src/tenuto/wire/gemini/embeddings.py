"""The embedding endpoints of Gemini: `embedContent`, `batchEmbedContents`, and `predict` on Google Cloud."""

from __future__ import annotations

import re
from typing import Any

from tenuto.core import jsonio
from tenuto.core.embedding import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.provider import Target, WireRequest
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.embeddings import (
    UNSTATED,
    Batch,
    EmbeddingEndpoint,
    other_fields,
    read_vector,
    sum_counts,
    truncation_loss,
)
from tenuto.wire.json_reply import listed
from tenuto.wire.rawjson import Fields, object_or_empty
from tenuto.wire.urls import model_path, model_resource
from tenuto.wire.usage import read_count


def choose_endpoint(target: Target) -> EmbeddingEndpoint:
    model = target.model.rpartition("/")[2]
    for pattern, most in target.provider.embeddings.predict.items():
        if re.fullmatch(pattern, model):
            return EmbeddingEndpoint(most, _write_predict, _read_predict)
    # On Google Cloud embedContent takes one text, and there is no endpoint for several.
    most = 1 if target.provider.gemini.vertex else target.provider.embeddings.batch or UNSTATED
    return EmbeddingEndpoint(most, _write_contents, _read_contents, extra_body_in_items=True)


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


def _read_contents(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    alone = fields.get("embedding")
    entries = listed(fields.get("embeddings")) if alone is None else [alone]
    usage = object_or_empty(fields.get("usageMetadata"))
    prompt, total = read_count(usage.get("promptTokenCount")), read_count(usage.get("totalTokenCount"))
    return EmbedResponse(
        target.model,
        target.provider.name,
        tuple(read_vector(jsonio.members(entry).get("values"), packed) for entry in entries),
        EmbedUsage(prompt, prompt if total is None else total),
        truncation_loss(fields.get("truncated"), start),
        other_fields(fields, "embedding", "embeddings"),
    )


def _read_predict(fields: Fields, target: Target, start: int, packed: str) -> EmbedResponse:
    entries = [object_or_empty(jsonio.members(entry).get("embeddings")) for entry in listed(fields.get("predictions"))]
    facts = [object_or_empty(entry.get("statistics")) for entry in entries]
    tokens = sum_counts([read_count(fact.get("token_count")) for fact in facts])
    return EmbedResponse(
        target.model,
        target.provider.name,
        tuple(read_vector(entry.get("values"), packed) for entry in entries),
        EmbedUsage(tokens, tokens),
        tuple(loss for at, fact in enumerate(facts) for loss in truncation_loss(fact.get("truncated"), start + at)),
        other_fields(fields, "predictions"),
    )
