"""Verdicts that were wrong once: bodies on which two readings differed, false alarms, and missed refusals."""

from __future__ import annotations

from typing import Any

import pytest

from rules.runner import DIRECTORIES
from tenuto.audit import audit_body
from tenuto.catalog import resolve
from tenuto.catalog.providers import PROVIDERS, build_target
from tenuto.core.provider import Provider
from tenuto.rules import RequestContext, all_rules, findings, open_body
from tenuto.rules.book import UnverifiedText

OPUS, DEEPSEEK, ROUTED = "anthropic/claude-opus-4-6", "deepseek/deepseek-v4-pro", "openrouter/anthropic/claude-opus-4.6"
FLASH_2, FLASH_3 = "google/gemini-2.5-flash", "google/gemini-3-flash-preview"
CODEX = ("gpt-5-codex", "gpt-5.1-codex", "gpt-5.1-codex-max", "gpt-5.2-codex")
HI = {"role": "user", "content": "What is the weather in Oslo?"}
SAID = {"role": "assistant", "content": "Rain."}
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
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


SYSTEM, DEVELOPER = {"role": "system", "content": "x"}, {"role": "developer", "content": "x"}
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="


def call(id="c1", **fields):
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def result(id="c1", content="ok"):
    return {"role": "tool", "tool_call_id": id, "content": content}


def image(url):
    return [{"type": "image_url", "image_url": {"url": url}}]


def says(text, **fields):
    return {"role": "assistant", "content": text, **fields}


LOOP = (HI, call(), result())
NINE = (HI, call("a1B2c3D4e"), result("a1B2c3D4e"))
TOOLS = chat(tools=[FUNCTION])
SEEN = chat(HI, call(), result(content=image(PNG)))
REASONED = says("x", reasoning="hm", reasoning_content="hm")
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
    ("chat", "azure/my-deployment", chat(DEVELOPER, HI), ()),
    ("chat", "openai/gpt-4o", chat(HI, call(), HI, result()), ("OAC-OAI-01", "OAC-OAI-02")),
    ("chat", "openai/o3-mini", chat(stop=[]), ()),
    ("chat", "openai/o3-mini", chat(stop=["x"]), ()),
    ("chat", "openai/gpt-9", chat(), ()),
    ("chat", DEEPSEEK, chat(tools=[FUNCTION], tool_choice=FORCED), ()),
    ("chat", DEEPSEEK, chat(*LOOP, chat_template_kwargs={"thinking": False}), ()),
    ("chat", DEEPSEEK, part("file", file={"file_id": "f1"}), ("OAC-DS-05",)),
    ("chat", DEEPSEEK, part("video_url", video_url={"url": "https://example.org/a.mp4"}), ("OAC-DS-05",)),
    ("chat", "xai/grok-4.5", chat(reasoning_effort="low"), ()),
    ("chat", "fireworks/accounts/fireworks/models/kimi-k3", chat(sampling_mask=True, prompt_cache_max_len=9), ()),
    ("chat", ROUTED, detail(format="anthropic-claude-v1"), ()),
    ("chat", ROUTED, detail(format="unknown"), ()),
    ("chat", ROUTED, detail(format=None), ()),
    ("chat", ROUTED, detail(), ()),
    ("chat", ROUTED, detail(format="google-gemini-v1"), ("OAC-OR-04",)),
    # Chat Completions: targets that a case cannot vary
    ("chat", "deepseek/deepseek-unheard-of", chat(HI), ("OAC-MODEL-02!",)),
    ("chat", "openai/gpt-4o", chat(HI, call("c" * 41), result("c" * 41)), ("OAC-OAI-03!",)),
    ("chat", "openai/gpt-5", chat(*LOOP, call("c2"), result("c2")), ("OAC-OAI-16!", "OAC-OAI-16!")),
    ("chat", "azure/o3", chat(*LOOP, HI, call("c2"), result("c2")), ("OAC-OAI-16!",)),
    ("chat", "deepseek/deepseek-v4-pro", chat(HI, temperature=0.1, top_p=1), ("OAC-DS-06!", "OAC-DS-06!")),
    ("chat", "mistral/mistral-small-latest", chat(*NINE, HI), ("OAC-MIS-03!",)),
    ("chat", "openrouter/anthropic/claude-opus-4.6", {**TOOLS, "tool_choice": "required", "reasoning": {"effort": "low"}}, ("OAC-OR-03!",)),
    ("chat", "together/x", chat(HI, logprobs=True, stop="x"), ("OAC-TOG-01!", "OAC-TOG-01!")),
    ("chat", "ollama/x", {**TOOLS, "tool_choice": "none"}, ("OAC-OLL-01!",)),
    ("chat", "llamacpp/x", chat(HI, REASONED, HI), ("OAC-OLL-02!",)),
    ("chat", "cohere/command-r7b", chat({"role": "user", "content": "x" * 600_000}), ("OAC-COH-01?",)),
    ("chat", "perplexity/sonar", chat({"role": "user", "content": "x" * 1_100_000}), ("OAC-PPLX-02",)),
    ("chat", "azure/gpt-5.2", chat(DEVELOPER, HI), ()),
    ("chat", "openrouter/openai/gpt-4o", chat(DEVELOPER, HI), ()),
    ("chat", "openai/o1", chat(SYSTEM, HI), ()),
    ("chat", "openai/gpt-5.4", chat(HI, temperature=0.2, stop=["x"]), ()),
    ("chat", "openai/gpt-5.5", TOOLS, ()),
    ("chat", "openai/gpt-5.2", {**TOOLS, "reasoning_effort": "low"}, ()),
    ("chat", "azure/gpt-5.6-sol", TOOLS, ()),
    ("chat", "openai/gpt-5.2", SEEN, ()),
    ("chat", "azure/DeepSeek-V4-Pro", SEEN, ()),
    ("chat", "openai/gpt-4o-mini-search-preview", chat(HI, web_search_options={}), ()),
    ("chat", "deepseek/deepseek-chat", chat(*LOOP), ()),
    ("chat", "deepseek/deepseek-chat", {**TOOLS, "tool_choice": "required"}, ()),
    ("chat", "moonshot/kimi-k2-0905-preview", chat(*LOOP, temperature=0.6), ()),
    ("chat", "groq/openai/gpt-oss-120b", chat(HI, call(reasoning="hm"), result(), n=1), ()),
    ("chat", "xai/grok-4-fast-non-reasoning", chat(HI, stop=["x"]), ()),
    ("chat", "xai/grok-5", chat(HI, reasoning_effort="low"), ()),
    ("chat", "openrouter/deepseek/deepseek-v4-pro", chat(*LOOP), ()),
    ("chat", "openrouter/google/gemini-4-argon", chat(*LOOP, says("so"), HI), ()),
    ("chat", "alibaba/qwen3-235b-a22b-instruct-2507", chat(HI), ()),
    ("chat", "alibaba/qwen3.8-omni-flash", {**TOOLS, "tool_choice": "required"}, ()),
    ("chat", "ollama/x", chat(HI, call(), HI), ()),
    ("chat", "lmstudio/x", chat(HI, max_tokens=-1), ()),
    *(("chat", f"sim/{name}", chat(HI, says("x"), HI, temperature=0.5, tools=[FUNCTION], tool_choice="required", stop=["x"], max_tokens=9), ()) for name in ("openai", "deepseek", "xai", "alibaba", "openrouter", "groq")),
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
    """And a refuted rule is gone: several models accept a first message of the assistant."""
    ids = ("ANT-PARAM-06", "ANT-PARAM-17", "ANT-TOOL-13", "ANT-TOOL-16", "ANT-TOOL-17", "ANT-MSG-09", "ANT-SRV-03")
    rules = [all_rules()[id] for id in (*ids, "ANT-SRV-04", "ANT-SRV-06", "ANT-SRV-07")]

    assert [rule.id for rule in rules if not all(isinstance(text, UnverifiedText) for text in rule.messages)] == []
    assert "ANT-MSG-06" not in all_rules()


