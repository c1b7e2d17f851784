"""Embeddings on the wire: what goes out per dialect and row, what may come back, and in which pieces."""

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
from tenuto.core.embedding import EmbedRequest, EmbedUsage
from tenuto.core.provider import EmbeddingSwitches, Provider, Target
from tenuto.errors import BadRequest, LLMError, NotFound, ProtocolError, TranscriptError, UnsupportedModel
from tenuto.wire.embeddings import UNSTATED, Batch, batches, decode, encode, joined

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
SMALL = "openai/text-embedding-3-small"
GEMINI = "google/gemini-embedding-2"


def target_of(model):
    return catalog.resolve(model)


def written(model, texts, **more):
    """The path, the body and the losses of a request whose texts all fit."""
    asked = EmbedRequest(model=model, input=texts, **more)
    wire = encode(asked, target_of(model), Batch(0, asked.texts))
    return wire.path, json.loads(wire.body), [(loss.kind, loss.place) for loss in wire.losses]


def read(model, body, count, **more):
    asked = EmbedRequest(model=model, input=["x"] * count, **more)
    return decode(json.dumps(body).encode(), asked, target_of(model), Batch(0, asked.texts))


def common(*vectors, **more):
    """An answer in the common shape."""
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage} | more


# --- to the wire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", ["hello", ["hello"], ["hello", "world"]])
def test_the_common_way(texts):
    """As specified: model, input as it was given, dimensions; nothing that nobody asked for."""
    bare = written(SMALL, texts)
    full = written(SMALL, texts, dimensions=256, extra_body={"user": "u"})

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
def test_rows_differ(model, path, body):
    """By their switches: the path, the name of a field."""
    found = written(model, ["a"], dimensions=64)

    assert found[0] == path
    assert found[1] == (body or {"model": model.partition("/")[2], "input": ["a"], "dimensions": 64})


