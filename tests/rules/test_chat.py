"""Rules of Chat Completions: targets that a case cannot vary."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.audit import audit_body
from tenuto.catalog import resolve
from tenuto.catalog.providers import build_target
from tenuto.core.provider import Provider

HI = {"role": "user", "content": "hi"}
SYSTEM, DEVELOPER = {"role": "system", "content": "x"}, {"role": "developer", "content": "x"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), **fields}


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
TOOLS = body(HI, tools=[TOOL])
SEEN = body(HI, call(), result(content=image(PNG)))
REASONED = says("x", reasoning="hm", reasoning_content="hm")


@pytest.mark.parametrize(
    ("model", "request_body", "expected"),
    [
        ("deepseek/deepseek-unheard-of", body(HI), [("OAC-MODEL-02", "/model", True)]),
        ("openai/gpt-4o", body(HI, call("c" * 41), result("c" * 41)), [("OAC-OAI-03", "/messages/1/tool_calls/0/id", True)]),
        ("openai/gpt-5", body(*LOOP, call("c2"), result("c2")), [("OAC-OAI-16", "/messages/1", True), ("OAC-OAI-16", "/messages/3", True)]),
        ("azure/o3", body(*LOOP, HI, call("c2"), result("c2")), [("OAC-OAI-16", "/messages/4", True)]),
        ("deepseek/deepseek-v4-pro", body(HI, temperature=0.1, top_p=1), [("OAC-DS-06", "/temperature", True), ("OAC-DS-06", "/top_p", True)]),
        ("mistral/mistral-small-latest", body(*NINE, HI), [("OAC-MIS-03", "/messages/3/role", True)]),
        ("openrouter/anthropic/claude-opus-4.6", {**TOOLS, "tool_choice": "required", "reasoning": {"effort": "low"}}, [("OAC-OR-03", "/reasoning", True)]),
        ("together/x", body(HI, logprobs=True, stop="x"), [("OAC-TOG-01", "/logprobs", True), ("OAC-TOG-01", "/stop", True)]),
        ("ollama/x", {**TOOLS, "tool_choice": "none"}, [("OAC-OLL-01", "/tool_choice", True)]),
        ("llamacpp/x", body(HI, REASONED, HI), [("OAC-OLL-02", "/messages/1", True)]),
        ("cohere/command-r7b", body({"role": "user", "content": "x" * 600_000}), [("OAC-COH-01", "/messages", False)]),
        ("perplexity/sonar", body({"role": "user", "content": "x" * 1_100_000}), [("OAC-PPLX-02", "/messages", True)]),
    ],
)  # fmt: skip
def test_target_breaks_rule(model, request_body, expected):
    found = audit_body(request_body, resolve(model, dialect="openai-chat"))

    assert [(one.rule, one.pointer, one.certain) for one in found] == expected


@pytest.mark.parametrize(
    ("model", "request_body"),
    [
        ("azure/my-deployment", body(DEVELOPER, HI)),
        ("azure/gpt-5.2", body(DEVELOPER, HI)),
        ("openrouter/openai/gpt-4o", body(DEVELOPER, HI)),
        ("openai/o1", body(SYSTEM, HI)),
        ("openai/o3-mini", body(HI, stop=["x"])),
        ("openai/gpt-5.4", body(HI, temperature=0.2, stop=["x"])),
        ("openai/gpt-5.5", TOOLS),
        ("openai/gpt-5.2", {**TOOLS, "reasoning_effort": "low"}),
        ("azure/gpt-5.6-sol", TOOLS),
        ("openai/gpt-5.2", SEEN),
        ("azure/DeepSeek-V4-Pro", SEEN),
        ("openai/gpt-4o-mini-search-preview", body(HI, web_search_options={})),
        ("deepseek/deepseek-chat", body(*LOOP)),
        ("deepseek/deepseek-chat", {**TOOLS, "tool_choice": "required"}),
        ("moonshot/kimi-k2-0905-preview", body(*LOOP, temperature=0.6)),
        ("groq/openai/gpt-oss-120b", body(HI, call(reasoning="hm"), result(), n=1)),
        ("xai/grok-4-fast-non-reasoning", body(HI, stop=["x"])),
        ("xai/grok-5", body(HI, reasoning_effort="low")),
        ("openrouter/deepseek/deepseek-v4-pro", body(*LOOP)),
        ("openrouter/google/gemini-4-argon", body(*LOOP, says("so"), HI)),
        ("alibaba/qwen3-235b-a22b-instruct-2507", body(HI)),
        ("alibaba/qwen3.8-omni-flash", {**TOOLS, "tool_choice": "required"}),
        ("ollama/x", body(HI, call(), HI)),
        ("lmstudio/x", body(HI, max_tokens=-1)),
        *((f"sim/{name}", body(HI, says("x"), HI, temperature=0.5, tools=[TOOL], tool_choice="required", stop=["x"], max_tokens=9))
          for name in ("openai", "deepseek", "xai", "alibaba", "openrouter", "groq")),
    ],
)  # fmt: skip
def test_target_accepts(model, request_body):
    found = audit_body(request_body, resolve(model, dialect="openai-chat"))

    assert [one.rule for one in found if one.severity == "refused" or not one.certain] == []


def test_new_provider_is_not_judged_with_certainty():
    target = build_target(Provider("sunrise", "openai-chat", "https://api.sunrise.example/v1"), "dawn")
    broken = body(HI, call(), HI, result(), {"role": "bot", "content": "x"}, says(None), temperature=9)
    found = audit_body(broken, target)

    assert {"OAC-OAI-01", "OAC-OAI-02", "OAC-OAI-10", "OAC-OAI-17", "OAC-OAI-18"} == {one.rule for one in found}
    assert {(one.severity, one.certain) for one in found} == {("warned", False)}
    assert audit_body(body(HI, call(), result()), target) == ()
