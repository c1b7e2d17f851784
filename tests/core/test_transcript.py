from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings

from strategies import conversations, transcripts
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolCallView, ToolResult, ToolResults, UserMessage
from tenuto.core.transcript import Transcript

ASKS = AssistantMessage((ToolUse("a", "weather", "{}"), ToolUse("b", "time", "{}")), "tool_calls")


def test_transcript_append():
    transcript = (
        Transcript() + "Hi" + SystemMessage("Be brief.") + ASKS + ToolResult("a", "4 °C") + [ToolResult("b", "noon")]
    )

    assert list(transcript) == [
        UserMessage("Hi"),
        SystemMessage("Be brief."),
        ASKS,
        ToolResults((ToolResult("a", "4 °C"),)),
        ToolResults((ToolResult("b", "noon"),)),
    ]
    assert len(transcript) == 5
    assert transcript[0] == UserMessage("Hi")


def test_append_makes_new_transcript():
    before = Transcript((UserMessage("Hi"),), unknown_fields='{"later":1}')
    after = before + "Still there?"

    assert len(before) == 1
    assert after == Transcript((UserMessage("Hi"), UserMessage("Still there?")), unknown_fields='{"later":1}')


@pytest.mark.parametrize("value", [[Text("Hi")], ["Hi"], [ToolResult("a"), "b"]])
def test_append_refuses_other_values(value):
    with pytest.raises(TypeError, match="expected a string, a message, a ToolResult"):
        Transcript() + value


@settings(max_examples=25)
@given(transcripts)
def test_json_round_trip(transcript):
    assert Transcript.from_json(transcript.to_json()) == transcript


def test_json_preserves_fields_of_a_later_version():
    text = '{"messages":[{"role":"user","content":"Hi","mood":"calm"}],"topic":"weather"}'

    assert json.loads(Transcript.from_json(text).to_json()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"topic": "weather"}', "not a stored transcript: it has no messages"),
        ('{"messages": [{"role": "critic"}]}', "unknown role 'critic'"),
        ('[{"role": "user", "content": "Hi"}]', "object"),
        ("Hi", "JSON"),
    ],
)
def test_other_json_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        Transcript.from_json(text)


@settings(max_examples=25)
@given(transcripts)
def test_transcripts_with_equal_content_are_equal(transcript):
    assert copy.deepcopy(transcript) == transcript
    assert hash(copy.deepcopy(transcript)) == hash(transcript)
    assert transcript != transcript + "more"


def test_open_calls_have_no_later_result():
    transcript = Transcript() + "Hi" + ASKS

    assert [call.id for call in transcript.open_calls()] == ["a", "b"]
    assert (transcript + ToolResult("a", "4 °C")).open_calls() == (ToolCallView("b", "time", "{}"),)
    assert (transcript + ToolResults((ToolResult("b"), ToolResult("a")))).open_calls() == ()


def test_result_answers_one_of_repeated_ids():
    """Some servers restart the numbers of calls in each reply."""
    again = AssistantMessage((ToolUse("a", "weather", '{"day":2}'),), "tool_calls")
    transcript = Transcript() + "Hi" + ASKS + [ToolResult("a"), ToolResult("b")] + again

    assert transcript.open_calls() == (ToolCallView("a", "weather", '{"day":2}'),)


def test_one_result_does_not_answer_two_calls():
    twice = AssistantMessage((ToolUse("a", "f", "1"), ToolUse("a", "f", "2")))

    assert (Transcript() + twice + ToolResult("a")).open_calls() == (ToolCallView("a", "f", "2"),)


def test_result_before_its_call_is_ignored():
    transcript = Transcript() + ToolResult("a", "4 °C") + ASKS

    assert [call.id for call in transcript.open_calls()] == ["a", "b"]


@settings(max_examples=25)
@given(conversations())
def test_valid_conversation_has_no_problems(conversation):
    assert conversation.check() == ()
    assert conversation.open_calls() == ()


@pytest.mark.parametrize(
    "transcript,fault",
    [
        (Transcript() + ASKS, "message 0: call 'a' is not answered"),
        (Transcript() + ASKS + "Hi", "message 0: call 'a' is not answered before message 1"),
        (Transcript() + ToolResult("x"), "message 0: result for 'x' answers no open call"),
        (Transcript() + ASKS + [ToolResult("a"), ToolResult("a")], "message 1: result for 'a' answers no open call"),
        (Transcript() + AssistantMessage((ToolUse("a", "t", ""),) * 2), "message 0: call id 'a' occurs twice"),
    ],
)
def test_check_names_the_problem(transcript, fault):
    assert fault in transcript.check()
