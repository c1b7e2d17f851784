"""Embeddings: the same for the same text, 1 long, near for what is alike; requests and refusals as the providers have them."""

from __future__ import annotations

import base64
import math
import struct
from operator import mul

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.sim.dialects import InvalidRequest
from tenuto.sim.embeddings import default_dimensions, embed, embeddings_reply

SMALL, LARGE, ADA = "text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"
GEMINI = "gemini-embedding-001"
TOO_LONG = (
    "This model's maximum context length is 8192 tokens, however you requested 8193 tokens (8193 in your prompt; 0 for the "
    "completion). Please reduce your prompt; or completion length."
)
INVALID = "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference."


def near(one, other, model=SMALL, dimensions=1536):
    return sum(map(mul, embed(one, dimensions, model), embed(other, dimensions, model)))


TRIPLES = [
    ("The cat sat on the mat", "A cat is sitting on a mat", "Stock prices fell sharply today"),
    ("How do I reset my password?", "Resetting a forgotten password", "Best pizza recipes with mushrooms"),
    ("weather in Oslo tomorrow", "Oslo's weather forecast", "how to train a neural network"),
    ("database connection timed out", "timeout while connecting to the databases", "my dog likes to swim"),
    ("recieve the package", "receive packages", "the end of the story and of the day"),
    ("HELLO WORLD", "hello, world!", "goodbye moon"),
    ("cities of Norway", "a Norwegian city", "the price of copper"),
    ("the quick brown fox", "a quick fox that is brown", "the and of to in is a that"),
    ("東京の天気はどうですか", "東京の明日の天気", "猫が好きです"),
    ("Übergrößen bestellen", "übergrösse bestellt", "Wetter in Oslo"),
]


@pytest.mark.parametrize("one, other, third", TRIPLES)
@pytest.mark.parametrize("model, dimensions", [(SMALL, 1536), (LARGE, 256), (GEMINI, 768), ("nomic-embed-text", 768)])
def test_alike_is_nearer_than_unlike(one, other, third, model, dimensions):
    alike = near(one, other, model, dimensions)

    assert alike > near(one, third, model, dimensions) + 0.2
    assert alike > near(other, third, model, dimensions) + 0.2


def test_most_unrelated_texts_are_far_apart():
    texts = [third for _, _, third in TRIPLES]
    found = [abs(near(one, other)) for at, one in enumerate(texts) for other in texts[:at]]

    assert sum(found) / len(found) < 0.1


@given(st.text(max_size=200), st.sampled_from([1, 2, 7, 64, 768, 1536]), st.sampled_from([SMALL, "m", ""]))
def test_vectors_are_one_long_and_the_same_again(text, dimensions, model):
    vector = embed(text, dimensions, model)

    assert len(vector) == dimensions
    assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-5)
    assert vector == embed(text, dimensions, model)
    assert vector == list(struct.unpack(f"<{dimensions}f", struct.pack(f"<{dimensions}f", *vector)))


def test_odd_texts_have_vectors():
    texts = ["", " ", "!!!", "\U0001f600", "\ud800", "a" * 100_000, " ".join(map(str, range(20_000)))]

    assert len({tuple(embed(text, 64, "m")) for text in texts}) >= 6


def test_shorter_vector_is_the_beginning_of_the_whole():
    whole, short = embed("hello world", 1536, SMALL), embed("hello world", 100, SMALL)
    scale = whole[0] / short[0]

    assert all(math.isclose(one, other * scale, abs_tol=1e-6) for one, other in zip(whole, short, strict=False))


@pytest.mark.parametrize(
    "model, dimensions", [(SMALL, 1536), (ADA, 1536), (LARGE, 3072), (GEMINI, 3072), ("gemini-embedding-2", 3072), ("openai/text-embedding-3-large", 3072), ("nomic", 768)]
)  # fmt: skip
def test_default_dimensions(model, dimensions):
    assert default_dimensions(model) == dimensions


