from __future__ import annotations

import json

import pytest
from hypothesis import given
from msgspec import Raw

from strategies import broken_words, documents
from tenuto.core.jsonio import JsonError, raw_object, splice_json
from tenuto.core.loss import Location, Loss
from tenuto.core.provider import Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import BodyBuilder, extra_fields

PROVIDER = Provider(
    "row", "gemini", "https://example.org", headers={"x-version": "1", "x-beta": "a, b"}, aliases=("other",)
)
TARGET = Target(PROVIDER, "model-1", "gemini")


def draft(*losses, **fields):
    return BodyBuilder(ChatRequest(model="row/model-1", messages=(), **fields), TARGET, losses)


def test_none_values_are_not_written():
    written = draft()
    written.set_if_given(a=1, b=None, c=False, d="")

    assert json.loads(written.finish("/x").body) == {"a": 1, "c": False, "d": ""}


def test_finish_merges_fields_of_provider_and_caller():
    written = draft(
        extra_headers={"X-Version": "2"},
        extra_body={"a": 3},
        metadata={"row": {"a": 1, "b": 1}, "other": {"c": 1}, "third": {"d": 1}},
    )
    written.set_if_given(a=0)
    request = written.finish("/path")

    assert (request.method, request.path) == ("POST", "/path")
    assert json.loads(request.body) == {"a": 3, "b": 1, "c": 1}
    assert request.headers == {"content-type": "application/json", "x-version": "2", "x-beta": "a, b"}


def test_joined_header_has_each_value_once():
    written = draft(extra_headers={"X-Beta": "c,a"})
    written.join_header("x-beta", "new")
    written.join_header("x-beta", "b")

    assert written.finish("/x").headers["x-beta"] == "new,b,a,c"


def test_losses_are_collected():
    written = draft(Loss("before", Location(path="p"), "w"))
    written.record_loss("here", "p", "w", "r")

    assert written.finish("/x").losses == (
        Loss("before", Location(path="p"), "w"),
        Loss("here", Location(path="p"), "w", "r"),
    )


def test_only_set_parameters_are_unsupported():
    written = draft(seed=7, store=False, stop=(), top_k=None)
    written.record_unsupported("seed", "store", "stop", "top_k", "metadata", remedy="none")

    assert written.losses == [
        Loss("unsupported-parameter", Location(path="seed"), "7", "none"),
        Loss("unsupported-parameter", Location(path="store"), "False", "none"),
    ]


@given(documents)
def test_raw_value_keeps_its_bytes(text):
    written = draft()
    written.set_if_given(raw=Raw(text.encode()))

    assert written.finish("/x").body == b'{"raw":' + text.encode() + b"}"


@given(broken_words)
def test_lone_surrogates_become_replacement_characters(text):
    written = draft()
    written.set_if_given(text=text, raw=Raw(json.dumps({"t": text}).encode()))
    request = written.finish("/x")
    body = json.loads(request.body.decode("utf-8"))
    halves = sum("\ud800" <= character <= "\udfff" for character in text)

    assert body["text"] == body["raw"]["t"] == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert [loss.kind for loss in request.losses] == (["lone-surrogate"] if halves else [])
    assert not halves or request.losses[0].detail == f"{2 * halves} half characters became U+FFFD"


@pytest.mark.parametrize(
    "raw,expected",
    [
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"'),
        (rb'"\\ud83d"', rb'"\\ud83d"'),
        (rb'"\ud83d\n\ude00"', rb'"\ufffd\n\ufffd"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
        (rb'"\ud83dx\ude00"', rb'"\ufffdx\ufffd"'),
        (rb'"\ud83d\u0041"', rb'"\ufffd\u0041"'),
    ],
)
def test_surrogate_pairs_are_not_replaced(raw, expected):
    written = draft()
    written.set_if_given(a=Raw(raw))

    assert written.finish("/x").body == b'{"a":' + expected + b"}"


def test_not_finite_number_raises():
    written = draft()
    written.set_if_given(temperature=float("nan"))

    with pytest.raises(JsonError, match="nan"):
        written.finish("/x")


def test_extra_fields_keep_their_bytes():
    assert extra_fields("") == {}
    assert bytes(extra_fields('{"a": 1.10}')["a"]) == b"1.10"


@pytest.mark.parametrize("text", ['{"a": 1.10}', "{}"])
def test_raw_object_strips_outer_space(text):
    assert bytes(raw_object(f" {text}\n")) == text.encode()


@given(documents)
def test_splice_json_keeps_bytes(text):
    assert bytes(splice_json(text)) == text.encode()


def test_splice_json_returns_other_text_as_string():
    assert splice_json("{broken") == "{broken"


@pytest.mark.parametrize("text", ["", "[]", "{", "5", "null", '{"a":NaN}', '"{}"'])
def test_raw_object_is_none_for_other_text(text):
    assert raw_object(text) is None
