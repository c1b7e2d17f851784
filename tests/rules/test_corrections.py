"""Verdicts that were wrong once: bodies on which two readings differed, false alarms, and missed refusals."""

from __future__ import annotations

from typing import Any

import pytest

from rules.runner import DIRECTORIES
from tenuto.audit import audit_body
from tenuto.catalog import resolve
from tenuto.rules import all_rules
from tenuto.rules.book import UnverifiedText

OPUS, DEEPSEEK, ROUTED = "anthropic/claude-opus-4-6", "deepseek/deepseek-v4-pro", "openrouter/anthropic/claude-opus-4.6"
FLASH_2, FLASH_3 = "google/gemini-2.5-flash", "google/gemini-3-flash-preview"
CODEX = ("gpt-5-codex", "gpt-5.1-codex", "gpt-5.1-codex-max", "gpt-5.2-codex")
HI = {"role": "user", "content": "What is the weather in Oslo?"}
SAID = {"role": "assistant", "content": "Rain."}
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CALLED = (
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "6"},
)
CITY = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {"type": "object", **CITY, "additionalProperties": False}
DECLARED = {"functionDeclarations": [{"name": "weather", "parameters": {"type": "OBJECT"}}]}


def messages(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(items) or [HI], **fields}


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    return messages(tools=[{"name": "weather", "strict": True, "input_schema": schema}])


def chat(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(items) or [HI], **fields}


def part(type: str, **fields: Any) -> dict[str, Any]:
    return chat({"role": "user", "content": [{"type": "text", "text": "See:"}, {"type": type, **fields}]})


def responses(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"input": list(items) or [HI], **fields}


def gemini(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "Weather?"}, *parts]}], **fields}


def file(type: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": type, "data": "JVBERi0="}}


def model_part(fields: Any) -> dict[str, Any]:
    first, last = gemini()["contents"], {"role": "user", "parts": [{"text": "And tomorrow?"}]}
    return {"contents": [*first, {"role": "model", "parts": [{"text": "Rain."}, fields]}, last]}


def config(**fields: Any) -> dict[str, Any]:
    return gemini(generationConfig=fields)


BETA = {"anthropic-beta": "structured-outputs-2025-11-13"}
OUTPUT_FORMAT = messages(output_format={"type": "json_schema", "schema": CLOSED})
NOT_FIRST = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "additionalProperties": False}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "6"}
REFERENCED = responses({"type": "item_reference", "id": "fc_1"}, OUTPUT)
EMPTY = {"role": "system", "content": []}
FORCED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [FUNCTION]}}
DETAIL = {"type": "reasoning.text", "text": "Hm.", "signature": "abc"}


def detail(**fields: Any) -> dict[str, Any]:
    return chat(HI, {**SAID, "reasoning_details": [{**DETAIL, **fields}]}, HI)


