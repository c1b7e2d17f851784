from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strategies import broken_words, documents, json_values, words
from tenuto.core import jsonio
from tenuto.core.blocks import Text
from tenuto.core.jsonio import JsonError

NOT_JSON = [
    "",
    " ",
    "nul",
    "tru",
    "-",
    "01",
    "1.",
    "1e",
    "NaN",
    "Infinity",
    "-Infinity",
    "[1,]",
    "[1 2]",
    '{"a":1,}',
    '{"a" 1}',
    "{a:1}",
    '{"a":1}x',
    '["a]',
    '"\x01"',
    '"\\q"',
    '"\\ud8"',
    "'a'",
]
HALVES = '{"a":"\\ud800"}'
MANY_DIGITS = "1" + "2" * 4999


def nested(depth, opening="[", closing="]"):
    return opening * depth + closing * depth


# --- reading ----------------------------------------------------------------------------------------------------------


@given(st.dictionaries(broken_words, documents, max_size=3))
def test_members_are_exact_texts(fields):
    """Spacing, key order and number literals do not change."""
    text = "{" + ", ".join(f"{json.dumps(name)} : {value}" for name, value in fields.items()) + " }"

    assert {name: jsonio.as_text(value) for name, value in jsonio.members(text).items()} == fields


@given(st.lists(documents, max_size=4))
def test_elements_are_exact_texts(items):
    text = "[" + " , ".join(items) + "\n]"

    assert [jsonio.as_text(item) for item in jsonio.elements(text)] == items


@given(st.lists(documents, max_size=3))
def test_surrogates_leave_other_elements_unchanged(items):
    """The slow path finds the same ends of values as msgspec."""
    text = "[" + ",".join([HALVES, *items]) + "]"

    assert [jsonio.as_text(item) for item in jsonio.elements(text)] == [HALVES, *items]
    assert jsonio.as_text(jsonio.members(f'{{"x": {text} }}')["x"]) == text


@pytest.mark.parametrize("text", [*NOT_JSON, '{"a":"\\ud800",}', '["\\ud800" 1]', '{"\\ud800" 1}', '{"\\ud800":1 2}'])
def test_invalid_json_raises_json_error(text):
    for read in (jsonio.members, jsonio.elements, jsonio.check, jsonio.parse):
        with pytest.raises(JsonError):
            read(text)
    assert jsonio.problem(text)


@pytest.mark.parametrize("text", ["[]", '"{}"', "1", "null", '["\\ud800"]', '"\\ud800"'])
def test_members_needs_an_object(text):
    with pytest.raises(JsonError, match="object"):
        jsonio.members(text)


@pytest.mark.parametrize("text", ["{}", '"[]"', "1", "null", '{"a":"\\ud800"}'])
def test_elements_needs_an_array(text):
    with pytest.raises(JsonError, match="array"):
        jsonio.elements(text)


@pytest.mark.parametrize("text", ['{"\\ud800":1}', '{ "a" : "\\ud800" , "b" : 1.10 }', "{}", " { } "])
def test_slow_members_equals_fast_members(text):
    assert dict(jsonio._slow_items(text, "object")) == jsonio.members(text)


@pytest.mark.parametrize("text", ["[]", " [ ] ", '[ "\\ud800" , 1.10 ]'])
def test_slow_elements_equals_fast_elements(text):
    assert [value for _, value in jsonio._slow_items(text, "array")] == jsonio.elements(text)


def test_last_of_repeated_keys_wins():
    assert bytes(jsonio.members('{"a":1,"a":2}')["a"]) == b"2"
    assert bytes(jsonio.members('{"a":"\\ud800","a":2}')["a"]) == b"2"


@given(documents)
def test_check_trims_space(text):
    assert jsonio.as_text(jsonio.check(f" \n{text}\t")) == text


def test_check_trims_space_in_slow_path():
    assert jsonio.as_text(jsonio.check(f" {HALVES}\n")) == HALVES


@pytest.mark.parametrize("data", [b'{"a":"\xff"}', b'"\xc3"', b"\xff"])
def test_invalid_utf8_error_has_offset(data):
    with pytest.raises(JsonError):
        jsonio.check(data)
    with pytest.raises(JsonError):
        jsonio.parse(data)


def test_surrogates_as_bytes_are_read():
    """Some servers write them. They are not valid UTF-8, but unambiguous."""
    assert jsonio.parse(b'{"a":"\xed\xa0\x80"}') == {"a": "\ud800"}


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening,closing", [("[", "]"), ('{"a":', "}")])
def test_nesting_limit(opening, closing):
    inner = "1" if opening != "[" else ""
    text = opening * 200 + inner + closing * 200

    assert jsonio.problem(text) == ""
    assert jsonio.problem(opening + text + closing) == "nested deeper than 200 levels"


def test_brackets_in_strings_do_not_nest():
    text = '["' + "[{" * 300 + '\\"' + "[" * 300 + '"]'

    assert jsonio.problem(text) == ""


@pytest.mark.parametrize("end", ['\\"' * 50, '\\"\\', "\\", ""])
def test_unterminated_string_is_scanned_once(end):
    """If each quote inside started another search, a megabyte of them would take minutes."""
    text = "[" + "[]," * 150 + '"' + end

    assert jsonio.problem(text)
    assert [token.start() for token in re.finditer(jsonio._TOKENS, text.encode())][-1] == text.index('"')


def test_long_numbers_keep_their_digits():
    assert bytes(jsonio.members(f'{{"a":{MANY_DIGITS}}}')["a"]) == MANY_DIGITS.encode()
    assert bytes(jsonio.members(f'{{"a":{MANY_DIGITS},"b":"\\ud800"}}')["a"]) == MANY_DIGITS.encode()
    assert bytes(jsonio.check(MANY_DIGITS)) == MANY_DIGITS.encode()


