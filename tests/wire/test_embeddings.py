"""Embeddings: requests by dialect and provider row, batches, and responses."""

from __future__ import annotations

import base64
import itertools
import json
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenuto import catalog
from tenuto.core.embeddings import EmbedRequest, EmbedUsage
from tenuto.core.provider import EmbeddingSwitches, Provider, Target
from tenuto.errors import BadRequest, LLMError, NotFound, ProtocolError, TranscriptError, UnsupportedModel
from tenuto.wire.embeddings import UNSTATED, Batch, batches, decode, encode, joined

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
SMALL = "openai/text-embedding-3-small"
GEMINI = "google/gemini-embedding-2"


def target_of(model):
    return catalog.resolve(model)


def write(model, texts, **more):
    """The path, the body and the losses of a request with all texts."""
    request = EmbedRequest(model=model, input=texts, **more)
    wire = encode(request, target_of(model), Batch(0, request.texts))
    return wire.path, json.loads(wire.body), [(loss.kind, str(loss.location)) for loss in wire.losses]


def read(model, body, count, **more):
    request = EmbedRequest(model=model, input=["x"] * count, **more)
    return decode(json.dumps(body).encode(), request, target_of(model), Batch(0, request.texts))


def common(*vectors, **more):
    """A response in the common form."""
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage} | more


# --- to the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", ["hello", ["hello"], ["hello", "world"]])
def test_common_request(texts):
    """As specified: model, input as the caller wrote it, dimensions."""
    bare = write(SMALL, texts)
    full = write(SMALL, texts, dimensions=256, extra_body={"user": "u"})

    assert bare == ("/embeddings", {"model": "text-embedding-3-small", "input": texts}, [])
    assert full[1] == {"model": "text-embedding-3-small", "input": texts, "dimensions": 256, "user": "u"}


@pytest.mark.parametrize(
    "model, path, body",
    [
        (
            "perplexity/pplx-embed-v1-0.6b",
            "/v1/embeddings",
            {"model": "pplx-embed-v1-0.6b", "input": ["a"], "dimensions": 64},
        ),
        (
            "mistral/codestral-embed",
            "/embeddings",
            {"model": "codestral-embed", "input": ["a"], "output_dimension": 64},
        ),
        ("openrouter/openai/text-embedding-3-small", "/embeddings", None),
        ("azure/my-deployment", "/embeddings", None),
        ("ollama/embeddinggemma", "/embeddings", None),
    ],
)
def test_request_follows_provider_switches(model, path, body):
    wire = write(model, ["a"], dimensions=64)

    assert wire[0] == path
    assert wire[1] == (body or {"model": model.partition("/")[2], "input": ["a"], "dimensions": 64})


