"""Requests that break each rule of the chat dialect in one place, and requests that keep it."""

from __future__ import annotations

from typing import Any

from sim.chat_asking import call, result, user

__all__ = ["BREAKS", "KEEPS"]

HI = user("hi")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
LONG = "x" * 1_300_000


def said(*messages: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"messages": list(messages), **rest}


def picture(url: str) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": url}}]


def tools(**rest: Any) -> dict[str, Any]:
    return said(HI, tools=[TOOL], **rest)


TALK = (HI, call(), result())
THOUGHT = (HI, call(reasoning_content="hm"), result())
OPEN = (HI, call())
LOST = (HI, result("call_9"))
NINE = (HI, call("a1B2c3D4e"), result("a1B2c3D4e"))
NAMED = {"type": "function", "function": {"name": "f"}}
ENABLED, DISABLED = {"type": "enabled"}, {"type": "disabled"}
REASONED = {"role": "assistant", "content": "hm", "reasoning": "hm", "reasoning_content": "hm"}
CHUNKS = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}]

BREAKS: list[tuple[str, str, dict[str, Any], str]] = [
    ("OAC-OAI-01", "openai", said(*OPEN), "/messages/1/tool_calls"),
    ("OAC-OAI-01", "chat", said(HI, call(), user("and"), result()), "/messages/1/tool_calls"),
    ("OAC-OAI-01", "moonshot/kimi-k2.6", said(HI, call(reasoning_content="")), "/messages/1/tool_calls"),
    ("OAC-OAI-02", "azure", said(*LOST), "/messages/1/tool_call_id"),
    ("OAC-OAI-02", "groq", said(*TALK, result("call_9")), "/messages/3/tool_call_id"),
    ("OAC-OAI-03", "openai", said(HI, call("c" * 41), result("c" * 41)), "/messages/1/tool_calls/0/id"),
    ("OAC-OAI-04", "openai", said(HI, call(args={}), result()), "/messages/1/tool_calls/0/function/arguments"),
    ("OAC-OAI-05", "openai/gpt-5-mini", said(HI, max_tokens=9), "/max_tokens"),
    ("OAC-OAI-06", "openai/o3", said(HI, temperature=0.5), "/temperature"),
    ("OAC-OAI-06", "openai/gpt-6-sol", said(HI, stop=["x"]), "/stop"),
    ("OAC-OAI-07", "openai/gpt-5.6-sol", tools(), "/reasoning_effort"),
    ("OAC-OAI-07", "openai/gpt-5.4", tools(reasoning_effort="low"), "/reasoning_effort"),
    ("OAC-OAI-08", "openai/gpt-4o", said(HI, call(), {**result(), "content": picture(PNG)}), "/messages/2/content/0"),
    ("OAC-OAI-09", "openai", said(HI, tools=[{"type": "function", "function": {"name": "a.b"}}]), "/tools/0/function/name"),
    ("OAC-OAI-09", "openai", said(HI, stop=[*"abcde"]), "/stop"),
    ("OAC-OAI-10", "openai", said(HI, {"role": "assistant", "content": None}, HI), "/messages/1/content"),
    ("OAC-OAI-11", "deepseek", said(HI, response_format={"type": "json_object"}), "/response_format"),
    ("OAC-OAI-12", "openai", said(HI, tool_choice="auto"), "/tool_choice"),
    ("OAC-OAI-12", "openai", said(HI, tools=[]), "/tools"),
    ("OAC-OAI-13", "openai/gpt-4o", said(HI, web_search_options={}), "/web_search_options"),
    ("OAC-OAI-14", "openai", said(user(picture("data:image/tiff;base64,SUkqAAgAAAAA"))), "/messages/0/content/0/image_url"),
    ("OAC-OAI-14", "openai", said(user(picture("https://nowhere.invalid/a.png"))), "/messages/0/content/0/image_url"),
    ("OAC-OAI-15", "openai/gpt-5.2-proo", said(HI), "/model"),
    ("OAC-OAI-15", "groq/non-existent", said(HI), "/model"),
    ("OAC-OAI-16", "openai/gpt-5", said(*TALK), "/messages/1"),
    ("OAC-AZ-01", "azure", said(user("Trigger the content filter!")), "/messages"),
    ("OAC-AZ-02", "azure/deepseek-v4-pro", said({"role": "developer", "content": "x"}, HI), "/messages/0/role"),
    ("OAC-DS-01", "deepseek", said(*TALK), "/messages/1/reasoning_content"),
    ("OAC-DS-01", "deepseek-v4-pro", said(*THOUGHT, call("call_2"), result("call_2")), "/messages/3/reasoning_content"),
    ("OAC-DS-02", "deepseek/deepseek-flash", tools(tool_choice="required"), "/tool_choice"),
    ("OAC-DS-02", "deepseek", tools(tool_choice=NAMED), "/tool_choice"),
    ("OAC-DS-03", "deepseek", said(HI, call(reasoning_content=""), HI, result()), "/messages/1/tool_calls"),
    ("OAC-DS-04", "deepseek", said(*LOST), "/messages/1"),
    ("OAC-DS-05", "deepseek", said(user([{"type": "thinking", "thinking": "hm"}])), "/messages/0/content/0/type"),
    ("OAC-DS-06", "deepseek", said(HI, temperature=0.1), "/temperature"),
    ("OAC-KIMI-01", "moonshot", said(*TALK), "/messages/1/reasoning_content"),
    ("OAC-KIMI-01", "kimi-k3", said(*TALK), "/messages/1/reasoning_content"),
    ("OAC-KIMI-02", "kimi-k2.6", tools(tool_choice="required"), "/tool_choice"),
    ("OAC-KIMI-03", "kimi-k3", said(HI, temperature=0.6), "/temperature"),
    ("OAC-KIMI-04", "kimi-k3", said(HI, thinking=ENABLED, reasoning_effort="low"), "/reasoning_effort"),
    ("OAC-KIMI-05", "moonshot", said(*LOST), "/messages/1"),
    ("OAC-KIMI-05", "moonshot", said(HI, {"role": "assistant", "content": ""}, HI), "/messages/1"),
    ("OAC-KIMI-05", "moonshot", said(user(picture("https://example.org/a.png"))), "/messages/0"),
    ("OAC-MIS-01", "mistral", said(*TALK), "/messages/1/tool_calls/0/id"),
    ("OAC-MIS-01", "mistral", said(HI, call("a1B2c3D4e"), result("a1B2c3D4e-")), "/messages/2/tool_call_id"),
    ("OAC-MIS-02", "mistral", said(HI, {"role": "assistant", "content": "x"}), "/messages/1"),
    ("OAC-MIS-03", "mistral", said(*NINE, HI), "/messages/3/role"),
    ("OAC-MIS-04", "mistral", said(HI, result("a1B2c3D4e")), "/messages/1"),
    ("OAC-MIS-04", "mistral", said(*NINE, result("a1B2c3D4f")), "/messages/1"),
    ("OAC-MIS-05", "mistral", said(HI, call("a1B2c3D4e", reasoning_content="")), "/messages/1/reasoning_content"),
    ("OAC-MIS-05", "mistral", said(HI, tools=[]), "/tools"),
    ("OAC-MIS-06", "magistral-medium-latest", said(HI, {"role": "assistant", "content": "so"}, HI), "/messages/1/content"),
    ("OAC-GROQ-01", "groq", said(HI, REASONED, HI), "/messages/1/reasoning_content"),
    ("OAC-GROQ-02", "groq/llama-3.3-70b-versatile", said(HI, call(reasoning="hm"), result()), "/messages/1/reasoning"),
    ("OAC-GROQ-04", "groq", said(HI, n=2), "/n"),
    ("OAC-GROQ-04", "groq", said({**HI, "name": "Ann"}), "/messages/0/name"),
    ("OAC-XAI-01", "grok-4.7", said(HI, presence_penalty=0), "/presence_penalty"),
    ("OAC-XAI-01", "grok-3-mini", said(HI, stop=["x"]), "/stop"),
    ("OAC-XAI-02", "grok-4-0709", said(HI, reasoning_effort="low"), "/reasoning_effort"),
    ("OAC-XAI-02", "grok-4.5", said(HI, reasoning_effort="none"), "/reasoning_effort"),
    ("OAC-OR-01", "openrouter/perplexity/sonar", tools(), "/tools"),
    ("OAC-OR-01", "openrouter/deepseek/deepseek-r1", tools(tool_choice="required"), "/tool_choice"),
    ("OAC-OR-01", "openrouter/deepseek/deepseek-r1", said(user(picture(PNG))), "/messages"),
    ("OAC-OR-02", "openrouter", said(*OPEN), "/messages/1"),
    ("OAC-OR-02", "openrouter/openai/gpt-6-sol", said(*LOST), "/messages/1"),
    ("OAC-OR-02", "openrouter/moonshotai/kimi-k2.6", said(*TALK), "/messages/1"),
    ("OAC-OR-03", "openrouter/anthropic/claude-opus-4.6", tools(tool_choice="required", reasoning={"effort": "low"}), "/reasoning"),
    ("OAC-OR-04", "openrouter/google/gemini-4-argon", said(*TALK), "/messages/1/reasoning_details"),
    ("OAC-FW-01", "fireworks", said(HI, store=True), "/store"),
    ("OAC-FW-01", "fireworks", said({**HI, "mood": 1}), "/messages/0/mood"),
    ("OAC-TOG-01", "together", said(HI, logprobs=True), "/logprobs"),
    ("OAC-TOG-01", "together", said(HI, max_completion_tokens=9), "/max_completion_tokens"),
    ("OAC-PPLX-01", "perplexity", said(HI, HI), "/messages/1/role"),
    ("OAC-PPLX-02", "perplexity", said(HI, {"role": "assistant", "content": "x"}), "/messages/1"),
    ("OAC-PPLX-02", "perplexity", said(user(LONG)), "/messages"),
    ("OAC-COH-01", "cohere", said(user(LONG)), "/messages"),
    ("OAC-COH-01", "cohere", said(*OPEN), "/messages"),
    ("OAC-OLL-01", "ollama", tools(tool_choice="required"), "/tool_choice"),
    ("OAC-OLL-02", "ollama", said(HI, REASONED, HI), "/messages/1"),
    ("OAC-ZAI-01", "zai", said({"role": "system", "content": "x"}), "/messages"),
    ("OAC-ZAI-01", "zai", said(*OPEN), "/messages"),
    ("OAC-ZAI-01", "zai", said(*TALK, *TALK), "/messages"),
    ("OAC-ZAI-01", "zai", said(user("")), "/messages"),
    ("OAC-ZAI-02", "glm-4.7", said(*TALK), "/messages/1/reasoning_content"),
    ("OAC-ALI-01", "alibaba/qwen3-32b", said(HI), "/stream"),
    ("OAC-ALI-02", "qwen3.5-plus", tools(tool_choice="required"), "/tool_choice"),
    ("OAC-ALI-03", "alibaba", said(*OPEN), "/messages/1"),
    ("OAC-ALI-03", "alibaba", said(*LOST), "/messages/1"),
    ("OAC-MM-01", "minimax", said(*TALK), "/messages/1/content"),
]  # fmt: skip

