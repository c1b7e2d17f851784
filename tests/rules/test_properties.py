"""Any JSON body is judged without an exception, and a refusal is the first refused finding."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rules.runner import Case, cases, replies
from strategies import assistant_messages
from tenuto.audit import audit_body
from tenuto.catalog import resolve
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Dialect
from tenuto.rules import RequestContext, findings, judge, open_body, refusal
from tenuto.sim import providers

PHASES = (Phase.explicit, Phase.generate)
DIALECTS: dict[Dialect, tuple[str, ...]] = {
    "anthropic-messages": ("anthropic", "anthropic/claude-opus-4-6", "anthropic/claude-fable-5-1", "deepseek"),
    "openai-responses": ("openai", "openai/gpt-5.6", "xai/grok-4.5", "azure"),
    "openai-chat": ("openai/gpt-4o", "deepseek/deepseek-v4-pro", "mistral", "groq", "moonshot", "openrouter", "zai"),
    "gemini": ("gemini", "gemini/gemini-3-pro-preview", "gemini/gemini-2.5-pro", "vertex"),
}
KEYS = (
    "type", "role", "content", "text", "messages", "input", "contents", "parts", "tools", "tool_calls", "tool_call_id", "id",
    "name", "thinking", "signature", "data", "function", "arguments", "system", "model", "call_id", "functionCall", "args",
    "functionResponse", "response", "thoughtSignature", "inlineData", "mimeType", "output", "items", "properties", "required",
    "anyOf", "$defs", "$ref", "strict", "enum", "format", "source", "image_url", "url", "reasoning", "reasoning_details",
    "encrypted_content", "summary", "tool_choice", "tool_use_id", "cache_control", "citations", "output_config", "effort",
    "response_format", "generationConfig", "generation_config", "thinkingConfig", "thinking_level", "functionDeclarations",
    "parameters", "toolConfig", "temperature", "stop", "stream", "max_tokens", "previous_response_id", "include", "a/b~c", "",
)  # fmt: skip
VALUES = (
    "user", "assistant", "tool", "model", "system", "text", "thinking", "redacted_thinking", "tool_use", "tool_result",
    "server_tool_use", "web_search_tool_result", "compaction", "image", "function", "message", "reasoning", "function_call",
    "function_call_output", "item_reference", "namespace", "object", "ARRAY", "json_object", "required", "none", "xhigh",
    "enabled", "anthropic-claude-v1", "data:;base64,a", "http://[", "\ud800",
)  # fmt: skip
KEY = st.sampled_from(KEYS) | st.text(max_size=3)
JSON = st.recursive(
    st.sampled_from([*VALUES, None, True, False, -1, 0, 1.5, 10**400]) | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEY, inner, max_size=5),
    max_leaves=6,
)
PART = st.builds(
    lambda type, fields: {"type": type, **fields}, st.sampled_from(VALUES), st.dictionaries(KEY, JSON, max_size=2)
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "model", "tool"])},
    optional={"content": st.sampled_from(VALUES) | st.lists(PART, max_size=2), "parts": st.lists(PART, max_size=2),
              "tool_calls": st.lists(PART, max_size=2)},
)  # fmt: skip
"""A message of the right shape: a rule for the shape hides the rules after it."""
HI = [{"role": "user", "content": "Hi"}]
FIELDS = {
    "anthropic-messages": "messages", "openai-responses": "input", "openai-chat": "messages", "gemini": "contents",
}  # fmt: skip


def judge_body(dialect: Dialect, name: str, body: dict[str, Any], received: tuple[AssistantMessage, ...] = ()) -> None:
    provider, model = providers.find(name, dialect)
    context = RequestContext(
        row=providers.imitated_row(provider), model=model, traits=providers.target(provider, model).traits
    )
    every = list(findings(open_body(dialect, body, context)))
    first = next((finding for finding in every if finding.rule.severity == "refused"), None)

    assert refusal(open_body(dialect, body, context)) == first
    assert judge(open_body(dialect, body, context)).refusal == first
    for finding in audit_body(body, resolve(f"sim/{name}", dialect=dialect), replies=received):
        assert finding.pointer[:1] in ("", "/")
        assert "{" not in finding.pointer or "{" in str(body)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=100, deadline=None, phases=PHASES)
@given(data=st.data())
def test_any_body_is_judged(dialect: Dialect, data: st.DataObject):
    body = data.draw(st.dictionaries(KEY, JSON, max_size=6))
    if data.draw(st.booleans()):
        body[FIELDS[dialect]] = data.draw(
            st.lists(MESSAGE | PART if dialect == "openai-responses" else MESSAGE, max_size=4)
        )
    received = data.draw(st.lists(assistant_messages, max_size=2))
    judge_body(dialect, data.draw(st.sampled_from(DIALECTS[dialect])), body, tuple(received))


@settings(max_examples=200, deadline=None, phases=PHASES)
@given(data=st.data())
def test_damaged_cases_are_judged(data: st.DataObject):
    """Replace any value of a case by any JSON."""
    case: Case = data.draw(st.sampled_from(cases()))
    body = copy.deepcopy(data.draw(st.sampled_from([case.body, case.repaired])))
    node: Any = body
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or data.draw(st.booleans()):
            node[key] = data.draw(JSON)
            break
        node = node[key]
    judge_body(case.dialect, case.target, body, replies(case))


@pytest.mark.parametrize(
    ("dialect", "name", "body"),
    [
        ("anthropic-messages", "anthropic/claude-opus-4-6", {"max_tokens": "ten", "messages": "hello"}),
        ("openai-responses", "openai/gpt-5.6", {"model": "gpt-5.6", "input": 7}),
        ("openai-chat", "openai/gpt-4o", {"model": "gpt-4o", "messages": "hello"}),
        ("gemini", "gemini/gemini-2.5-pro", {"contents": "hello"}),
        ("anthropic-messages", "anthropic/claude-opus-4-6", {"max_tokens": -1, "messages": HI}),
        ("openai-chat", "openai/gpt-4o", {"max_tokens": -1, "messages": HI}),
        ("openai-responses", "openai/gpt-4o", {"max_output_tokens": -1, "input": "Hi"}),
        ("gemini", "gemini/gemini-2.5-pro", {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": -1}}),
    ],
)  # fmt: skip
def test_malformed_body_is_refused(dialect: Dialect, name: str, body: dict[str, Any]):
    found = audit_body(body, resolve(f"sim/{name}", dialect=dialect))

    assert [finding.severity for finding in found][:1] == ["refused"]