@pytest.mark.parametrize("text", [MANY_DIGITS, "1e999", '{"a":-1e999,"b":"\\ud800"}'])
def test_number_out_of_range_is_refused(text):
    with pytest.raises(JsonError):
        jsonio.parse(text)


def test_numbers_beyond_64_bits_are_read_and_written():
    assert jsonio.parse(jsonio.encode(2**70)) == 2**70


# --- values -----------------------------------------------------------------------------------------------------------


@given(json_values)
def test_parse_undoes_encode(value):
    assert jsonio.parse(jsonio.encode(value)) == value


@given(broken_words)
def test_surrogates_round_trip(text):
    assert jsonio.parse(jsonio.encode({text: [text]})) == {text: [text]}
    assert jsonio.text_of(Raw(jsonio.encode(text))) == text


@given(words, documents)
def test_raw_text_is_unchanged_next_to_surrogates(text, document):
    """A string with a surrogate must not change the values next to it."""
    written = jsonio.encode({"odd": "\ud800", "said": text, "raw": Raw(document.encode())})

    assert jsonio.as_text(jsonio.members(written)["raw"]) == document
    assert jsonio.parse(written)["said"] == text


def test_surrogates_in_raw_text_become_escapes():
    """Raw bytes that are not UTF-8 are written as UTF-8."""
    written = jsonio.encode({"é": Raw('"\ud800é"'.encode("utf-8", "surrogatepass"))})

    assert written == '{"é":"\\ud800é"}'.encode()


def test_raw_invalid_utf8_is_refused():
    with pytest.raises(JsonError, match="UTF-8"):
        jsonio.encode({"a": Raw(b'"\xff"')})


@pytest.mark.parametrize("value", [{1: "\ud800"}, {"a": (1, ["\ud800", None, True])}, [{}, [], "\ud800"]])
def test_slow_encoder_equals_fast_encoder(value):
    assert jsonio.encode(value) == jsonio.encode(json.loads(json.dumps(value).replace("\\ud800", "x"))).replace(
        b"x", b"\\ud800"
    )


def test_structs_with_surrogates_are_written():
    assert jsonio.encode(Text("\ud800")) == b'{"block_type":"text","text":"\\ud800"}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_refused(number):
    for value in (number, [number], {"a": (1, {"b": number})}, ["\ud800", number], Text(number)):
        with pytest.raises(JsonError, match="is not JSON"):
            jsonio.encode(value)


def test_null_is_written():
    assert jsonio.encode({"a": None, "b": Text("null")}) == b'{"a":null,"b":{"block_type":"text","text":"null"}}'


@pytest.mark.parametrize("message", ["x", "\ud800"])
def test_cycle_is_refused(message):
    endless = [message]
    endless.append(endless)

    with pytest.raises(JsonError, match="nested"):
        jsonio.encode(endless)


@pytest.mark.parametrize("message", ["x", "\ud800"])
@pytest.mark.parametrize("odd", [object(), {object(): 1}, 1j, 10**5000], ids=["object", "key", "complex", "digits"])
def test_value_without_json_form_is_refused(odd, message):
    """The reason is the cause of the `JsonError`."""
    with pytest.raises(JsonError) as caught:
        jsonio.encode({"a": odd, "b": message})

    assert type(caught.value.__cause__) in (TypeError, ValueError)
    assert str(caught.value) == str(caught.value.__cause__)


def test_printable_has_no_surrogates():
    assert jsonio.printable("\ud83d" + "\ude00 \ud83d é") == "😀 \ufffd é"
    assert jsonio.printable("plain") == "plain"


def test_join_surrogates_leaves_lone_ones():
    assert jsonio.join_surrogates("\ud83d" + "\ude00 \ud83d é") == "😀 \ud83d é"
    assert jsonio.join_surrogates("plain") == "plain"
    assert jsonio.lone_surrogates("\udc00")
    assert not jsonio.lone_surrogates("é")


@pytest.mark.parametrize("raw,expected", [(None, "-"), (Raw(b"null"), "-"), (Raw(b'"a"'), "a"), (Raw(b'""'), "")])
def test_text_of_string_or_null(raw, expected):
    assert jsonio.text_of(raw, "-") == expected


@pytest.mark.parametrize("raw", [b"1", b"{}", b'["\\ud800"]'])
def test_text_of_other_value_is_refused(raw):
    with pytest.raises(JsonError, match="str"):
        jsonio.text_of(Raw(raw))


def test_object_text_of_no_members_is_empty():
    assert jsonio.object_text({}) == ""
    assert jsonio.object_text({"a": Raw(b"1.10")}) == '{"a":1.10}'


# --- decode_as --------------------------------------------------------------------------------------------------------


class Point(msgspec.Struct):
    x: int
    label: str = ""


@pytest.mark.parametrize("text,label", [('{"x":1}', ""), ('{"x":1,"label":"\\ud800"}', "\ud800")])
def test_decode_as(text, label):
    assert jsonio.decode_as(text, Point) == Point(1, label)


@pytest.mark.parametrize(
    "text,message",
    [
        ("{}", "missing required field `x`"),
        ('{"x":"1"}', "Expected `int`"),
        ('{"x":[],"label":"\\ud800"}', "Expected `int`"),
        ('{"x":"\\ud800"}', "a lone surrogate"),
        ("{", "truncated"),
    ],
)
def test_decode_as_error_names_the_problem(text, message):
    with pytest.raises(JsonError, match=message):
        jsonio.decode_as(text, Point)
