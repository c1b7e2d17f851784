"""Embeddings, token counts and lists of models: requests and results equal those of the official SDKs."""

from __future__ import annotations

import json
from typing import get_type_hints

import httpx2
import pytest
from anthropic import Anthropic
from anthropic.types import MessageCountTokensParams
from anthropic.types.beta import MessageCountTokensParams as BetaCountTokensParams
from google import genai
from google.genai import _transformers as google_rules
from google.genai import types
from openai import OpenAI
from openai.types.responses import InputTokenCountParams

from tenuto import catalog
from tenuto.core.embeddings import EmbedRequest
from tenuto.core.messages import SystemMessage, UserMessage
from tenuto.core.request import ChatRequest, ToolDefinition
from tenuto.wire import count_tokens, embeddings, list_models
from tenuto.wire.codec import codec_for

TEXTS = ["hello", "world"]
WEATHER = ToolDefinition("weather", "Tells it", {"type": "object", "properties": {}})


class Wire:
    """A transport for an SDK: stores the requests and responds with one body."""

    def __init__(self, body: dict) -> None:
        self.body = body
        self.sent: list[httpx2.Request] = []
        self.client = httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request):
        self.sent.append(request)
        return httpx2.Response(200, json=self.body)

    @property
    def first_request(self) -> tuple[str, str, dict]:
        request = self.sent[0]
        return request.method, request.url.path, json.loads(request.content or b"{}")


def ours(target, wire) -> tuple[str, str, dict]:
    path = httpx2.URL(catalog.base_url(target) + wire.path).path
    return wire.method, path, json.loads(wire.body or b"{}")


def openai(wire):
    return OpenAI(api_key="k", http_client=wire.client)


def anthropic(wire):
    return Anthropic(api_key="k", http_client=wire.client)


def google(wire):
    return genai.Client(api_key="k", http_options=types.HttpOptions(httpx_client=wire.client, api_version="v1beta"))


