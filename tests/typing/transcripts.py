"""Transcripts: values to which messages are appended, with blocks of every kind."""

from __future__ import annotations

from typing import assert_type

from tenuto import (
    AssistantMessage,
    Audio,
    Client,
    Document,
    Image,
    Reasoning,
    SystemMessage,
    Text,
    ToolCallView,
    ToolResult,
    ToolResults,
    ToolUse,
    Transcript,
    UserMessage,
    user,
)

question = user("What is this?", Image.from_path("photo.png"), Document.from_bytes(b"%PDF-", title="paper"))
sound = user(Audio.from_url("https://example.com/a.wav"), Text("And this?", cache="5m"))
assert_type(question, UserMessage)

with Client() as ai:
    reply = ai.chat("anthropic/claude-sonnet-4-6", [SystemMessage("Be brief."), question, sound])
    talk = reply.transcript + "Go on."
    assert_type(talk, Transcript)
    talk += [ToolResult("call_1", "12 C"), ToolResult("call_2", (Image(url="https://example.com/b.png"),))]
    talk += ToolResult("call_3", "no", is_error=True)
    talk += AssistantMessage((Text("Hm."),))
    assert_type(talk.open_calls(), tuple[ToolCallView, ...])
    reply = ai.chat("openai/gpt-5.2", talk, foreign_reasoning="note")

for message in reply.transcript:
    match message:
        case SystemMessage() | UserMessage() | ToolResults():
            print(str(message))
        case AssistantMessage(blocks=blocks):
            for block in blocks:
                if isinstance(block, Reasoning):
                    assert_type(block.text, str)
                elif isinstance(block, ToolUse):
                    assert_type(block.args, str)
assert_type(reply.message, AssistantMessage)
assert_type(Transcript() + "Hi" == reply.transcript, bool)