def test_one_content_goes_out_alone():
    """As specified: embedContent, with the model's place in the body."""
    path, body, losses = written(GEMINI, "hello", dimensions=768, task="RETRIEVAL_DOCUMENT", title="Greetings")

    assert path == "/models/gemini-embedding-2:embedContent"
    assert body == {
        "model": "models/gemini-embedding-2",
        "content": {"parts": [{"text": "hello"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "title": "Greetings",
        "outputDimensionality": 768,
    }
    assert losses == []


def test_several_contents_go_out_as_one_batch():
    """As specified: batchEmbedContents, in order; what the caller adds stands in each."""
    path, body, _ = written(GEMINI, ["hello", "world"], dimensions=8, extra_body={"autoTruncate": False})

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


def test_google_cloud_takes_one_content():
    """Its options stand in a field of their own."""
    path, body, _ = written("vertex/gemini-embedding-2", "hello", dimensions=8, task="CLUSTERING")

    assert path == "/models/gemini-embedding-2:embedContent"
    assert body == {
        "content": {"role": "user", "parts": [{"text": "hello"}]},
        "embedContentConfig": {"taskType": "CLUSTERING", "outputDimensionality": 8},
    }
    assert "embedContentConfig" not in written("vertex/gemini-embedding-2", "hello")[1]


def test_older_models_of_google_cloud_predict():
    """With instances and parameters."""
    path, body, _ = written("vertex/text-embedding-005", ["a", "b"], dimensions=8, task="CLUSTERING", title="T")

    assert path == "/models/text-embedding-005:predict"
    assert body == {
        "instances": [{"content": text, "task_type": "CLUSTERING", "title": "T"} for text in "ab"],
        "parameters": {"outputDimensionality": 8},
    }
    assert "parameters" not in written("vertex/text-embedding-005", ["a"])[1]
    assert written("vertex/gemini-embedding-001", "a")[0].endswith(":predict")
    assert written("vertex/gemini-embedding-001-next", "a")[0].endswith(":embedContent")


def test_what_a_provider_has_no_word_for_is_a_loss():
    """A task, a title, a number of dimensions; a host that has a word for one gets it."""
    row = Provider("mine", "openai-chat", "http://localhost/v1", embeddings=EmbeddingSwitches(dimensions_field=""))
    asked = EmbedRequest(model="mine/m", input="a", dimensions=3, task="query", title="T")
    wire = encode(asked, Target(row, "m", "openai-chat"), Batch(0, ("a",)))

    assert json.loads(wire.body) == {"model": "m", "input": "a"}
    assert [loss.place for loss in wire.losses] == ["dimensions", "task", "title"]
    assert written("nvidia/nvidia/nv-embedqa-e5-v5", "a", task="query")[1]["input_type"] == "query"


@pytest.mark.parametrize(
    "model, why",
    [
        ("anthropic/claude-sonnet-4-5", "no embeddings in this dialect"),
        ("deepseek/deepseek-chat", "has no embeddings"),
        ("xai/grok-4.7", "has no embeddings"),
        ("github/gpt-4o", "has no embeddings"),
    ],
)
def test_where_there_are_none_one_is_told(model, why):
    """Before anything goes out, also for no texts at all."""
    asked = EmbedRequest(model=model, input=[])

    with pytest.raises(UnsupportedModel, match=why) as caught:
        batches(asked, target_of(model))
    with pytest.raises(UnsupportedModel):
        encode(asked, target_of(model), Batch(0, ("a",)))
    assert caught.value.model == model


def test_headers_of_the_row_and_of_the_caller_go_out():
    """The caller's win."""
    row = replace(catalog.find_provider("openai"), headers={"x-a": "row", "x-b": "row"})
    asked = EmbedRequest(model=SMALL, input="a", extra_headers={"X-A": "caller"})
    wire = encode(asked, Target(row, "m", "openai-chat"), Batch(0, ("a",)))

    assert (wire.method, wire.headers["x-a"], wire.headers["x-b"]) == ("POST", "caller", "row")


def test_half_characters_cannot_go_out():
    """They become U+FFFD, with a loss."""
    asked = EmbedRequest(model=SMALL, input="a\ud800b")
    wire = encode(asked, target_of(SMALL), batches(asked, target_of(SMALL))[0])

    assert json.loads(wire.body)["input"] == "a\ufffdb"
    assert [loss.kind for loss in wire.losses] == ["lone-surrogate"]


def test_what_no_json_can_say_is_refused():
    """As in a question."""
    with pytest.raises(TranscriptError, match="nan is not JSON"):
        written(SMALL, "a", extra_body={"x": float("nan")})


def test_odd_names_are_quoted():
    """A model's name stands in the path."""
    assert written("google/my model?", "a")[0] == "/models/my%20model%3F:embedContent"
    assert written("google/tunedModels/mine", "a")[0] == "/tunedModels/mine:embedContent"


# --- in which pieces --------------------------------------------------------------------------------------------------


def sizes(model, texts):
    return [len(batch.texts) for batch in batches(EmbedRequest(model=model, input=texts), target_of(model))]


@pytest.mark.parametrize(
    "model, count, found",
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
def test_limits_of_texts(model, count, found):
    """As the row says; where it says nothing, a cautious number."""
    assert sizes(model, ["a"] * count) == found


def test_limits_of_tokens():
    """A token has at least a byte, so bytes are counted, and two marks a text; one that is too long goes alone."""
    model, tokens = "mistral/mistral-embed", catalog.find_provider("mistral").embeddings.tokens
    half = "é" * (tokens // 4 - 1)  # two bytes each: with its marks, half of what fits

    assert sizes(model, [half, half]) == [2]
    assert sizes(model, [half, half + "a"]) == [1, 1]
    assert sizes(model, ["a", "b" * tokens * 2, "c"]) == [1, 1, 1]


@given(st.lists(st.text(max_size=30), max_size=40), st.integers(0, 7), st.integers(0, 60))
def test_batches_are_the_texts_in_order_within_limits(texts, most, tokens):
    """Nothing lost, nothing doubled, no batch empty, none that would have fitted into the one before."""
    row = Provider("mine", "openai-chat", "", embeddings=EmbeddingSwitches(batch=most, tokens=tokens))
    found = batches(EmbedRequest(model="mine/m", input=texts), Target(row, "m", "openai-chat"))

    assert [text for batch in found for text in batch.texts] == texts
    assert [batch.start for batch in found] == [sum(len(b.texts) for b in found[:at]) for at in range(len(found))]

    def fits(some):
        weight = sum(len(text.encode("utf-8", "replace")) + 2 for text in some)
        return len(some) <= (most or UNSTATED) and (not tokens or weight <= tokens)

    assert all(len(batch.texts) == 1 or fits(batch.texts) for batch in found)
    assert all(batch.texts for batch in found)
    assert not any(fits((*before.texts, after.texts[0])) for before, after in itertools.pairwise(found))


# --- from the wire ----------------------------------------------------------------------------------------------------


def test_vectors_usage_and_the_rest():
    """Integers among the numbers are numbers; what is not read is kept."""
    found = read(SMALL, common([0.5, 1, -2], [1e-3, 0, 0], id="e1"), 2)

    assert found.embeddings == ((0.5, 1.0, -2.0), (0.001, 0.0, 0.0))
    assert (found.model, found.provider) == ("text-embedding-3-small", "openai")
    assert found.usage == EmbedUsage(5, 5)
    assert [json.loads(extra) for extra in found.extra] == [
        {"usage": {"prompt_tokens": 5, "total_tokens": 5}, "id": "e1"}
    ]
    assert found.losses == ()


@given(st.permutations(range(6)))
def test_the_order_is_that_of_the_numbers(order):
    """A server may answer out of order."""
    body = common(*([float(at)] for at in range(6)))
    body["data"] = [body["data"][at] for at in order]

    assert read(SMALL, body, 6).embeddings == tuple((float(at),) for at in range(6))


def test_without_numbers_the_order_is_that_of_the_list():
    """None at all is fine; every one 0 is told, since it might mean something else."""
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
def test_an_answer_that_breaks_the_dialect(body, why):
    """Is an error that holds it, and names the row."""
    with pytest.raises(ProtocolError, match=why) as caught:
        read(SMALL, body, 2)

    assert (caught.value.provider, json.loads(caught.value.frame)) == ("openai", body)


def test_a_missing_vector_is_an_error():
    """Not an empty one."""
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
def test_an_error_with_a_good_status(body, kind):
    """Routers do that. The error is the provider's, not ours for finding no vectors."""
    with pytest.raises(kind) as caught:
        read(SMALL, body, 1)

    assert not isinstance(caught.value, ProtocolError)
    assert caught.value.provider == "openai"


@pytest.mark.parametrize(
    "usage, found",
    [
        ({"prompt_tokens": 3}, (3, 3)),
        ({"total_tokens": 3}, (None, 3)),
        ({"prompt_tokens": 0, "total_tokens": 0}, (0, 0)),
        ({"prompt_tokens": "3", "total_tokens": -1}, (None, None)),
        (None, (None, None)),
        ([], (None, None)),
    ],
)
def test_usage_is_what_was_said(usage, found):
    """Unknown is None. There is no output, so the prompt is the total; the total need not be the prompt."""
    assert read(SMALL, common([1.0], usage=usage), 1).usage == EmbedUsage(*found)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_packed_floats(numbers):
    """A string holds floats of four bytes, little end first."""
    packed = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()

    assert read(SMALL, common(packed), 1).embeddings == (tuple(numbers),)


@given(st.binary(min_size=1, max_size=20))
def test_packed_whole_numbers(data):
    """Of one byte each, with a sign, where the row or the caller says so."""
    body = common(base64.b64encode(data).decode())
    expected = (tuple(float(byte - 256 if byte > 127 else byte) for byte in data),)

    assert read("perplexity/pplx-embed-v1-4b", body, 1).embeddings == expected
    assert read(SMALL, body, 1, extra_body={"encoding_format": "base64_int8"}).embeddings == expected


def test_bits_are_not_read():
    """Better no vector than a wrong one."""
    with pytest.raises(ProtocolError, match="base64_binary"):
        read("perplexity/pplx-embed-v1-4b", common("AAAA"), 1, extra_body={"encoding_format": "base64_binary"})


def test_contents():
    """One, several; usage is there today, and unknown where it is not."""
    usage = {"usageMetadata": {"promptTokenCount": 4}}
    one = read(GEMINI, {"embedding": {"values": [1, 2.5]}} | usage, 1)
    two = read(GEMINI, {"embeddings": [{"values": [1]}, {"values": [2]}]}, 2)

    assert (one.embeddings, one.usage, one.model) == (((1.0, 2.5),), EmbedUsage(4, 4), "gemini-embedding-2")
    assert json.loads(one.extra[0]) == usage
    assert (two.embeddings, two.usage, two.extra) == (((1.0,), (2.0,)), EmbedUsage(None, None), ())
    with pytest.raises(ProtocolError, match="2 texts went out, 1"):
        read(GEMINI, {"embeddings": [{"values": [1]}]}, 2)


def test_predictions():
    """Tokens are summed over the instances; one that is unknown makes the sum unknown."""

    def answer(*facts):
        return {"predictions": [{"embeddings": {"values": [0.5], "statistics": fact}} for fact in facts]}

    model = "vertex/text-embedding-005"
    found = read(model, answer({"token_count": 4.0, "truncated": False}, {"token_count": 5, "truncated": True}), 2)

    assert (found.embeddings, found.usage) == (((0.5,), (0.5,)), EmbedUsage(9, 9))
    assert [(loss.kind, loss.place) for loss in found.losses] == [("truncated-input", "input[1]")]
    assert read(model, answer({"token_count": 4}, {}), 2).usage == EmbedUsage(None, None)


def test_a_text_that_was_cut_is_told_by_its_place():
    """Among all the texts, not among those of one request."""
    model = "vertex/gemini-embedding-2"
    asked = EmbedRequest(model=model, input=["a", "b", "c"])
    body = b'{"embedding":{"values":[1]},"truncated":true,"usageMetadata":{"promptTokenCount":2,"totalTokenCount":3}}'
    found = decode(body, asked, target_of(model), batches(asked, target_of(model))[2])

    assert [(loss.kind, loss.place) for loss in found.losses] == [("truncated-input", "input[2]")]
    assert found.usage == EmbedUsage(2, 3)

    older = "vertex/text-embedding-005"
    asked = EmbedRequest(model=older, input=["a"] * 252)
    body = (
        b'{"predictions":[{"embeddings":{"values":[1]}},{"embeddings":{"values":[1],"statistics":{"truncated":true}}}]}'
    )
    found = decode(body, asked, target_of(older), batches(asked, target_of(older))[1])
    assert [loss.place for loss in found.losses] == ["input[251]"]


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.text(max_size=5), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_other_bytes_are_one_kind_of_error(body):
    """No exception of a library gets through."""
    for model in (SMALL, GEMINI, "vertex/text-embedding-005"):
        with pytest.raises(LLMError):
            decode(body, EmbedRequest(model=model, input="a"), target_of(model), Batch(0, ("a",)))


# --- together ---------------------------------------------------------------------------------------------------------


def test_answers_are_put_together():
    """In order; usage summed, unknown if a part is; a loss that all had once."""
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
"""Endpoints of other dialects, which nobody asks here."""


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
def test_recorded_answers_are_read():
    """Every one of the three ways: as many vectors as texts, of the recorded lengths; refusals are errors."""
    seen = 0
    for path in sorted((CORPUS / "embeddings").glob("*/*/exchange.json")):
        about = json.loads(path.read_bytes())
        if about["endpoint"].endswith(ELSEWHERE):
            continue
        row = catalog.provider_or_default(about["provider"], "openai-chat")
        target = Target(row, about["model"], row.dialect)
        asked = json.loads((path.parent / "request.json").read_bytes())
        texts = asked["input"] if "input" in asked else [r["content"]["parts"][0]["text"] for r in asked["requests"]]
        request = EmbedRequest(model=about["model"], input=texts)
        body = (path.parent / about["response_file"]).read_bytes()
        seen += 1
        if about["status"] != 200:
            with pytest.raises(LLMError):
                decode(body, request, target, Batch(0, request.texts))
            continue
        found = decode(body, request, target, Batch(0, request.texts))
        expected = json.loads((path.parent / "expected.json").read_bytes())["embeddings"]
        assert len(found.embeddings) == expected["count"] == len(request.texts)
        for vector, length, head in zip(found.embeddings, expected["dims"], expected["heads"], strict=True):
            assert length in (None, len(vector))
            assert isinstance(head, str) or list(vector[: len(head)]) == head
            assert len(vector) in (asked.get("dimensions"), 128, 768, 1024, 1536, 3072)
        assert found.usage.total_tokens is not None

    assert seen > 20
