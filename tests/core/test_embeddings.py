"""Embedding requests and responses."""

from __future__ import annotations

import msgspec
import pytest

from tenuto.core.embeddings import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.loss import Location, Loss


@pytest.mark.parametrize(
    "input, texts",
    [("one", ("one",)), (["a", "b"], ("a", "b")), (("a",), ("a",)), ([], ()), ("", ("",)), (["", "b"], ("", "b"))],
)
def test_input_is_one_text_or_several(input, texts):
    """A string is one text, also an empty one."""
    assert EmbedRequest(model="mine/m", input=input).texts == texts


@pytest.mark.parametrize("input, index", [(["a", 7], r"input\[1\] is int"), ([["a"]], r"input\[0\] is list")])
def test_input_item_of_wrong_type_is_refused(input, index):
    """The error has the index of the item."""
    with pytest.raises(TypeError, match=index):
        _ = EmbedRequest(model="mine/m", input=input).texts


@pytest.mark.parametrize(
    "input, message",
    [
        (None, "input is None"),
        (7, "input is int"),
        (b"text", "input is bytes"),
        (bytearray(b"text"), "input is bytearray"),
        ({"a": "b"}, "input is dict"),
    ],
)
def test_input_of_wrong_type_is_refused(input, message):
    with pytest.raises(TypeError, match=f"{message}: expected a text, or a list of texts"):
        EmbedRequest.of("mine/m", input)
    with pytest.raises(TypeError, match=message):
        _ = EmbedRequest(model="mine/m", input=input).texts


def test_request_from_model_and_input():
    """Texts may come from an iterator, which is read once."""
    assert EmbedRequest.of("mine/m", "one") == EmbedRequest(model="mine/m", input="one")
    assert EmbedRequest.of("mine/m", iter(["a", "b"]), 8) == EmbedRequest(
        model="mine/m", input=("a", "b"), dimensions=8
    )
    with pytest.raises(TypeError, match=r"input\[1\] is int"):
        EmbedRequest.of("mine/m", ["a", 7])
    for model, message in ((None, "the model is None"), (7, "the model is int")):
        with pytest.raises(TypeError, match=f"{message}: expected a string, provider/model"):
            EmbedRequest.of(model, "a")


def test_embed_request_is_a_value():
    """It can be written and read back."""
    request = EmbedRequest(model="mine/m", input=("a", "b"), dimensions=8, task="query", extra_body={"user": "u"})

    read = msgspec.json.decode(msgspec.json.encode(request), type=EmbedRequest)
    assert (read.texts, read.dimensions, read.task, read.extra_body) == (("a", "b"), 8, "query", {"user": "u"})


def test_repr_omits_the_numbers():
    """The repr has only their count."""
    losses = (Loss("r", Location(path="input[0]"), "w"),)
    text = repr(EmbedResponse("m", "mine", ((0.5,) * 3072,) * 4, EmbedUsage(7, 7), losses))

    assert text.startswith(
        "EmbedResponse(model='m', provider='mine', embeddings='4 of 3072 numbers', usage=EmbedUsage("
    )
    assert "0.5" not in text
    assert "input[0]" in text
    assert "'0 of 0 numbers'" in repr(EmbedResponse("m", "mine", ()))


def test_embed_usage_is_unknown_by_default():
    """None, not 0, which would mean that it is free."""
    assert EmbedResponse("m", "mine", ((1.0,),)).usage == EmbedUsage(None, None)


def test_request_from_dictionary():
    request = EmbedRequest.of({"model": "own/m", "input": ["a", "b"], "dimensions": 3, "task": None})

    assert request == EmbedRequest(model="own/m", input=("a", "b"), dimensions=3)
    assert EmbedRequest.of({"model": "own/m", "input": "a"}) == EmbedRequest(model="own/m", input="a")


@pytest.mark.parametrize(
    "document, message",
    [
        ({"input": "a"}, "the model is None"),
        ({"model": "own/m"}, "input is None"),
        ({"model": "own/m", "input": "a", "encoding_format": "float"}, "'encoding_format'.*extra_body"),
        ({"model": "own/m", "input": "a", "dimensions": "many"}, "dimensions"),
    ],
)
def test_invalid_dictionary_is_refused(document, message):
    with pytest.raises(TypeError, match=message):
        EmbedRequest.of(document)


def test_dictionary_and_input_are_refused_together():
    with pytest.raises(TypeError, match="in the dictionary"):
        EmbedRequest.of({"model": "own/m", "input": "a"}, "b")