def test_new_provider_is_not_judged_with_certainty():
    target = build_target(Provider("sunrise", "openai-chat", "https://api.sunrise.example/v1"), "dawn")
    broken = chat(HI, call(), HI, result(), {"role": "bot", "content": "x"}, says(None), temperature=9)
    found = audit_body(broken, target)

    assert {"OAC-OAI-01", "OAC-OAI-02", "OAC-OAI-10", "OAC-OAI-17", "OAC-OAI-18"} == {one.rule for one in found}
    assert {(one.severity, one.certain) for one in found} == {("warned", False)}
    assert audit_body(chat(HI, call(), result()), target) == ()


# --- malformed bodies of Messages ---------------------------------------------------------------------------------------


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"messages": [HI], "max_tokens": 9}, "/model"),
        ({"model": "m", "max_tokens": 9}, "/messages"),
        (messages("x"), "/messages/0"),
        (messages({"role": "tool", "content": "x"}), "/messages/0/role"),
        (messages({"role": "user"}), "/messages/0/content"),
        (messages({"role": "user", "content": 1}), "/messages/0/content"),
        (messages(user(1)), "/messages/0/content/0"),
        (messages(user({"text": "x"})), "/messages/0/content/0/type"),
        (messages(user({"type": "text"})), "/messages/0/content/0/text"),
        (
            messages(user({"type": "tool_result", "tool_use_id": "a", "content": [1]})),
            "/messages/0/content/0/content/0",
        ),
        (messages(user({"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}})), "/messages/0"),
        (messages(system=1), "/system"),
        (messages(system=[{"type": "text"}]), "/system/0/text"),
        (messages(system=[{"type": "input_text", "text": "x"}]), "/system/0/type"),
        (messages(thread={"type": "continue"}), "/thread/previous_message_id"),
        (messages(tools=[1]), "/tools/0"),
        (messages(tools=[{"input_schema": {}}]), "/tools/0/name"),
        (messages(thinking={"type": "on"}), "/thinking"),
        (messages(thinking={"type": "enabled"}), "/thinking/budget_tokens"),
        (messages(tool_choice={"type": "tool"}), "/tool_choice/name"),
        (messages(max_tokens=True), "/max_tokens"),
        (messages(stop_sequences=[1]), "/stop_sequences/0"),
    ],
)
def test_wrong_shape_is_the_only_finding(body, pointer):
    context = RequestContext(row=PROVIDERS["anthropic"])

    found = list(findings(open_body("anthropic-messages", body, context)))
    assert [(finding.rule.id, finding.pointer) for finding in found] == [("ANT-SHAPE", pointer)]