KEEPS: list[tuple[str, str, dict[str, Any]]] = [
    ("OAC-OAI-01", "openai", said(*TALK)),
    ("OAC-OAI-02", "openai", said(*TALK)),
    ("OAC-OAI-03", "openai", said(HI, call("c" * 40), result("c" * 40))),
    ("OAC-OAI-04", "openai", said(*TALK)),
    ("OAC-OAI-05", "openai/gpt-5-mini", said(HI, max_completion_tokens=9)),
    ("OAC-OAI-06", "openai/o3", said(HI, temperature=1)),
    ("OAC-OAI-06", "openai/gpt-5.4", said(HI, temperature=0.2, stop=["x"])),
    ("OAC-OAI-07", "openai/gpt-5.6-sol", tools(reasoning_effort="none")),
    ("OAC-OAI-07", "openai/gpt-5.4-mini", tools()),
    ("OAC-OAI-08", "openai/gpt-4o", said(user(picture(PNG)))),
    ("OAC-OAI-09", "openai", said(HI, tools=[TOOL] * 128, stop=[*"abcd"])),
    ("OAC-OAI-10", "openai", said(HI, {"role": "assistant", "content": ""}, HI, {"role": "assistant", "refusal": "no"})),
    ("OAC-OAI-11", "openai", said(user("As JSON, please"), response_format={"type": "json_object"})),
    ("OAC-OAI-12", "openai", tools(tool_choice="auto", parallel_tool_calls=False)),
    ("OAC-OAI-13", "openai/gpt-4o-mini-search-preview", said(HI, web_search_options={})),
    ("OAC-OAI-14", "openai", said(user(picture("https://example.org/a.png")))),
    ("OAC-OAI-15", "openai/gpt-5.2-pro", said(HI)),
    ("OAC-AZ-01", "azure", said(HI)),
    ("OAC-AZ-02", "azure/deepseek-v4-pro", said({"role": "system", "content": "x"}, HI)),
    ("OAC-DS-01", "deepseek", said(*THOUGHT)),
    ("OAC-DS-01", "deepseek", said(HI, call(reasoning_content=""), result())),
    ("OAC-DS-02", "deepseek", tools(tool_choice="auto")),
    ("OAC-DS-03", "deepseek", said(*THOUGHT)),
    ("OAC-DS-04", "deepseek", said(*THOUGHT)),
    ("OAC-DS-05", "deepseek", said(user([{"type": "text", "text": "hi"}]))),
    ("OAC-DS-06", "deepseek", said(HI)),
    ("OAC-KIMI-01", "kimi-k2.6", said(HI, call(reasoning_content=""), result())),
    ("OAC-KIMI-02", "kimi-k2.6", tools(tool_choice="auto")),
    ("OAC-KIMI-03", "kimi-k3", said(HI, temperature=1)),
    ("OAC-KIMI-04", "kimi-k3", said(HI, reasoning_effort="low")),
    ("OAC-KIMI-05", "moonshot", said(user(picture(PNG)), call(reasoning_content="x"), result())),
    ("OAC-MIS-01", "mistral", said(*NINE)),
    ("OAC-MIS-02", "mistral", said(HI, {"role": "assistant", "content": "x", "prefix": True})),
    ("OAC-MIS-03", "mistral", said(*NINE, {"role": "assistant", "content": "so"}, HI)),
    ("OAC-MIS-04", "mistral", said(*NINE)),
    ("OAC-MIS-05", "mistral", said(HI, call("a1B2c3D4e"), result("a1B2c3D4e", name="f"))),
    ("OAC-MIS-06", "magistral-medium-latest", said(HI, {"role": "assistant", "content": CHUNKS}, HI)),
    ("OAC-GROQ-01", "groq/openai/gpt-oss-120b", said(HI, call(reasoning="hm"), result())),
    ("OAC-GROQ-02", "groq/llama-3.3-70b-versatile", said(*TALK)),
    ("OAC-GROQ-04", "groq", said(HI, call(), result(name="f"), n=1)),
    ("OAC-XAI-01", "grok-4.7", said(HI)),
    ("OAC-XAI-01", "grok-4.20-non-reasoning", said(HI, stop=["x"])),
    ("OAC-XAI-02", "grok-4.6", said(HI, reasoning_effort="xhigh")),
    ("OAC-OR-01", "openrouter/openai/gpt-4o", tools()),
    ("OAC-OR-02", "openrouter", said(*TALK)),
    ("OAC-OR-02", "openrouter/moonshotai/kimi-k2.6", said(HI, call(reasoning="hm"), result())),
    ("OAC-OR-03", "openrouter/anthropic/claude-opus-4.6", tools(tool_choice="auto", reasoning={"effort": "low"})),
    ("OAC-FW-01", "fireworks", said(HI, call(reasoning_content="hm"), result(), top_k=3)),
    ("OAC-TOG-01", "together", said(HI, logprobs=1, stop=["x"])),
    ("OAC-PPLX-01", "perplexity", said({"role": "system", "content": "x"}, *TALK, {"role": "assistant", "content": "x"}, HI)),
    ("OAC-PPLX-02", "perplexity", said(HI)),
    ("OAC-COH-01", "cohere", said(*TALK)),
    ("OAC-OLL-01", "ollama", tools()),
    ("OAC-OLL-02", "ollama", said(HI, {"role": "assistant", "content": "x", "reasoning": "hm"}, HI)),
    ("OAC-ZAI-01", "zai", said(*THOUGHT)),
    ("OAC-ZAI-02", "glm-4.7", said(*THOUGHT)),
    ("OAC-ALI-02", "qwen3.5-plus", tools(tool_choice="auto", enable_thinking=True)),
    ("OAC-ALI-03", "alibaba", said(*TALK)),
    ("OAC-MM-01", "minimax", said(HI, call(content="<think>\nhm\n</think>\n\n"), result())),
]  # fmt: skip