def test_embeddings_equal_those_of_openai():
    """The same path, body and vectors."""
    data = [{"object": "embedding", "index": at, "embedding": [0.5, float(at)]} for at in range(2)]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    wire = Wire({"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage})
    sdk_result = openai(wire).embeddings.create(
        model="text-embedding-3-small", input=TEXTS, dimensions=2, encoding_format="float"
    )
    target = catalog.resolve("openai/text-embedding-3-small")
    our_request = EmbedRequest(model="openai/text-embedding-3-small", input=TEXTS, dimensions=2)
    batch = embeddings.batches(our_request, target)[0]
    method, path, body = wire.first_request
    del body["encoding_format"]

    assert ours(target, embeddings.encode(our_request, target, batch)) == (method, path, body)
    found = embeddings.decode(json.dumps(wire.body).encode(), our_request, target, batch)
    assert [list(vector) for vector in found.embeddings] == [entry.embedding for entry in sdk_result.data]
    assert (found.model, found.usage.prompt_tokens) == (sdk_result.model, sdk_result.usage.prompt_tokens)


def test_packed_floats_equal_those_of_openai():
    """The SDK requests them by default; with `extra_body` the numbers are the same."""
    entry = {"object": "embedding", "index": 0, "embedding": "AACAPwAAAMDNzMw9"}
    wire = Wire({"object": "list", "data": [entry], "model": "m", "usage": {"prompt_tokens": 2, "total_tokens": 2}})
    sdk_result = openai(wire).embeddings.create(model="m", input="hello")
    target = catalog.resolve("openai/m")
    our_request = EmbedRequest(model="openai/m", input="hello", extra_body={"encoding_format": "base64"})
    found = embeddings.decode(
        json.dumps(wire.body).encode(), our_request, target, embeddings.batches(our_request, target)[0]
    )

    assert (
        ours(target, embeddings.encode(our_request, target, embeddings.batches(our_request, target)[0]))
        == wire.first_request
    )
    assert list(found.embeddings[0]) == pytest.approx(sdk_result.data[0].embedding)


def test_embeddings_equal_those_of_google():
    """The SDK always requests a batch."""
    wire = Wire({"embeddings": [{"values": [0.5]}, {"values": [1.5]}], "usageMetadata": {"promptTokenCount": 4}})
    config = types.EmbedContentConfig(output_dimensionality=1, task_type="CLUSTERING", title="T")
    sdk_result = google(wire).models.embed_content(model="gemini-embedding-001", contents=TEXTS, config=config)
    target = catalog.resolve("google/gemini-embedding-001")
    our_request = EmbedRequest(
        model="google/gemini-embedding-001", input=TEXTS, dimensions=1, task="CLUSTERING", title="T"
    )
    batch = embeddings.batches(our_request, target)[0]
    method, path, body = wire.first_request
    for request in body["requests"]:
        request["content"].pop("role", None)

    assert ours(target, embeddings.encode(our_request, target, batch)) == (method, path, body)
    found = embeddings.decode(json.dumps(wire.body).encode(), our_request, target, batch)
    assert [list(vector) for vector in found.embeddings] == [entry.values for entry in sdk_result.embeddings]


@pytest.mark.parametrize(
    "model",
    [
        "gemini-embedding-001",
        "gemini-embedding-001-next",
        "gemini-embedding-2",
        "text-embedding-005",
        "text-multilingual-embedding-002",
        "e5-maas",
    ],
)
def test_vertex_embedding_methods_are_those_of_the_sdk(model):
    """By the SDK's own rule."""
    target = catalog.build_target(catalog.find_provider("vertex"), model, "gemini")
    our_request = EmbedRequest(model=f"vertex/{model}", input="a")
    wire = embeddings.encode(our_request, target, embeddings.batches(our_request, target)[0])

    assert wire.path.endswith(":embedContent") == google_rules.t_is_vertex_embed_content_model(model)
    assert wire.path.endswith((":embedContent", ":predict"))


def test_count_fields_are_accepted_by_the_sdks():
    """Every field of our requests is in the SDK's types, and all relevant fields are sent."""
    anthropic_fields = set(get_type_hints(MessageCountTokensParams)) | set(get_type_hints(BetaCountTokensParams))
    openai_fields = set(get_type_hints(InputTokenCountParams))

    assert codec_for("anthropic-messages").count_tokens.fields == anthropic_fields - {"betas", "workspace_id"}
    assert codec_for("openai-responses").count_tokens.fields == openai_fields


def make_request(model):
    messages = (SystemMessage("Be brief."), UserMessage("Hello"))
    return ChatRequest(model=model, messages=messages, tools=(WEATHER,), max_tokens=5)


def test_count_equals_that_of_anthropic():
    wire = Wire({"input_tokens": 14})
    target = catalog.resolve("anthropic/claude-sonnet-4-5")
    written = count_tokens.encode(make_request("anthropic/claude-sonnet-4-5"), target)
    sdk_result = anthropic(wire).messages.count_tokens(**json.loads(written.body))

    assert ours(target, written) == wire.first_request
    assert count_tokens.decode(b'{"input_tokens": 14}', target) == sdk_result.input_tokens


def test_count_equals_that_of_openai():
    wire = Wire({"object": "response.input_tokens", "input_tokens": 11})
    target = catalog.resolve("openai/gpt-5.2")
    written = count_tokens.encode(make_request("openai/gpt-5.2"), target)
    sdk_result = openai(wire).responses.input_tokens.count(**json.loads(written.body))

    assert ours(target, written) == wire.first_request
    assert count_tokens.decode(json.dumps(wire.body).encode(), target) == sdk_result.input_tokens


def test_count_url_is_that_of_google():
    """The SDK counts the contents only, we count the whole request."""
    wire = Wire({"totalTokens": 9})
    sdk_result = google(wire).models.count_tokens(model="gemini-2.5-flash", contents="Hello")
    target = catalog.resolve("google/gemini-2.5-flash")
    written = count_tokens.encode(make_request("google/gemini-2.5-flash"), target)

    assert ours(target, written)[:2] == wire.first_request[:2]
    assert ours(target, written)[2]["generateContentRequest"]["contents"] == wire.first_request[2]["contents"]
    assert count_tokens.decode(b'{"totalTokens": 9}', target) == sdk_result.total_tokens


@pytest.mark.parametrize(
    "name, sdk, body, sdk_result",
    [
        (
            "openai",
            lambda wire: openai(wire).models.list().data,
            {"object": "list", "data": [{"id": "a", "object": "model", "created": 1765324800, "owned_by": "o"}]},
            lambda model: (model.id, model.created),
        ),
        (
            "anthropic",
            lambda wire: anthropic(wire).models.list(limit=1000).data,
            {
                "data": [
                    {
                        "id": "a",
                        "type": "model",
                        "display_name": "A",
                        "created_at": "2026-02-04T00:00:00Z",
                        "lifecycle": "active",
                        "max_input_tokens": 5,
                        "max_tokens": 3,
                    }
                ],
                "has_more": False,
            },
            lambda model: (model.id, model.display_name, model.max_input_tokens, model.max_tokens),
        ),
        (
            "google",
            lambda wire: list(google(wire).models.list(config={"page_size": 1000})),
            {"models": [{"name": "models/a", "displayName": "A", "inputTokenLimit": 5, "outputTokenLimit": 3}]},
            lambda model: (model.name, model.display_name, model.input_token_limit, model.output_token_limit),
        ),
    ],
)
def test_model_lists_equal_those_of_the_sdks(name, sdk, body, sdk_result):
    """The same pages and fields."""
    wire = Wire(body)
    (theirs,) = map(sdk_result, sdk(wire))
    row = catalog.find_provider(name)
    written = list_models.encode(row)
    (found,), _ = list_models.decode(json.dumps(body).encode(), row)
    url = httpx2.URL(row.base_url + written.path)
    our_request = wire.sent[0].url

    assert url.path == our_request.path
    assert dict(url.params) == {key: value for key, value in our_request.params.items() if key != "queryBase"}
    facts = {found.id, f"models/{found.id}", found.name, found.context_window, found.max_output, 1765324800}
    assert set(theirs) <= facts
