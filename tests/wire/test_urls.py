"""Model names in URLs: a name never leads out of its resource."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.provider import Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.errors import UnsupportedModel
from tenuto.wire.body_builder import model_path
from tenuto.wire.write import write_request


@pytest.mark.parametrize(
    "model, path",
    [
        ("gemini-3-pro", "/models/gemini-3-pro"),
        ("tunedModels/mine", "/tunedModels/mine"),
        ("publishers/google/models/gemini-2.5-flash@001", "/publishers/google/models/gemini-2.5-flash@001"),
        ("a..b", "/models/a..b"),
        (".hidden", "/models/.hidden"),
        ("...", "/models/..."),
        ("a b?c#d%2e%2e", "/models/a%20b%3Fc%23d%252e%252e"),
    ],
)
def test_model_name_becomes_a_path(model, path):
    assert model_path(model) == path


@pytest.mark.parametrize(
    "model",
    ["", ".", "..", "/", "a/", "/a", "a//b", "a/./b", "mine/../../tenant-b/models/m", "a/..", "../a", "a/b/."],
)
def test_model_name_with_path_steps_is_an_error(model):
    with pytest.raises(UnsupportedModel, match="part of a URL") as caught:
        model_path(model)

    assert caught.value.model == model


@pytest.mark.parametrize("model", ["a\nb", "a\r\nhost: b", "a\tb", "a\x00", "a\x7f", "a\x85", "a\u2028b"])
def test_model_name_with_control_characters_is_an_error(model):
    with pytest.raises(UnsupportedModel, match="control character"):
        model_path(model)


def test_request_for_such_a_model_is_an_error():
    target = Target(Provider("mine", "gemini", "https://mine.test/tenant-a"), "x/../../tenant-b/models/m", "gemini")
    with pytest.raises(UnsupportedModel, match="tenant-b"):
        write_request(ChatRequest(model="mine/m", messages=()), target)


@given(st.text())
def test_path_stays_below_the_base_url(model):
    try:
        steps = model_path(model).split("/")
    except UnsupportedModel:
        return
    assert steps[0] == ""
    assert not {"", ".", ".."} & set(steps[1:])
    assert all(step.isascii() and step.isprintable() for step in steps)
