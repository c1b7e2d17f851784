"""Tokens that only a simulator with the same seed opens, and random choices that depend on seed and request."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.rules.issued_tokens import IssuedToken
from tenuto.sim.tokens import SeededRandom, TokenSealer

TOKENS = st.builds(IssuedToken, kind=st.text(max_size=8), model=st.text(max_size=20), index=st.integers(-1, 9))


@given(TOKENS, st.integers(0, 3000))
def test_token_is_opened_with_its_seed_in_either_alphabet(token, size):
    text = SeededRandom("seed", "request").token(token, size)

    assert TokenSealer("seed").open(text) == token
    assert len(base64.b64decode(text)) >= size
    assert TokenSealer("other").open(text) is None
    assert TokenSealer("seed").open(text.replace("+", "-").replace("/", "_").rstrip("=")) == token


@given(TOKENS, st.data())
def test_changed_token_is_not_opened(token, data):
    sealed = bytearray(base64.b64decode(SeededRandom("seed", "request").token(token, 80)))
    index = data.draw(st.integers(0, len(sealed) - 1))
    sealed[index] ^= 1 << data.draw(st.integers(0, 7))

    assert TokenSealer("seed").open(base64.b64encode(sealed).decode()) is None


@pytest.mark.parametrize("text", ["", "x", "é", "A" * 16, "A" * 43, "A" * 44, "A" * 400])
def test_other_text_is_not_a_token(text):
    assert TokenSealer("seed").open(text) is None


def test_same_request_has_the_same_random_choices():
    token = IssuedToken(kind="thinking")
    one, two, other = SeededRandom("s", "r"), SeededRandom("s", "r"), SeededRandom("s", "q")

    assert (one.hex(24), one.word(22), one.token(token)) == (two.hex(24), two.word(22), two.token(token))
    assert SeededRandom("s", "r").hex(24) != other.hex(24)
    assert SeededRandom("t", "r").hex(24) != SeededRandom("s", "r").hex(24)


@given(st.text(max_size=400))
def test_pieces_make_the_text_again(text):
    assert "".join(SeededRandom("s", "r").pieces(text)) == text
    assert all(SeededRandom("s", "r").pieces(text))
