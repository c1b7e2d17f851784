from __future__ import annotations

import json

import pytest
from hypothesis import given
from msgspec import Raw

from strategies import broken_words, documents
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Loss
from tenuto.core.provider import Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import BodyBuilder, extra_fields, raw_object, splice_json

PROVIDER = Provider(
    "row", "gemini", "https://example.org", headers={"x-version": "1", "x-beta": "a, b"}, aliases=("other",)
)
TARGET = Target(PROVIDER, "model-1", "gemini")


def draft(*losses, **fields):
    return BodyBuilder(ChatRequest(model="row/model-1", messages=(), **fields), TARGET, losses)


def test_values_that_are_none_stay_out():
    written = draft()
    written.set_if_given(a=1, b=None, c=False, d="")

    assert json.loads(written.finish("/x").body) == {"a": 1, "c": False, "d": ""}


def test_a_request_goes_out_with_what_the_row_and_the_caller_add():
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


def test_a_header_that_holds_a_list_keeps_every_value_once():
    written = draft(extra_headers={"X-Beta": "c,a"})
    written.join_header("x-beta", "new")
    written.join_header("x-beta", "b")

    assert written.finish("/x").headers["x-beta"] == "new,b,a,c"


def test_losses_are_gathered():
    written = draft(Loss("before", "p", "w"))
    written.record_loss("here", "p", "w", "r")

    assert written.finish("/x").losses == (Loss("before", "p", "w"), Loss("here", "p", "w", "r"))


def test_only_parameters_that_were_given_are_lost():
    written = draft(seed=7, store=False, stop=(), top_k=None)
    written.record_unsupported("seed", "store", "stop", "top_k", "metadata", remedy="none")

    assert written.losses == [
        Loss("unsupported-parameter", "seed", "7", "none"),
        Loss("unsupported-parameter", "store", "False", "none"),
    ]


@given(documents)
def test_spliced_text_goes_out_as_it_came_in(text):
    written = draft()
    written.set_if_given(raw=Raw(text.encode()))

    assert written.finish("/x").body == b'{"raw":' + text.encode() + b"}"


@given(broken_words)
def test_half_characters_become_replacement_characters_with_a_loss(text):
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
def test_only_lone_halves_are_replaced(raw, expected):
    written = draft()
    written.set_if_given(a=Raw(raw))

    assert written.finish("/x").body == b'{"a":' + expected + b"}"


def test_a_number_that_json_has_no_word_for_is_refused():
    written = draft()
    written.set_if_given(temperature=float("nan"))

    with pytest.raises(JsonError, match="nan"):
        written.finish("/x")


def test_extra_fields_are_ready_to_be_merged():
    assert extra_fields("") == {}
    assert bytes(extra_fields('{"a": 1.10}')["a"]) == b"1.10"


@pytest.mark.parametrize("text", ['{"a": 1.10}', "{}"])
def test_an_object_is_spliced_without_the_space_around_it(text):
    assert bytes(raw_object(f" {text}\n")) == text.encode()


@given(documents)
def test_json_text_is_spliced_as_it_stands(text):
    assert bytes(splice_json(text)) == text.encode()


def test_text_that_is_no_json_stays_a_string():
    assert splice_json("{broken") == "{broken"


@pytest.mark.parametrize("text", ["", "[]", "{", "5", "null", '{"a":NaN}', '"{}"'])
def test_what_is_no_object_is_not_spliced(text):
    assert raw_object(text) is None