AUDITED: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    # Messages
    ("anthropic", OPUS, strict({**CLOSED, "minProperties": 1}), ("ANT-TOOL-11?",)),
    ("anthropic", OPUS, strict({**CLOSED, "additionalProperties": NOT_FIRST}), ("ANT-TOOL-11", "ANT-TOOL-19")),
    ("anthropic", OPUS, OUTPUT_FORMAT, ("ANT-PARAM-13?",)),
    ("anthropic", "anthropic/claude-haiku-4-5", messages(SAID, HI), ()),
    ("anthropic", OPUS, messages(SAID, HI), ()),
    ("anthropic", "anthropic/claude-opus-4-8", messages(SAID, HI), ()),
    ("anthropic", "anthropic/claude-opus-4-8", messages(HI, {**EMPTY, "output_config": {"effort": "low"}}), ()),
    ("anthropic", "anthropic/claude-next", messages(), ("ANT-PARAM-19!",)),
    ("anthropic", "anthropic/claude-next-9", messages(), ("ANT-PARAM-19!",)),
    # Chat Completions
    ("chat", "azure/my-deployment", chat({"role": "developer", "content": "x"}, HI), ()),
    ("chat", "openai/gpt-4o", chat(HI, CALLED[0], HI, CALLED[1]), ("OAC-OAI-01", "OAC-OAI-02")),
    ("chat", "openai/o3-mini", chat(stop=[]), ()),
    ("chat", "openai/o3-mini", chat(stop=["x"]), ()),
    ("chat", "openai/gpt-9", chat(), ()),
    ("chat", DEEPSEEK, chat(tools=[FUNCTION], tool_choice=FORCED), ()),
    ("chat", DEEPSEEK, chat(HI, *CALLED, chat_template_kwargs={"thinking": False}), ()),
    ("chat", DEEPSEEK, part("file", file={"file_id": "f1"}), ("OAC-DS-05",)),
    ("chat", DEEPSEEK, part("video_url", video_url={"url": "https://example.org/a.mp4"}), ("OAC-DS-05",)),
    ("chat", "xai/grok-4.5", chat(reasoning_effort="low"), ()),
    ("chat", "fireworks/accounts/fireworks/models/kimi-k3", chat(sampling_mask=True, prompt_cache_max_len=9), ()),
    ("chat", ROUTED, detail(format="anthropic-claude-v1"), ()),
    ("chat", ROUTED, detail(format="unknown"), ()),
    ("chat", ROUTED, detail(format=None), ()),
    ("chat", ROUTED, detail(), ()),
    ("chat", ROUTED, detail(format="google-gemini-v1"), ("OAC-OR-04",)),
    # Responses
    ("responses", "openai/gpt-5.6", REFERENCED, ()),
    ("responses", "openai/gpt-5.6", responses(client_metadata={"a": "b"}), ()),
    ("responses", "openai/gpt-5.6", responses(personality="friendly"), ("OAR-PARAM-10",)),
    ("responses", "openai/gpt-9", responses(), ("OAR-PARAM-13!",)),
    *(("responses", f"openai/{model}", responses(reasoning={"effort": "high"}), ()) for model in CODEX),
    ("responses", "openai/gpt-5.1-codex-max", responses(reasoning={"effort": "xhigh"}), ()),
    ("responses", "openai/gpt-5-codex", responses(reasoning={"effort": "xhigh"}), ("OAR-PARAM-02",)),
    # Gemini
    ("gemini", FLASH_2, gemini(file("application/x-foo")), ("GEM-MEDIA-01?",)),
    ("gemini", FLASH_2, gemini(file("image/x-foo")), ("GEM-MEDIA-01?",)),
    ("gemini", FLASH_2, config(_responseJsonSchema=CLOSED), ()),
    ("gemini", "vertex/gemini-2.5-flash", gemini(outputConfig={}, tools=[{"mcpServers": [{}]}]), ()),
    ("gemini", FLASH_3, config(thinkingConfig={"thinkingLevel": "MINIMAL"}), ()),
    ("gemini", FLASH_3, gemini({"videoMetadata": {"fps": 1}}), ()),
    ("gemini", FLASH_3, model_part({"thought": True, "thoughtSignature": "YWJj"}), ()),
    ("gemini", FLASH_3, model_part({"tool_response": {"id": "a"}, "thought_signature": "YWJj"}), ()),
    ("gemini", "vertex/gemini-3-flash-preview", gemini(tools=[DECLARED, {"googleSearch": {}}]), ()),
]  # fmt: skip
"""Dialect, target, body, and all rules that it breaks. `?`: not certain; `!`: a warning."""


@pytest.mark.parametrize(("dialect", "model", "body", "expected"), AUDITED)
def test_body_breaks_exactly_these_rules(dialect, model, body, expected):
    found = audit_body(body, resolve(model, dialect=DIRECTORIES[dialect]))
    marked = [f"{one.rule}{'' if one.severity == 'refused' else '!' if one.certain else '?'}" for one in found]

    assert [rule for rule in marked if not rule.endswith("!") or rule in expected] == list(expected)


def test_beta_in_the_header_permits_its_field():
    assert audit_body(OUTPUT_FORMAT, resolve(OPUS), headers=BETA) == ()
    found = audit_body(OUTPUT_FORMAT, resolve(OPUS), headers={})

    assert [(one.rule, one.certain) for one in found] == [("ANT-PARAM-13", True)]


def test_wordings_of_the_simulator_are_unverified():
    ids = ("ANT-PARAM-06", "ANT-PARAM-17", "ANT-TOOL-13", "ANT-TOOL-16", "ANT-TOOL-17", "ANT-MSG-09", "ANT-SRV-03")
    rules = [all_rules()[id] for id in (*ids, "ANT-SRV-04", "ANT-SRV-06", "ANT-SRV-07")]

    assert [rule.id for rule in rules if not all(isinstance(text, UnverifiedText) for text in rule.messages)] == []


def test_refuted_rule_is_gone():
    """Several models accept a first message of the assistant."""
    assert "ANT-MSG-06" not in all_rules()
