"""Text for a terminal."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tenuto.cli.terminal.text import escape_control, escape_json, one_line

ANY = st.text(st.characters() | st.sampled_from("\x1b\x07\x9b\u202e\u2066\u200d\u2028\r\n\t\ud800\U000e0041"))


@given(ANY)
def test_no_control_character_is_left(text):
    left = {sign for sign in escape_control(text) if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")}

    assert left <= set("\n\t\u200c\u200d")
    assert escape_control(text) == escape_control(escape_control(text))


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]) | st.sampled_from("\n\t")))
def test_plain_text_is_unchanged(text):
    assert text == escape_control(text)


def test_hidden_characters_are_escaped():
    assert r"\x1b[31mred\x07 \u202eevil \U000e0041" == escape_control("\x1b[31mred\x07 \u202eevil \U000e0041")
    assert "one\ntwo\\rthree" == escape_control("one\r\ntwo\rthree")


@given(ANY, st.integers(10, 50))
def test_one_line(text, most):
    line = one_line(text, most)

    assert len(line) <= most
    assert "\n" not in line


@given(st.dictionaries(ANY, ANY))
def test_escaped_json_is_equal(value):
    document = escape_json(json.dumps(value, ensure_ascii=False))

    assert document == escape_control(document)
    assert json.loads(document) == value