@pytest.mark.parametrize(
    "given, count, tokens",
    [("Hello, world!", 1, 4), (["hello", "world"], 2, 4), ([1, 2, 3], 1, 3), ([[1, 2], [3]], 2, 3), (" ", 1, 1)],
)
def test_openai_takes_texts_and_tokens(given, count, tokens):
    reply = embeddings_reply({"input": given, "model": SMALL}, "", SMALL)

    assert reply.keys() == {"object", "data", "model", "usage"}
    assert (reply["object"], reply["model"]) == ("list", SMALL)
    assert reply["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert [one["index"] for one in reply["data"]] == list(range(count))
    assert all(one.keys() == {"object", "index", "embedding"} and one["object"] == "embedding" for one in reply["data"])
    assert all(len(one["embedding"]) == 1536 for one in reply["data"])


def test_openai_base64_holds_the_same_numbers():
    body = {"input": "hello", "model": SMALL, "dimensions": 128}
    plain = embeddings_reply({**body, "encoding_format": "float"}, "", SMALL)["data"][0]["embedding"]
    packed = embeddings_reply({**body, "encoding_format": "base64"}, "", SMALL)["data"][0]["embedding"]

    assert list(struct.unpack("<128f", base64.b64decode(packed))) == plain


def content(*texts):
    return {"content": {"parts": [{"text": text} for text in texts]}}


def one(*texts, model=GEMINI, **more):
    return {"model": f"models/{model}", **content(*texts), **more}


def test_gemini_embeds_one():
    reply = embeddings_reply({**content("Some text", "goes here"), "outputDimensionality": 768}, "embedContent", GEMINI)

    assert reply.keys() == {"embedding", "usageMetadata"}
    assert reply["embedding"] == {"values": embed("Some text\ngoes here", 768, GEMINI)}
    parts = [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]
    image = embeddings_reply({"content": {"parts": parts}}, "embedContent", GEMINI)
    assert len(image["embedding"]["values"]) == 3072


def test_gemini_embeds_several():
    reply = embeddings_reply(
        {"requests": [one("Hello"), one("World", outputDimensionality=8)]}, "batchEmbedContents", GEMINI
    )

    assert reply.keys() == {"embeddings", "usageMetadata"}
    assert [len(found["values"]) for found in reply["embeddings"]] == [3072, 8]
    assert reply["usageMetadata"] == {
        "promptTokenCount": 4,
        "promptTokenDetails": [{"modality": "TEXT", "tokenCount": 4}],
    }


def test_gemini_predicts():
    body = {"instances": [{"content": "Hello"}], "parameters": {"outputDimensionality": 8}}
    (found,) = embeddings_reply(body, "predict", GEMINI)["predictions"]

    assert found["embeddings"]["values"] == embed("Hello", 8, GEMINI)
    assert found["embeddings"]["statistics"] == {"token_count": 2, "truncated": False}


@pytest.mark.parametrize(
    "verb, model, body, message",
    [
        ("", SMALL, {"input": ""}, INVALID),
        ("", SMALL, {"input": []}, INVALID),
        ("", SMALL, {"input": ["a", ""]}, INVALID),
        ("", SMALL, {"input": ["a", 1]}, INVALID),
        ("", SMALL, {"input": [[]]}, INVALID),
        ("", SMALL, {"input": [True]}, INVALID),
        ("", SMALL, {"input": {"text": "a"}}, INVALID),
        ("", SMALL, {"input": ["a"] * 2049}, INVALID),
        ("", SMALL, {}, INVALID),
        ("", ADA, {"input": "a", "dimensions": 5}, "This model does not support specifying dimensions."),
        ("", SMALL, {"input": "a", "dimensions": 1537}, "Invalid value for 'dimensions' = 1537. Must be less than or equal to 1536."),
        ("", SMALL, {"input": "a", "dimensions": 0}, "Invalid value for 'dimensions' = 0. Must be greater than or equal to 1."),
        ("", SMALL, {"input": "a", "dimensions": "5"}, "'5' is not of type 'integer' - 'dimensions'"),
        ("", SMALL, {"input": "a", "encoding_format": "hex"}, "Invalid value: 'hex'. Supported values are: 'float' and 'base64'."),
        ("", SMALL, {"input": [[1] * 8193]}, TOO_LONG),
        ("embedContent", GEMINI, content(""), "EmbedContentRequest.content contains an empty Part."),
        ("embedContent", GEMINI, {"content": {"parts": [{}]}}, "EmbedContentRequest.content contains an empty Part."),
        ("embedContent", GEMINI, {}, "* EmbedContentRequest.content: contents is not specified\n"),
        ("embedContent", GEMINI, {**content("a"), "outputDimensionality": 0}, None),
        ("batchEmbedContents", GEMINI, {}, None),
        ("batchEmbedContents", GEMINI, {"requests": ["a"]}, None),
        ("batchEmbedContents", GEMINI, {"requests": [content("a")]}, "* BatchEmbedContentsRequest.requests[0].model: unexpected model name format\n"),
        ("batchEmbedContents", GEMINI, {"requests": [one("a")] * 101}, "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch\n"),
        ("batchEmbedContents", GEMINI, {"requests": [one("a"), one("")]}, "EmbedContentRequest.content contains an empty Part."),
        ("predict", GEMINI, {"instances": []}, "Empty instances."),
        ("predict", GEMINI, {"instances": [{"content": ""}]}, None),
    ],
)  # fmt: skip
def test_refusal_has_the_words_of_the_provider(verb, model, body, message):
    with pytest.raises(InvalidRequest) as caught:
        embeddings_reply({"model": model, **body}, verb, model)

    assert message is None or str(caught.value) == message
    assert caught.value.status == 400
