"""Embedding requests and responses."""

from __future__ import annotations

import msgspec
import pytest

from tenuto.core.embedding import EmbedRequest, EmbedResponse, EmbedUsage
from tenuto.core.loss import Loss


@pytest.mark.parametrize(
    "given, texts",
    [("one", ("one",)), (["a", "b"], ("a", "b")), (("a",), ("a",)), ([], ()), ("", ("",)), (["", "b"], ("", "b"))],
)
def test_input_is_one_text_or_several(given, texts):
    """A string is one text, also an empty one."""
    assert EmbedRequest(model="mine/m", input=given).texts == texts


@pytest.mark.parametrize("given, place", [(["a", 7], r"input\[1\] is int"), ([["a"]], r"input\[0\] is list")])
def test_input_item_of_wrong_type_is_refused(given, place):
    """The error has the index of the item."""
    with pytest.raises(TypeError, match=place):
        _ = EmbedRequest(model="mine/m", input=given).texts


@pytest.mark.parametrize(
    "given, told",
    [
        (None, "input is None"),
        (7, "input is int"),
        (b"text", "input is bytes"),
        (bytearray(b"text"), "input is bytearray"),
        ({"a": "b"}, "input is dict"),
    ],
)
def test_input_of_wrong_type_is_refused(given, told):
    with pytest.raises(TypeError, match=f"{told}: expected a text, or a list of texts"):
        EmbedRequest.of("mine/m", given)
    with pytest.raises(TypeError, match=told):
        _ = EmbedRequest(model="mine/m", input=given).texts


def test_request_from_model_and_input():
    """Texts may come from an iterator, which is read once."""
    assert EmbedRequest.of("mine/m", "one") == EmbedRequest(model="mine/m", input="one")
    assert EmbedRequest.of("mine/m", iter(["a", "b"]), 8) == EmbedRequest(
        model="mine/m", input=("a", "b"), dimensions=8
    )
    with pytest.raises(TypeError, match=r"input\[1\] is int"):
        EmbedRequest.of("mine/m", ["a", 7])
    for odd, told in ((None, "the model is None"), (7, "the model is int")):
        with pytest.raises(TypeError, match=f"{told}: expected a string, provider/model"):
            EmbedRequest.of(odd, "a")


def test_embed_request_is_a_value():
    """It can be written and read back."""
    asked = EmbedRequest(model="mine/m", input=("a", "b"), dimensions=8, task="query", extra_body={"user": "u"})

    read = msgspec.json.decode(msgspec.json.encode(asked), type=EmbedRequest)
    assert (read.texts, read.dimensions, read.task, read.extra_body) == (("a", "b"), 8, "query", {"user": "u"})


def test_repr_omits_the_numbers():
    """The repr has only their count."""
    shown = repr(EmbedResponse("m", "mine", ((0.5,) * 3072,) * 4, EmbedUsage(7, 7), (Loss("r", "input[0]", "w"),)))

    assert shown.startswith(
        "EmbedResponse(model='m', provider='mine', embeddings='4 of 3072 numbers', usage=EmbedUsage("
    )
    assert "0.5" not in shown
    assert "input[0]" in shown
    assert "'0 of 0 numbers'" in repr(EmbedResponse("m", "mine", ()))


def test_embed_usage_is_unknown_by_default():
    """None, not 0, which would mean that it is free."""
    assert EmbedResponse("m", "mine", ((1.0,),)).usage == EmbedUsage(None, None)


def test_request_from_dictionary():
    request = EmbedRequest.of({"model": "own/m", "input": ["a", "b"], "dimensions": 3, "task": None})

    assert request == EmbedRequest(model="own/m", input=("a", "b"), dimensions=3)
    assert EmbedRequest.of({"model": "own/m", "input": "a"}) == EmbedRequest(model="own/m", input="a")


@pytest.mark.parametrize(
    "document, told",
    [
        ({"input": "a"}, "the model is None"),
        ({"model": "own/m"}, "input is None"),
        ({"model": "own/m", "input": "a", "encoding_format": "float"}, "'encoding_format'.*extra_body"),
        ({"model": "own/m", "input": "a", "dimensions": "many"}, "dimensions"),
    ],
)
def test_invalid_dictionary_is_refused(document, told):
    with pytest.raises(TypeError, match=told):
        EmbedRequest.of(document)


def test_dictionary_and_input_are_refused_together():
    with pytest.raises(TypeError, match="in the dictionary"):
        EmbedRequest.of({"model": "own/m", "input": "a"}, "b")
