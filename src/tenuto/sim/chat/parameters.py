"""The rules on models, parameters and tools, in the order in which they are tried."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenuto.core import jsonio
from tenuto.sim import styles
from tenuto.sim.chat import fields, models
from tenuto.sim.chat.models import matches
from tenuto.sim.chat.opening import Opened, parts, text
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS"]

CHECKS = Checks()
_OPENAI = ("openai", "azure")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OPEN_QWEN = r"(?!.*-instruct)(?:qwen3-\d.*|.*-thinking.*|qwq.*)"


def _given(body: dict[str, Any], *names: str) -> Iterator[str]:
    """Say which of these parameters are there at all."""
    return (name for name in names if body.get(name) is not None)


def _forced(body: dict[str, Any]) -> bool:
    choice = body.get("tool_choice")
    return choice in ("required", "any") or isinstance(choice, dict)


# --- fields and models ------------------------------------------------------------------------------------------------


@CHECKS.holds("OAC-MIS-05")
def _known_keys(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "mistral":
        return
    if opened.body.get("tools") == []:
        yield Broken("OAC-MIS-05", {"extra": {"loc": ["body", "tools"]}, "code": "too_short"}, variant=1, at="/tools")
    for i, message in enumerate(opened.messages):
        role = message["role"]
        strange = [key for key in message if key not in fields.MISTRAL.get(role, fields.MISTRAL["user"])]
        for key in strange:
            extra = {"loc": ["body", "messages", i, role, key], "input": message[key]}
            yield Broken("OAC-MIS-05", {"i": i, "key": key, "extra": extra})
        if not strange:
            yield None


@CHECKS.holds("OAC-FW-01")
def _known_fields(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "fireworks":
        return
    found = [(key, key, value) for key, value in opened.body.items() if key not in fields.FIREWORKS]
    for i, message in enumerate(opened.messages):
        strange = (key for key in message if key not in fields.FIREWORKS_MESSAGE)
        found += [(f"messages[{i}].{key}", f"messages/{i}/{key}", message[key]) for key in strange]
    for path, at, value in found:
        shown = repr(value) if isinstance(value, str) else jsonio.encode(value).decode()
        yield Broken("OAC-FW-01", {"path": path, "at": at, "v": shown})
    if not found:
        yield None


@CHECKS.holds("OAC-OAI-15")
def _exists(opened: Opened) -> Iterator[Broken | None]:
    if opened.style in ("openai", "groq") and opened.model:
        there = styles.exists(opened.request.style, opened.model)
        yield None if there else Broken("OAC-OAI-15", {"model": opened.model})


# --- parameters -------------------------------------------------------------------------------------------------------


@CHECKS.holds("OAC-OAI-05")
def _name_of_the_limit(opened: Opened) -> Iterator[Broken | None]:
    if opened.style in _OPENAI and models.is_openai_reasoner(opened.model):
        if opened.body.get("max_tokens") is not None:
            yield Broken("OAC-OAI-05")
        elif opened.body.get("max_completion_tokens") is not None:
            yield None


@CHECKS.holds("OAC-OAI-06")
def _sampling(opened: Opened) -> Iterator[Broken | None]:
    body, model = opened.body, opened.model
    if opened.style not in _OPENAI or not models.is_openai_reasoner(model):
        return
    free = models.effort(model, body) == "none"
    for name in _given(body, "temperature", "top_p"):
        fits = free or body[name] == 1
        yield None if fits else Broken("OAC-OAI-06", {"p": name, "v": jsonio.encode(body[name]).decode()})
    for name in _given(body, "stop", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias"):
        idle = body[name] in (0, False) or body[name] == {}
        broken = Broken("OAC-OAI-06", {"p": name, "code": "unsupported_parameter"}, variant=1)
        yield None if free or idle else broken


@CHECKS.holds("OAC-XAI-01")
def _penalties(opened: Opened) -> Iterator[Broken | None]:
    model = opened.model
    if opened.style != "xai" or not matches(r"grok-(?:3-mini|[4-9]|build|code).*", model):
        return
    words = {"presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"}
    if "non-reasoning" not in model:
        words["stop"] = "stop"
    for key in _given(opened.body, *words):
        yield Broken("OAC-XAI-01", {"model": model, "p": words[key], "key": key})
    if not any(_given(opened.body, *words)):
        yield None


@CHECKS.holds("OAC-XAI-02")
def _grok_effort(opened: Opened) -> Iterator[Broken | None]:
    asked, model = opened.body.get("reasoning_effort"), opened.model
    if opened.style != "xai" or asked is None or not matches(r"grok-[4-9].*", model):
        return
    number = models.version(model)
    never = number in (4.0, 4.1, 4.2)
    refused = never or (number >= 4.5 and asked == "none") or (asked == "xhigh" and number < 4.6)
    yield Broken("OAC-XAI-02", {"model": model}) if refused else None


@CHECKS.holds("OAC-KIMI-03")
def _kimi_temperature(opened: Opened) -> Iterator[Broken | None]:
    found = opened.body.get("temperature")
    if opened.style == "moonshot" and found is not None and matches(r"kimi-(?:k2\.[56]|k3).*", opened.model):
        yield None if found == 1 else Broken("OAC-KIMI-03")


@CHECKS.holds("OAC-KIMI-04")
def _one_word_for_thinking(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "moonshot" and matches(r"kimi-k3.*", opened.model):
        given = [*_given(opened.body, "thinking", "reasoning_effort")]
        if given:
            yield Broken("OAC-KIMI-04") if len(given) > 1 else None


@CHECKS.holds("OAC-GROQ-04")
def _groq_lacks(opened: Opened) -> Iterator[Broken | None]:
    body = opened.body
    if opened.style != "groq":
        return
    found = [name for name in _given(body, "logprobs", "top_logprobs", "logit_bias") if body[name] not in (False, 0)]
    if isinstance(body.get("n"), int) and body["n"] > 1:
        found.append("n")
    for name in found:
        yield Broken("OAC-GROQ-04", {"p": name})
    for i, message in enumerate(opened.messages):
        if message.get("name") is not None and message["role"] not in ("tool", "function"):
            found.append("name")
            yield Broken("OAC-GROQ-04", {"p": "name"}, at=f"/messages/{i}/name")
    if not found:
        yield None


@CHECKS.holds("OAC-OAI-13")
def _searching_models(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "openai" and opened.model and opened.body.get("web_search_options") is not None:
        yield None if "search" in opened.model else Broken("OAC-OAI-13")


@CHECKS.holds("OAC-OAI-11")
def _says_json(opened: Opened) -> Iterator[Broken | None]:
    wanted = opened.body.get("response_format")
    if (
        opened.style in (*_OPENAI, "deepseek", "groq")
        and isinstance(wanted, dict)
        and wanted.get("type") == "json_object"
    ):
        said = any("json" in text(message).lower() for message in opened.messages)
        yield None if said else Broken("OAC-OAI-11")


@CHECKS.holds("OAC-DS-06")
def _idle_sampling(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "deepseek" and opened.thinks:
        for name in _given(opened.body, "temperature", "top_p", "presence_penalty", "frequency_penalty"):
            yield Broken("OAC-DS-06", {"p": name})
        if not any(_given(opened.body, "temperature", "top_p", "presence_penalty", "frequency_penalty")):
            yield None


@CHECKS.holds("OAC-TOG-01")
def _together_types(opened: Opened) -> Iterator[Broken | None]:
    body = opened.body
    if opened.style != "together":
        return
    found = [*_given(body, "max_completion_tokens", "stream_options", "parallel_tool_calls")]
    found += [name for name, kind in (("logprobs", bool), ("stop", str)) if isinstance(body.get(name), kind)]
    for name in found:
        yield Broken("OAC-TOG-01", {"p": name})
    if not found:
        yield None


@CHECKS.holds("OAC-OLL-01")
def _choice_without_effect(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "ollama" and opened.tools:
        yield Broken("OAC-OLL-01") if opened.body.get("tool_choice") not in (None, "auto") else None


@CHECKS.holds("OAC-OR-03")
def _forced_over_reasoning(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "openrouter" and models.vendor(opened.model) == "anthropic" and opened.thinks and opened.tools:
        yield Broken("OAC-OR-03") if _forced(opened.body) else None


# --- tools ------------------------------------------------------------------------------------------------------------


@CHECKS.holds("OAC-OAI-09")
def _sizes_and_names(opened: Opened) -> Iterator[Broken | None]:
    if opened.style not in _OPENAI:
        return
    stop = opened.body.get("stop")
    for name, found, most in (("tools", opened.tools, 128), ("stop", stop if isinstance(stop, list) else [], 4)):
        if len(found) > most:
            told = {"p": name, "max": most, "n": len(found), "code": "array_above_max_length"}
            yield Broken("OAC-OAI-09", told, variant=1, at=f"/{name}")
    for k, tool in enumerate(opened.tools):
        inner = tool.get("function")
        if isinstance(inner, dict):
            fits = isinstance(inner.get("name"), str) and _NAME.fullmatch(inner["name"])
            yield None if fits else Broken("OAC-OAI-09", {"k": k})


@CHECKS.holds("OAC-OAI-12")
def _tools_for_a_choice(opened: Opened) -> Iterator[Broken | None]:
    if opened.style not in _OPENAI:
        return
    if opened.body.get("tools") == []:
        yield Broken("OAC-OAI-12", {"p": "tools"}, variant=1)
    for name in _given(opened.body, "tool_choice", "parallel_tool_calls"):
        yield None if opened.tools or opened.body.get("functions") else Broken("OAC-OAI-12", {"p": name})


@CHECKS.holds("OAC-OAI-07")
def _tools_or_effort(opened: Opened) -> Iterator[Broken | None]:
    model, asked = opened.model, opened.body.get("reasoning_effort")
    if opened.style != "openai" or not opened.tools or not matches(r"gpt-(?:5\.[4-9]|[6-9]).*", model):
        return
    refused = asked != "none" if asked is not None else models.version(model) >= 5.6
    yield Broken("OAC-OAI-07", {"model": model}) if refused else None


@CHECKS.holds("OAC-DS-02")
def _deepseek_forced(opened: Opened) -> Iterator[Broken | None]:
    known = matches(r"deepseek-(?:v4|flash|pro).*", opened.model)
    if opened.style == "deepseek" and opened.thinks and known and opened.body.get("tool_choice") is not None:
        yield Broken("OAC-DS-02") if _forced(opened.body) else None


@CHECKS.holds("OAC-KIMI-02")
def _kimi_forced(opened: Opened) -> Iterator[Broken | None]:
    known = matches(r"kimi-(?:k2\.[6-9]|k[3-9]).*", opened.model)
    if opened.style == "moonshot" and opened.thinks and known and opened.body.get("tool_choice") is not None:
        yield Broken("OAC-KIMI-02") if _forced(opened.body) else None


@CHECKS.holds("OAC-ALI-01")
def _thinks_only_in_streams(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "alibaba" and opened.thinks and matches(_OPEN_QWEN, opened.model):
        yield None if opened.request.stream else Broken("OAC-ALI-01")


@CHECKS.holds("OAC-ALI-02")
def _qwen_forced(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "alibaba" and opened.thinks and matches(r"qwen3\.[5-9].*", opened.model) and opened.tools:
        yield Broken("OAC-ALI-02") if _forced(opened.body) else None


@CHECKS.holds("OAC-OR-01")
def _some_host_can(opened: Opened) -> Iterator[Broken | None]:
    model = opened.model
    if opened.style != "openrouter" or not model:
        return
    if opened.tools:
        yield Broken("OAC-OR-01", {"p": "tools"}) if matches(fields.TOOLLESS, model) else None
        if _forced(opened.body):
            yield Broken("OAC-OR-01", {"p": "tool_choice"}, variant=1) if matches(fields.UNFORCED, model) else None
    if any(part.get("type") == "image_url" for message in opened.messages for part in parts(message)):
        yield Broken("OAC-OR-01", {"p": "messages"}, variant=2) if matches(fields.BLIND, model) else None
