"""Return values of tools as content for the model."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.core.blocks import Audio, Document, Image, Opaque, Text
from tenuto.core.messages import ToolResult
from tenuto.tools import execution
from tenuto.tools.execution import cut, to_outcome
from tools.calls import call

PNG = b"\x89PNG\r\n\x1a\n\x00"
MADE = call("it")


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


class Box(msgspec.Struct):
    point: Point


class Model(pydantic.BaseModel):
    when: dt.date


class Fussy(pydantic.BaseModel):
    def model_dump(self, **_):
        raise KeyError("fussy")


def outcome(value, most=1000):
    return to_outcome(MADE, value, most)


@pytest.mark.parametrize(
    "value, text",
    [
        ("text", "text"),
        ("\ud800", "\ud800"),
        ("", "(no output)"),
        (None, "(no output)"),
        (b"", "(no output)"),
        (b"caf\xc3\xa9", "café"),
        (3, "3"),
        (True, "true"),
        ([], "[]"),
        (["a", "b"], '["a","b"]'),
        ({"a": [1, None], 2: "é"}, '{"a":[1,null],"2":"é"}'),
        (["\ud800"], '["\\ud800"]'),
        (Color.RED, '"red"'),
        ({Color.RED}, '["red"]'),
        (Box(Point(1)), '{"point":{"x":1}}'),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        (decimal.Decimal("1.10"), '"1.10"'),
        (Model(when=dt.date(2026, 1, 2)), '{"when":"2026-01-02"}'),
        ([Model(when=dt.date(2026, 1, 2))], '[{"when":"2026-01-02"}]'),
    ],
)
def test_values_become_text(value, text):
    found = outcome(value)

    assert (found.result, found.outcome, found.detail) == (ToolResult("call_1", text), "done", "")


@pytest.mark.parametrize(
    "data, kind",
    [
        (PNG, Image),
        (b"\xff\xd8\xff\xe0\x00", Image),
        (b"GIF89a\x00\xff", Image),
        (b"RIFF\x00\x00\x00\x00WEBP\xff", Image),
        (b"RIFF\x00\x00\x00\x00WAVE\xff", Audio),
        (b"ID3\x04\x00\xff", Audio),
        (b"%PDF-1.7\n\xff\x00", Document),
    ],
)
def test_type_of_bytes_is_detected(data, kind):
    (part,) = outcome(data).result.content

    assert isinstance(part, kind)
    assert part == kind.from_bytes(data)


def test_blocks_stay_blocks():
    image = Image.from_bytes(PNG)
    strange = Opaque("gemini", '{"strange":1}')

    assert outcome(ToolResult("x", (strange,))).result.content == (strange,)
    assert outcome(ToolResult("x", ())).result.content == "(no output)"
    assert outcome(image).result.content == (image,)
    assert outcome(["look", image, "", Text("there")]).result.content == (Text("look"), image, Text("there"))


@pytest.mark.parametrize(
    "value, named",
    [
        (object(), "builtins.object"),
        ([object()], "builtins.list"),
        (map(str, []), "builtins.map"),
        (Fussy(), "KeyError: 'fussy'"),
        (math.nan, "nan is not JSON"),
        (b"\x00\x01", "2 bytes of an unknown type"),
        (b"PK\x03\x04\x00", "application/zip"),
    ],
)
def test_unsupported_value_is_an_error_with_its_type(value, named):
    found = outcome(value)

    assert (found.outcome, found.detail, found.result.is_error) == ("failed", "result", True)
    assert "it ran, but its result cannot be shown" in found.result.content
    assert named in found.result.content


def test_tool_result_gets_the_id_of_the_call():
    given_back = ToolResult("other", "no", is_error=True, extra='{"a":1}')

    assert outcome(given_back).result == ToolResult("call_1", "no", is_error=True, extra='{"a":1}')
    assert (outcome(given_back).outcome, outcome(given_back).detail) == ("failed", "")


# --- large results ---------------------------------------------------------------------------------------------------


@given(st.text(max_size=60), st.integers(1, 40))
def test_cut_omits_the_middle(text, most):
    text_cut = cut(text, most)

    if len(text) <= most:
        assert text_cut == text
    else:
        half = most // 2
        assert text_cut.startswith(text[: most - half])
        assert text_cut.endswith(text[len(text) - half :])
        assert f"[{len(text) - most:,} of {len(text):,} characters omitted" in text_cut


def test_long_text_is_cut():
    found = outcome("x" * 600 + "y" * 600)

    assert (found.outcome, found.detail, found.result.is_error) == ("done", "oversize", False)
    assert "[200 of 1,200 characters omitted: request a smaller part" in found.result.content


def test_texts_share_one_limit():
    image = Image.from_bytes(PNG)
    found = outcome(["x" * 900, image, "y" * 900])
    first, second, third = found.result.content

    assert (first, second) == (Text("x" * 900), image)
    assert "[800 of 900 characters omitted" in third.text
    assert found.detail == "oversize"


def test_too_large_media_is_an_error(monkeypatch):
    monkeypatch.setattr(execution, "MAX_ATTACHED", 8)
    found = outcome(PNG)

    assert (found.outcome, found.detail, found.result.is_error) == ("failed", "oversize", True)
    assert "its result has 9 bytes; the limit is 8. Request a smaller part." in found.result.content


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@settings(max_examples=25)
@given(st.lists(json_values) | st.dictionaries(st.text(), json_values))
def test_any_json_value_reads_back(value):
    assert json.loads(outcome(value, 10**6).result.content) == value