def test_gemini_embeds_one_text_with_embed_content():
    """As specified: embedContent, with the resource name of the model in the body."""
    path, body, losses = write(GEMINI, "hello", dimensions=768, task="RETRIEVAL_DOCUMENT", title="Greetings")

    assert path == "/models/gemini-embedding-2:embedContent"
    assert body == {
        "model": "models/gemini-embedding-2",
        "content": {"parts": [{"text": "hello"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "title": "Greetings",
        "outputDimensionality": 768,
    }
    assert losses == []


def test_gemini_embeds_several_texts_as_batch():
    """As specified: batchEmbedContents, in order; `extra_body` is in each item."""
    path, body, _ = write(GEMINI, ["hello", "world"], dimensions=8, extra_body={"autoTruncate": False})

    assert path == "/models/gemini-embedding-2:batchEmbedContents"
    assert body == {
        "requests": [
            {
                "model": "models/gemini-embedding-2",
                "content": {"parts": [{"text": text}]},
                "outputDimensionality": 8,
                "autoTruncate": False,
            }
            for text in ("hello", "world")
        ]
    }


def test_vertex_embeds_one_text_per_request():
    path, body, _ = write("vertex/gemini-embedding-2", "hello", dimensions=8, task="CLUSTERING")

    assert path == "/models/gemini-embedding-2:embedContent"
    assert body == {
        "content": {"role": "user", "parts": [{"text": "hello"}]},
        "embedContentConfig": {"taskType": "CLUSTERING", "outputDimensionality": 8},
    }
    assert "embedContentConfig" not in write("vertex/gemini-embedding-2", "hello")[1]


def test_older_vertex_models_use_predict():
    path, body, _ = write("vertex/text-embedding-005", ["a", "b"], dimensions=8, task="CLUSTERING", title="T")

    assert path == "/models/text-embedding-005:predict"
    assert body == {
        "instances": [{"content": text, "task_type": "CLUSTERING", "title": "T"} for text in "ab"],
        "parameters": {"outputDimensionality": 8},
    }
    assert "parameters" not in write("vertex/text-embedding-005", ["a"])[1]
    assert write("vertex/gemini-embedding-001", "a")[0].endswith(":predict")
    assert write("vertex/gemini-embedding-001-next", "a")[0].endswith(":embedContent")


def test_unsupported_option_is_a_loss():
    row = Provider("mine", "openai-chat", "http://localhost/v1", embeddings=EmbeddingSwitches(dimensions_field=""))
    request = EmbedRequest(model="mine/m", input="a", dimensions=3, task="query", title="T")
    wire = encode(request, Target(row, "m", "openai-chat"), Batch(0, ("a",)))

    assert json.loads(wire.body) == {"model": "m", "input": "a"}
    assert [str(loss.location) for loss in wire.losses] == ["dimensions", "task", "title"]
    assert write("nvidia/nvidia/nv-embedqa-e5-v5", "a", task="query")[1]["input_type"] == "query"


@pytest.mark.parametrize(
    "model, why",
    [
        ("anthropic/claude-sonnet-4-5", "no embeddings in this dialect"),
        ("deepseek/deepseek-chat", "has no embeddings"),
        ("xai/grok-4.7", "has no embeddings"),
        ("github/gpt-4o", "has no embeddings"),
    ],
)
def test_provider_without_embeddings_is_an_error(model, why):
    request = EmbedRequest(model=model, input=[])

    with pytest.raises(UnsupportedModel, match=why) as caught:
        batches(request, target_of(model))
    with pytest.raises(UnsupportedModel):
        encode(request, target_of(model), Batch(0, ("a",)))
    assert caught.value.model == model


def test_headers_of_provider_and_caller_are_sent():
    row = replace(catalog.find_provider("openai"), headers={"x-a": "row", "x-b": "row"})
    request = EmbedRequest(model=SMALL, input="a", extra_headers={"X-A": "caller"})
    wire = encode(request, Target(row, "m", "openai-chat"), Batch(0, ("a",)))

    assert (wire.method, wire.headers["x-a"], wire.headers["x-b"]) == ("POST", "caller", "row")


def test_lone_surrogates_are_replaced_with_a_loss():
    request = EmbedRequest(model=SMALL, input="a\ud800b")
    wire = encode(request, target_of(SMALL), batches(request, target_of(SMALL))[0])

    assert json.loads(wire.body)["input"] == "a\ufffdb"
    assert [loss.kind for loss in wire.losses] == ["lone-surrogate"]


def test_value_that_json_cannot_express_is_an_error():
    with pytest.raises(TranscriptError, match="nan is not JSON"):
        write(SMALL, "a", extra_body={"x": float("nan")})


def test_model_name_is_quoted_in_the_path():
    assert write("google/my model?", "a")[0] == "/models/my%20model%3F:embedContent"
    assert write("google/tunedModels/mine", "a")[0] == "/tunedModels/mine:embedContent"


# --- batches ----------------------------------------------------------------------------------------------------------


def sizes(model, texts):
    return [len(batch.texts) for batch in batches(EmbedRequest(model=model, input=texts), target_of(model))]


@pytest.mark.parametrize(
    "model, count, expected",
    [
        (SMALL, 2049, [2048, 1]),
        (GEMINI, 250, [100, 100, 50]),
        ("alibaba/text-embedding-v4", 21, [10, 10, 1]),
        ("cohere/embed-v4.0", 96, [96]),
        ("ollama/embeddinggemma", UNSTATED + 1, [UNSTATED, 1]),
        ("vertex/gemini-embedding-2", 2, [1, 1]),
        ("vertex/gemini-embedding-001", 2, [1, 1]),
        ("vertex/google/text-embedding-005", 251, [250, 1]),
        ("vertex/text-embedding-005", 251, [250, 1]),
        (SMALL, 0, []),
    ],
)
def test_batches_keep_to_the_limit_of_texts(model, count, expected):
    assert sizes(model, ["a"] * count) == expected


def test_batches_keep_to_the_limit_of_tokens():
    """Bytes are counted, since a token has at least one, plus two for each text. A longer text is sent alone."""
    model, tokens = "mistral/mistral-embed", catalog.find_provider("mistral").embeddings.tokens
    half = "é" * (tokens // 4 - 1)  # two bytes each: with two more per text, half of what fits

    assert sizes(model, [half, half]) == [2]
    assert sizes(model, [half, half + "a"]) == [1, 1]
    assert sizes(model, ["a", "b" * tokens * 2, "c"]) == [1, 1, 1]


@given(st.lists(st.text(max_size=30), max_size=40), st.integers(0, 7), st.integers(0, 60))
def test_batches_contain_all_texts_in_order(texts, most, tokens):
    """No batch is empty, and the first text of each would not fit into the batch before it."""
    row = Provider("mine", "openai-chat", "", embeddings=EmbeddingSwitches(batch=most, tokens=tokens))
    result = batches(EmbedRequest(model="mine/m", input=texts), Target(row, "m", "openai-chat"))

    assert [text for batch in result for text in batch.texts] == texts
    assert [batch.start for batch in result] == [sum(len(b.texts) for b in result[:at]) for at in range(len(result))]

    def fits(some):
        weight = sum(len(text.encode("utf-8", "replace")) + 2 for text in some)
        return len(some) <= (most or UNSTATED) and (not tokens or weight <= tokens)

    assert all(len(batch.texts) == 1 or fits(batch.texts) for batch in result)
    assert all(batch.texts for batch in result)
    assert not any(fits((*before.texts, after.texts[0])) for before, after in itertools.pairwise(result))


# --- from the wire ----------------------------------------------------------------------------------------------------


def test_vectors_usage_and_other_fields_are_read():
    response = read(SMALL, common([0.5, 1, -2], [1e-3, 0, 0], id="e1"), 2)

    assert response.embeddings == ((0.5, 1.0, -2.0), (0.001, 0.0, 0.0))
    assert (response.model, response.provider) == ("text-embedding-3-small", "openai")
    assert response.usage == EmbedUsage(5, 5)
    assert [json.loads(extra) for extra in response.extra] == [
        {"usage": {"prompt_tokens": 5, "total_tokens": 5}, "id": "e1"}
    ]
    assert response.losses == ()


@given(st.permutations(range(6)))
def test_vectors_are_sorted_by_index(order):
    body = common(*([float(at)] for at in range(6)))
    body["data"] = [body["data"][at] for at in order]

    assert read(SMALL, body, 6).embeddings == tuple((float(at),) for at in range(6))


def test_vectors_without_index_stay_in_order():
    """If every index is 0, a loss reports it."""
    body = common([1.0], [2.0], [3.0])
    for entry in body["data"]:
        del entry["index"]
    assert read(SMALL, body, 3).embeddings == ((1.0,), (2.0,), (3.0,))
    assert read(SMALL, body, 3).losses == ()

    for entry in body["data"]:
        entry["index"] = 0
    assert read(SMALL, body, 3).embeddings == ((1.0,), (2.0,), (3.0,))
    assert [loss.kind for loss in read(SMALL, body, 3).losses] == ["no-order"]


def broken(**changes):
    body = common([1.0], [2.0])
    body["data"][1] |= changes
    return body


@pytest.mark.parametrize(
    "body, why",
    [
        (common([1.0]), "2 texts went out, 1 embeddings came back"),
        (common([1.0], [2.0], [3.0]), "2 texts went out, 3 embeddings"),
        (broken(index=2), r"numbered \[0, 2\]"),
        (broken(index="1"), "Expected `int`"),
        (broken(embedding=[]), "holds no numbers"),
        (broken(embedding=None), "Expected `array`"),
        (broken(embedding=[1.0, None]), "Expected `float`"),
        (broken(embedding="AAA"), "Incorrect padding"),
        (broken(embedding="AAAAAAAA"), "6 bytes in the encoding 'base64'"),
        (broken(embedding="§"), "ASCII"),
        (broken(embedding="AAAAA!A=="), "base64"),
        ({"object": "list"}, "2 texts went out, 0"),
        ({"data": None}, "2 texts went out, 0"),
        ({"data": {"0": []}}, "Expected `array`"),
        ({"data": [[0.5], [0.5]]}, "Expected `object`"),
        ([], "Expected `object`"),
    ],
)
def test_malformed_response_is_an_error(body, why):
    with pytest.raises(ProtocolError, match=why) as caught:
        read(SMALL, body, 2)

    assert (caught.value.provider, json.loads(caught.value.frame)) == ("openai", body)


def test_missing_vector_is_an_error():
    body = common([1.0])
    del body["data"][0]["embedding"]

    with pytest.raises(ProtocolError, match="an embedding is missing"):
        read(SMALL, body, 1)


@pytest.mark.parametrize(
    "body, kind",
    [
        ({"error": {"message": "no such model", "code": "model_not_found"}}, NotFound),
        ({"error": {"message": "bad", "code": 400}}, BadRequest),
        ({"vectors": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, LLMError),
    ],
)
def test_error_with_successful_status_is_raised(body, kind):
    with pytest.raises(kind) as caught:
        read(SMALL, body, 1)

    assert not isinstance(caught.value, ProtocolError)
    assert caught.value.provider == "openai"


@pytest.mark.parametrize(
    "usage, expected",
    [
        ({"prompt_tokens": 3}, (3, 3)),
        ({"total_tokens": 3}, (None, 3)),
        ({"prompt_tokens": 0, "total_tokens": 0}, (0, 0)),
        ({"prompt_tokens": "3", "total_tokens": -1}, (None, None)),
        (None, (None, None)),
        ([], (None, None)),
    ],
)
def test_usage_is_read(usage, expected):
    """Without a total, the prompt is the total; without a prompt, it is unknown."""
    assert read(SMALL, common([1.0], usage=usage), 1).usage == EmbedUsage(*expected)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_packed_floats_are_read(numbers):
    """Little-endian floats of four bytes."""
    packed = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()

    assert read(SMALL, common(packed), 1).embeddings == (tuple(numbers),)


@given(st.binary(min_size=1, max_size=20))
def test_packed_int8_is_read(data):
    """If the provider row or the caller requests them."""
    body = common(base64.b64encode(data).decode())
    expected = (tuple(float(byte - 256 if byte > 127 else byte) for byte in data),)

    assert read("perplexity/pplx-embed-v1-4b", body, 1).embeddings == expected
    assert read(SMALL, body, 1, extra_body={"encoding_format": "base64_int8"}).embeddings == expected


def test_packed_bits_are_an_error():
    with pytest.raises(ProtocolError, match="base64_binary"):
        read("perplexity/pplx-embed-v1-4b", common("AAAA"), 1, extra_body={"encoding_format": "base64_binary"})


def test_gemini_response_is_read():
    usage = {"usageMetadata": {"promptTokenCount": 4}}
    one = read(GEMINI, {"embedding": {"values": [1, 2.5]}} | usage, 1)
    two = read(GEMINI, {"embeddings": [{"values": [1]}, {"values": [2]}]}, 2)

    assert (one.embeddings, one.usage, one.model) == (((1.0, 2.5),), EmbedUsage(4, 4), "gemini-embedding-2")
    assert json.loads(one.extra[0]) == usage
    assert (two.embeddings, two.usage, two.extra) == (((1.0,), (2.0,)), EmbedUsage(None, None), ())
    with pytest.raises(ProtocolError, match="2 texts went out, 1"):
        read(GEMINI, {"embeddings": [{"values": [1]}]}, 2)


def test_predictions_are_read():
    """Tokens are summed over the instances; the sum is unknown if one of them is."""

    def answer(*facts):
        return {"predictions": [{"embeddings": {"values": [0.5], "statistics": fact}} for fact in facts]}

    model = "vertex/text-embedding-005"
    response = read(model, answer({"token_count": 4.0, "truncated": False}, {"token_count": 5, "truncated": True}), 2)

    assert (response.embeddings, response.usage) == (((0.5,), (0.5,)), EmbedUsage(9, 9))
    assert [(loss.kind, str(loss.location)) for loss in response.losses] == [("truncated-input", "input[1]")]
    assert read(model, answer({"token_count": 4}, {}), 2).usage == EmbedUsage(None, None)


def test_truncated_text_is_a_loss_with_its_index():
    """The index among all texts, not among those of one request."""
    model = "vertex/gemini-embedding-2"
    request = EmbedRequest(model=model, input=["a", "b", "c"])
    body = b'{"embedding":{"values":[1]},"truncated":true,"usageMetadata":{"promptTokenCount":2,"totalTokenCount":3}}'
    response = decode(body, request, target_of(model), batches(request, target_of(model))[2])

    assert [(loss.kind, str(loss.location)) for loss in response.losses] == [("truncated-input", "input[2]")]
    assert response.usage == EmbedUsage(2, 3)

    older = "vertex/text-embedding-005"
    request = EmbedRequest(model=older, input=["a"] * 252)
    body = (
        b'{"predictions":[{"embeddings":{"values":[1]}},{"embeddings":{"values":[1],"statistics":{"truncated":true}}}]}'
    )
    response = decode(body, request, target_of(older), batches(request, target_of(older))[1])
    assert [str(loss.location) for loss in response.losses] == ["input[251]"]


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.text(max_size=5), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_raise_only_llm_errors(body):
    for model in (SMALL, GEMINI, "vertex/text-embedding-005"):
        with pytest.raises(LLMError):
            decode(body, EmbedRequest(model=model, input="a"), target_of(model), Batch(0, ("a",)))


# --- joined -----------------------------------------------------------------------------------------------------------


def test_responses_to_batches_are_joined():
    """In order; usage is summed, and unknown if a part is."""
    target = target_of(SMALL)
    first, second = read(SMALL, common([1.0], [2.0]), 2), read(SMALL, common([3.0]), 1)
    both = joined([first, second], target)

    assert both.embeddings == ((1.0,), (2.0,), (3.0,))
    assert (both.usage, both.model, len(both.extra)) == (EmbedUsage(10, 10), "text-embedding-3-small", 2)
    assert joined([first, replace(second, usage=EmbedUsage(None, 5))], target).usage == EmbedUsage(None, 10)
    assert joined([], target).usage == EmbedUsage(0, 0)
    assert joined([], target).model == "text-embedding-3-small"


# --- recorded traffic -------------------------------------------------------------------------------------------------

ELSEWHERE = ("/v2/embed", "/api/embeddings")
"""Endpoints of other dialects."""


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
def test_recorded_responses_are_read():
    """As many vectors as texts, of the recorded lengths; refusals are errors."""
    count = 0
    for path in sorted((CORPUS / "embeddings").glob("*/*/exchange.json")):
        about = json.loads(path.read_bytes())
        if about["endpoint"].endswith(ELSEWHERE):
            continue
        row = catalog.provider_or_default(about["provider"], "openai-chat")
        target = Target(row, about["model"], row.dialect)
        recorded_request = json.loads((path.parent / "request.json").read_bytes())
        texts = (
            recorded_request["input"]
            if "input" in recorded_request
            else [r["content"]["parts"][0]["text"] for r in recorded_request["requests"]]
        )
        request = EmbedRequest(model=about["model"], input=texts)
        body = (path.parent / about["response_file"]).read_bytes()
        count += 1
        if about["status"] != 200:
            with pytest.raises(LLMError):
                decode(body, request, target, Batch(0, request.texts))
            continue
        response = decode(body, request, target, Batch(0, request.texts))
        expected = json.loads((path.parent / "expected.json").read_bytes())["embeddings"]
        assert len(response.embeddings) == expected["count"] == len(request.texts)
        for vector, length, head in zip(response.embeddings, expected["dims"], expected["heads"], strict=True):
            assert length in (None, len(vector))
            assert isinstance(head, str) or list(vector[: len(head)]) == head
            assert len(vector) in (recorded_request.get("dimensions"), 128, 768, 1024, 1536, 3072)
        assert response.usage.total_tokens is not None

    assert count > 20
