"""The text that a model summarizes, and the order in which its parts are shortened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.blocks import AnthropicMeta, Image, Reasoning, Text, ToolUse
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.summary import SUMMARY_HEADER, conversation_text, estimate_tokens, summary_prompt

CONVERSATION = (
    SystemMessage("Be brief."),
    UserMessage((Text("Where is Oslo?"), Image("aGk=", "image/png"))),
    AssistantMessage(
        (
            Reasoning("A city.", meta=AnthropicMeta("c2lnbmVk")),
            Text("I look."),
            ToolUse("c1", "search", '{"q": "Oslo"}'),
        )
    ),
    ToolResults((ToolResult("c1", "In Norway."), ToolResult("c2", "no map", is_error=True))),
)


def test_text_has_calls_and_reasoning():
    """No syntax of a provider, and no token."""
    assert conversation_text(CONVERSATION, 1000) == (
        "System: Be brief.\n\nUser: Where is Oslo?\n[image]\n\nNote of the assistant: A city.\n\nAssistant: I look.\n\n"
        'Assistant: calls search {"q": "Oslo"}\n\nTool result: In Norway.\n\nError of the tool: no map'
    )


def test_user_messages_are_omitted_last():
    parts = ("u" * 4000, "r" * 4000, "t" * 4000, "n" * 4000)
    messages = (
        UserMessage(parts[0]),
        AssistantMessage((Reasoning(parts[3]), Text(parts[2]))),
        ToolResults((ToolResult("c1", parts[1]),)),
    )
    steps = [
        "".join(letter for letter in "urtn" if letter * 700 in conversation_text(messages, budget))
        for budget in (4100, 3300, 2300, 1300, 300)
    ]

    assert steps == ["urtn", "urt", "ur", "u", ""]


def test_oldest_is_shortened_first():
    messages = tuple(UserMessage(f"{number}" * 1000) for number in range(1, 4))
    text = conversation_text(messages, 700)

    assert ("1" * 1000 in text, "2" * 1000 in text, "3" * 1000 in text) == (False, True, True)
    assert "1" * 390 in text


@given(st.lists(st.text(max_size=3000), max_size=8), st.integers(0, 1000))
def test_text_fits_the_budget(texts, budget):
    """One huge result does not make the request for a summary too long."""
    messages = (UserMessage("Look."), ToolResults(tuple(ToolResult("c", text) for text in texts)))

    assert len(conversation_text(messages, budget)) <= budget * 4 + 2 * (len(texts) + 1)


def test_earlier_summary_is_omitted_last():
    messages = (UserMessage(f"{SUMMARY_HEADER}\n\n{'s' * 800}"), UserMessage("u" * 4000))

    assert "s" * 800 in conversation_text(messages, 300)


def test_prompt_has_focus_and_headings():
    prompt = summary_prompt(CONVERSATION, "the hotel", 1000)

    assert "Pay special attention to this: the hotel" in prompt
    assert "Goal, Decisions, Facts, Open work, Files" in prompt
    assert prompt.endswith("Error of the tool: no map")


def test_estimate_is_at_least_one_token():
    assert estimate_tokens(UserMessage("")) == 1
    assert estimate_tokens(AssistantMessage(())) == 1
    assert estimate_tokens(UserMessage((Image("A" * 1_000_000),))) < 2000
