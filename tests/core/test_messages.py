from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given, settings

from strategies import broken_words, messages_of, usages
from tenuto.core.blocks import AnthropicMeta, Image, Reasoning, Refusal, Text, ToolUse
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCallView,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    user,
)

TOKEN = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"
REPLY = AssistantMessage(
    (
        Text("Let me "),
        Reasoning("Which city?", meta=AnthropicMeta(TOKEN)),
        ToolUse("call_1", "weather", '{"city": "Oslo"}'),
        Text("look."),
        ToolUse("call_2", "time", ""),
    ),
    "tool_calls",
)


class City(msgspec.Struct):
    city: str


@settings(max_examples=25)
@given(messages_of(broken_words))
def test_message_equals_its_copy_and_hashes_alike(message):
    twin = copy.deepcopy(message)

    assert twin == message
    assert hash(twin) == hash(message)


def test_str_of_message_is_its_text():
    assert str(REPLY) == "Let me look."
    assert str(AssistantMessage((Refusal("No."),))) == ""
    assert str(SystemMessage("Be brief.")) == "Be brief."
    assert str(SystemMessage((Text("Be "), Text("brief.")))) == "Be brief."
    assert str(UserMessage("Hi")) == "Hi"
    assert str(user("See ", Image(url="https://x"), "this.")) == "See this."
    assert str(ToolResults((ToolResult("a", "4 °C"), ToolResult("b", (Text("noon"),))))) == "4 °C\nnoon"


def test_repr_of_message_shortens_tokens():
    assert TOKEN not in repr(REPLY)
    assert repr(UserMessage("Hi")) == "UserMessage(content='Hi')"


def test_tool_calls_are_lazy_and_in_block_order():
    calls = REPLY.tool_calls()

    assert next(calls) == ToolCallView("call_1", "weather", '{"city": "Oslo"}')
    assert next(calls).name == "time"
    assert next(calls, None) is None


def test_get_tool_use_by_id():
    assert REPLY.has_tool_calls()
    assert not AssistantMessage((Text("Hi"),)).has_tool_calls()
    assert REPLY.get_tool_use("call_2") == ToolCallView("call_2", "time", "")
    assert REPLY.get_tool_use("call_3") is None


def test_text_blocks():
    assert list(REPLY.text_blocks()) == ["Let me ", "look."]


def test_parse_args_returns_declared_type():
    assert ToolCallView("1", "weather", '{"city": "Oslo"}').parse_args(City) == City("Oslo")
    assert ToolCallView("1", "time", "").parse_args(dict) == {}
    assert ToolCallView("1", "sql", "select 1", kind="custom").parse_args(str) == "select 1"


@pytest.mark.parametrize("args", ["{}", '{"city": 4}', '{"city"', "[]", "null"])
def test_parse_args_refuses_invalid_arguments(args):
    with pytest.raises(JsonError):
        ToolCallView("1", "weather", args).parse_args(City)


def test_parse_returns_plain_values():
    assert ToolCallView("1", "weather", '{"n": 1.10}').parse() == {"n": 1.1}
    assert ToolCallView("1", "time", "").parse() == {}
    assert ToolCallView("1", "sql", "select 1", kind="custom").parse() == "select 1"


def test_call_makes_its_result():
    call = ToolCallView("call_1", "weather", "{}")

    assert call.answer("4 °C") == ToolResult("call_1", "4 °C")
    assert call.answer((Text("?"),), is_error=True) == ToolResult("call_1", (Text("?"),), is_error=True)


def test_result_has_no_token():
    """Providers refuse a signature on a tool result."""
    assert not {"meta", "thought_signature"} & set(ToolResult.__struct_fields__)


def test_assistant_message_has_no_usage():
    assert "usage" not in AssistantMessage.__struct_fields__


def test_user_makes_message_from_parts():
    picture = Image(url="https://x")

    assert user("Hi") == UserMessage("Hi")
    assert user("See", picture) == UserMessage((Text("See"), picture))
    assert user(picture) == UserMessage((picture,))
    assert UserMessage("Hi").parts == (Text("Hi"),)
    assert user("See", picture).parts == (Text("See"), picture)


# --- usage ------------------------------------------------------------------------------------------------------------


def test_usage_sums_count_each_token_once():
    usage = Usage(input_tokens=10, cache_read_tokens=100, cache_write_tokens=20, output_tokens=7, reasoning_tokens=30)

    assert usage.prompt_tokens == 130
    assert usage.completion_tokens == 37
    assert usage.total_tokens == 167
    assert Usage(input_tokens=1, reported_total=9).total_tokens == 9


def test_unknown_usage_is_not_zero():
    assert Usage().prompt_tokens is None
    assert Usage().total_tokens is None
    assert (Usage() + Usage()).output_tokens is None
    assert (Usage(output_tokens=0) + Usage()).output_tokens == 0


def test_usage_adds_field_by_field():
    left = Usage(input_tokens=1, cache_read_tokens=2, input_by_modality={"TEXT": 3}, output_by_modality={"TEXT": 1})
    right = Usage(input_tokens=10, reasoning_tokens=20, input_by_modality={"TEXT": 30, "IMAGE": 40})

    assert left + right == Usage(
        input_tokens=11,
        cache_read_tokens=2,
        reasoning_tokens=20,
        input_by_modality={"TEXT": 33, "IMAGE": 40},
        output_by_modality={"TEXT": 1},
    )


@given(usages, usages)
def test_usage_sum_is_at_least_its_parts(left, right):
    """One side may have a reported total while the other has only fields."""
    totals = [total for total in (left.total_tokens, right.total_tokens) if total is not None]

    assert (left + right).total_tokens == (sum(totals) if totals else None)


@given(usages)
def test_usage_equals_its_copy_and_hashes_alike(usage):
    assert hash(copy.deepcopy(usage)) == hash(usage)
    assert copy.deepcopy(usage) == usage


def test_total_tokens_is_computed_when_provider_reports_none():
    usage = Usage(input_tokens=40, cache_read_tokens=1, output_tokens=10)

    assert usage.total_tokens == 51
    assert usage.reported_total is None


def test_total_tokens_is_never_less_than_its_buckets():
    assert Usage(input_tokens=10, output_tokens=5, reported_total=1).total_tokens == 15
