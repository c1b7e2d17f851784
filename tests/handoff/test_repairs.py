"""Transcripts with a single problem that a target would refuse."""

from __future__ import annotations

import json

import pytest

from handoff.targets import accept, target
from handoff.transcript_strategies import PNG
from tenuto.core.blocks import Audio, Document, GeminiMeta, Image, Opaque, Reasoning, Refusal, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage

ASK = UserMessage("What is the weather like in Oslo?")
AWAY = Origin("elsewhere", "openai-responses", "m")
SAID = AssistantMessage((Text("It rains."),), origin=AWAY)
CALLED = AssistantMessage((ToolUse("a", "weather", "{}"),), origin=AWAY)
RAIN = ToolResults((ToolResult("a", "rain"),))
SILENT = AssistantMessage((Text(""), Refusal("")), origin=AWAY)
PICTURE = UserMessage((Image(data=PNG, mime="image/png"),))


@pytest.mark.parametrize("named, messages", [
    ("anthropic", (ASK, SAID, UserMessage(" "))),
    ("anthropic", (ASK, SAID, UserMessage(""), SAID, ASK)),
    ("anthropic", (UserMessage((Audio(data="UklGRg==", mime="audio/wav"),)), SAID, ASK)),
    ("anthropic", (ASK, AssistantMessage((Text("It "), Text("\n"))))),
    ("anthropic", (SystemMessage((Text("", cache="5m"),)), ASK)),
    ("anthropic/claude-fable-5-1", (ASK, SystemMessage(" "))),
    ("anthropic/claude-opus-4-6", (ASK, SAID, SAID)),
    ("anthropic/claude-opus-4-6", (ASK, SAID, SystemMessage("Be brief."))),
    ("anthropic", (ASK, AssistantMessage((ToolUse("a", "weather", "{}"), Reasoning("no"), Text("Dry."), Reasoning("no"))), RAIN)),
    ("gemini", (ASK, SAID, UserMessage(""))),
    ("gemini", (ASK, SAID, UserMessage((Opaque("openai-chat", "{}"),)), SAID, ASK)),
    ("gemini", (ASK, CALLED, RAIN, PICTURE)),
    ("gemini", (ASK, CALLED, ToolResults((ToolResult("a", (Document(text="a page"),)),)))),
    ("gemini", (ASK, CALLED, ToolResults((ToolResult("a", (Image(data=PNG, mime="image/png", meta=GeminiMeta("c2ln")),)),)))),
    ("zai", (ASK, UserMessage(""), UserMessage((Text(""), Text(""))))),
    ("zai", (ASK, SILENT, ASK)),
    ("openai/gpt-5.2", (UserMessage(""), ASK, SILENT)),
    ("openai/gpt-4o", (ASK, SILENT, ASK)),
    ("mistral", (ASK, SILENT)),
    ("mistral", (ASK, AssistantMessage((Reasoning("hm"),), origin=AWAY))),
    ("perplexity", (ASK, SystemMessage("Be brief."), SAID, ASK)),
    ("perplexity", (ASK, CALLED, RAIN, SILENT, UserMessage("And now?"))),
    ("deepseek", (ASK, CALLED, RAIN)),
    ("moonshot", (ASK, CALLED, RAIN)),
])  # fmt: skip
def test_problem_is_repaired(named, messages):
    accept(messages, target(named))


@pytest.mark.parametrize("named", ["anthropic", "gemini", "chat"])
@pytest.mark.parametrize(
    "nothing", [UserMessage(""), UserMessage((Text(""),)), UserMessage((Opaque("elsewhere", "{}"),))]
)
def test_empty_user_turn_gets_a_placeholder(named, nothing):
    """The two assistant turns must not merge: a signed thinking block would move."""
    to = target(named)
    body = json.loads(accept((ASK, SAID, nothing, SAID, ASK), to).body)
    turns = body["contents" if named == "gemini" else "messages"]

    assert [one["role"] for one in turns][::2] == ["user"] * 3
    assert "(empty message)" in json.dumps(turns[2])


def test_empty_reasoning_field_is_sent_where_required():
    """DeepSeek and Kimi require it next to calls, also if it is empty."""
    for named in ("deepseek", "deepseek/deepseek-v4-pro", "moonshot", "moonshot/kimi-k2.6"):
        body = json.loads(accept((ASK, CALLED, RAIN), target(named)).body)
        assert body["messages"][1]["reasoning_content"] == "", named
