"""Tokens open for whoever made them and for nobody else; chance is the same again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.sim.mint import Mint, Seals, digest

CLAIMS = st.dictionaries(
    st.text(max_size=8), st.integers(-(2**53), 2**53) | st.text(max_size=20) | st.none(), max_size=5
)


@given(CLAIMS, st.integers(0, 3000))
def test_a_token_tells_its_claims_and_has_the_size_that_was_asked_for(claims, size):
    token = Mint("seed", "request").seal(claims, size)

    assert Seals("seed").open(token) == claims
    assert len(token) >= size
    assert Seals("other").open(token) is None


@given(CLAIMS, st.data())
def test_one_changed_bit_and_a_token_says_nothing(claims, data):
    token = bytearray(Mint("seed", "request").seal(claims, 80))
    at = data.draw(st.integers(0, len(token) - 1))
    token[at] ^= 1 << data.draw(st.integers(0, 7))

    assert Seals("seed").open(bytes(token)) is None


@pytest.mark.parametrize("token", [b"", b"x", b"\0" * 16, b"\0" * 31, b"\0" * 32, b"\0" * 400])
def test_what_is_no_token_says_nothing(token):
    assert Seals("seed").open(token) is None


def test_the_same_request_has_the_same_chance():
    one, two, other = Mint("s", "r"), Mint("s", "r"), Mint("s", "q")

    assert (one.hex(24), one.word(22), one.seal({"a": 1})) == (two.hex(24), two.word(22), two.seal({"a": 1}))
    assert Mint("s", "r").hex(24) != other.hex(24)
    assert Mint("t", "r").hex(24) != Mint("s", "r").hex(24)


@given(st.text(max_size=400))
def test_pieces_make_the_text_again(text):
    assert "".join(Mint("s", "r").pieces(text)) == text
    assert all(Mint("s", "r").pieces(text))


def test_pieces_that_are_given_stay_as_they_are():
    assert list(Mint("s", "r").pieces(["a", "", "bc"])) == ["a", "", "bc"]


def test_parts_are_told_apart():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")
    assert Seals("s").mac("ab", "c") != Seals("s").mac("a", "bc")
