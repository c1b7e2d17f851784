"""The rules on messages: roles, their order, what may be empty, calls and their results. In the order they are tried."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from tenuto.core import jsonio
from tenuto.core.rules import rule as row
from tenuto.sim.chat import models
from tenuto.sim.chat.models import matches
from tenuto.sim.chat.opening import Opened, empty, kind, parts, shown, text
from tenuto.sim.judging import Broken, Checks
from tenuto.sim.mint import tokens

__all__ = ["CHECKS", "orphans", "unanswered", "wrapped"]

CHECKS = Checks()
_OPENAI = ("openai", "azure")
_PAIRED = (*_OPENAI, "chat", "moonshot", "groq", "xai", "fireworks", "together", "cerebras", "sambanova", "nvidia", "meta", "vertex")  # fmt: skip
"""Who says it in OpenAI's words when calls and results do not match. The others have words of their own, or do not mind."""
_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_PICTURE = re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP", re.DOTALL)
_ADDRESS = re.compile(r"(?i:https?)://(?![^/]*\.invalid(?:[:/]|$))[^/]+")
_PICTURES_OF_USERS = r"(?:ft:)?(?:gpt-(?:[34]|5(?!\.[2-9]))|chatgpt-|o\d).*"
"""The models of OpenAI's that refuse pictures of others: those before gpt-5.2."""
_HOSTS = {"anthropic": "Anthropic", "google": "Google", "openai": "OpenAI", "moonshotai": "Moonshot AI", "deepseek": "DeepSeek", "mistralai": "Mistral", "x-ai": "xAI"}  # fmt: skip


def unanswered(opened: Opened) -> Iterator[tuple[int, list[str]]]:
    """Yield each assistant message with calls, and the ids that the tool messages right behind it do not answer."""
    for i, calls in enumerate(opened.calls):
        if calls:
            answered = {message["tool_call_id"] for message in _behind(opened, i)}
            yield i, [call["id"] for call in calls if call["id"] not in answered]


def orphans(opened: Opened) -> Iterator[tuple[int, bool]]:
    """Yield each tool message, and whether it answers no call of the assistant message before it."""
    open: set[str] = set()
    for i, message in enumerate(opened.messages):
        if message["role"] == "tool":
            yield i, message["tool_call_id"] not in open
        else:
            open = {call["id"] for call in opened.calls[i]}


def _behind(opened: Opened, i: int) -> Iterator[dict[str, Any]]:
    for message in opened.messages[i + 1 :]:
        if message["role"] != "tool":
            return
        yield message


def _images(opened: Opened) -> Iterator[tuple[int, int, str]]:
    for i, message in enumerate(opened.messages):
        for j, part in enumerate(parts(message)):
            if part.get("type") == "image_url":
                found = part.get("image_url")
                url = found.get("url") if isinstance(found, dict) else found
                yield i, j, url if isinstance(url, str) else ""


# --- roles, order, empties --------------------------------------------------------------------------------------------


@CHECKS.holds("OAC-AZ-02")
def _developers(opened: Opened) -> Iterator[Broken | None]:
    foreign = opened.style == "azure" and opened.model and not matches(r"(?:gpt-|o\d|chatgpt|codex).*", opened.model)
    if foreign or opened.style == "vllm":
        for i, message in enumerate(opened.messages):
            yield Broken("OAC-AZ-02", {"i": i}) if message["role"] == "developer" else None


@CHECKS.holds("OAC-AZ-01")
def _filter(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "azure":
        hit = any("trigger the content filter" in text(message).lower() for message in opened.messages)
        yield Broken("OAC-AZ-01") if hit else None


@CHECKS.holds("OAC-OAI-08")
def _pictures_of_users(opened: Opened) -> Iterator[Broken | None]:
    if opened.style not in _OPENAI or not matches(_PICTURES_OF_USERS, opened.model):
        return
    for i, j, _url in _images(opened):
        role = opened.messages[i]["role"]
        yield None if role == "user" else Broken("OAC-OAI-08", {"i": i, "j": j, "role": role})


@CHECKS.holds("OAC-OAI-14")
def _readable_pictures(opened: Opened) -> Iterator[Broken | None]:
    if opened.style not in _OPENAI:
        return
    for i, j, url in _images(opened):
        at = {"i": i, "j": j}
        if url.startswith("data:"):
            yield None if _is_picture(url) else Broken("OAC-OAI-14", at)
        else:
            there = _ADDRESS.match(url)
            yield None if there else Broken("OAC-OAI-14", {**at, "url": url, "code": "invalid_image_url"}, variant=1)


def _is_picture(url: str) -> bool:
    try:
        head = base64.b64decode(url.partition(",")[2][:16], validate=True)
    except ValueError:  # also for letters that base64 does not know
        return False
    return _PICTURE.match(head) is not None


@CHECKS.holds("OAC-OAI-10")
def _null_content(opened: Opened) -> Iterator[Broken | None]:
    if opened.style not in _OPENAI:
        return
    for i, message in enumerate(opened.messages):
        if message["role"] == "assistant":
            other = opened.calls[i] or message.get("function_call") or message.get("refusal") or message.get("audio")
            yield Broken("OAC-OAI-10", {"i": i}) if message.get("content") is None and not other else None


@CHECKS.holds("OAC-DS-05")
def _own_parts(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "deepseek":
        return
    for i, message in enumerate(opened.messages):
        if isinstance(message.get("content"), list):
            for j, part in enumerate(message["content"]):
                type = part.get("type")
                known = type in ("text", "image_url", "input_audio", "file", "video_url")
                variant = 0 if type == "thinking" else 1
                yield None if known else Broken("OAC-DS-05", {"i": i, "j": j, "type": type}, variant=variant)


@CHECKS.holds("OAC-MIS-02")
def _mistral_last(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "mistral":
        last = opened.messages[-1]
        prefilled = last["role"] == "assistant" and last.get("prefix") is not True
        yield Broken("OAC-MIS-02", {"i": len(opened.messages) - 1}) if prefilled else None


@CHECKS.holds("OAC-MIS-03")
def _mistral_user_after_tool(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "mistral":
        for i, (before, message) in enumerate(zip(opened.messages, opened.messages[1:], strict=False), 1):
            if before["role"] == "tool":
                yield Broken("OAC-MIS-03", {"i": i}) if message["role"] == "user" else None


@CHECKS.holds("OAC-PPLX-01")
def _taking_turns(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "perplexity":
        return
    before = "system"
    for i, message in enumerate(opened.messages):
        role = "system" if message["role"] == "developer" else message["role"]
        allowed = {"system": ("system", "user"), "assistant": ("user", "tool"), "tool": ("assistant", "tool")}
        yield None if role in allowed.get(before, ("assistant",)) else Broken("OAC-PPLX-01", {"i": i})
        before = role


@CHECKS.holds("OAC-PPLX-02")
def _perplexity_last(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "perplexity":
        return
    last = len(opened.messages) - 1
    yield None if opened.messages[last]["role"] in ("user", "tool") else Broken("OAC-PPLX-02", {"i": last})
    if _size(opened) > opened.request.style.window:
        yield Broken("OAC-PPLX-02", {"extra": {"type": "too_many_prompt_tokens"}}, variant=1, at="/messages")


def _size(opened: Opened) -> int:
    return sum(tokens(text(message)) for message in opened.messages)


@CHECKS.holds("OAC-ZAI-01")
def _legal_messages(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "zai":
        return
    ids = [call["id"] for calls in opened.calls for call in calls]
    void = any(
        empty(message) and not calls and not message.get("reasoning_content")
        for message, calls in zip(opened.messages, opened.calls, strict=True)
        if message["role"] in ("user", "assistant")
    )
    alone = not any(message["role"] == "user" for message in opened.messages)
    torn = any(ids for _, ids in unanswered(opened)) or any(lost for _, lost in orphans(opened))
    yield Broken("OAC-ZAI-01") if void or alone or torn or len(ids) != len(set(ids)) else None


@CHECKS.holds("OAC-KIMI-05")
def _kimi_messages(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "moonshot":
        return
    for i, lost in orphans(opened):
        yield Broken("OAC-KIMI-05", {"i": i}) if lost else None
    for i, message in enumerate(opened.messages):
        if message["role"] == "assistant":
            void = empty(message) and not opened.calls[i] and not message.get("reasoning_content")
            yield Broken("OAC-KIMI-05", {"i": i}, variant=1) if void else None
    for i, _, url in _images(opened):
        inline = url.startswith(("data:", "ms://"))
        yield None if inline else Broken("OAC-KIMI-05", {"i": i, "url": url}, variant=2)


# --- calls and results ------------------------------------------------------------------------------------------------


@CHECKS.holds("OAC-OAI-04")
def _arguments_are_text(opened: Opened) -> Iterator[Broken | None]:
    if opened.style not in _OPENAI:
        return
    for i, calls in enumerate(opened.calls):
        for k, call in enumerate(calls):
            if isinstance(call.get("function"), dict):
                found = call["function"].get("arguments")
                told = {"i": i, "k": k, "kind": kind(found)}
                yield None if isinstance(found, str) else Broken("OAC-OAI-04", told)


@CHECKS.holds("OAC-MIS-01")
def _nine_letters(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "mistral":
        return
    for i, message in enumerate(opened.messages):
        found = [(call["id"], f"/messages/{i}/tool_calls/{k}/id") for k, call in enumerate(opened.calls[i])]
        if message["role"] == "tool":
            found.append((message["tool_call_id"], f"/messages/{i}/tool_call_id"))
        for id, at in found:
            yield None if _NINE.fullmatch(id) else Broken("OAC-MIS-01", {"i": i, "id": id}, at=at)


@CHECKS.holds("OAC-MIS-04")
def _mistral_pairs(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "mistral":
        return
    for i, message in enumerate(opened.messages):
        before = opened.messages[i - 1]["role"] if i else "system"
        if message["role"] == "tool" and before not in ("assistant", "tool"):
            yield Broken("OAC-MIS-04", {"i": i, "role": before})
        if opened.calls[i] or (message["role"] == "assistant" and any(_behind(opened, i))):
            same = len(opened.calls[i]) == len([*_behind(opened, i)])
            yield None if same else Broken("OAC-MIS-04", {"i": i}, variant=1)


@CHECKS.holds("OAC-DS-03")
def _deepseek_calls(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "deepseek":
        for i, ids in unanswered(opened):
            yield Broken("OAC-DS-03", {"i": i}) if ids else None


@CHECKS.holds("OAC-DS-04")
def _deepseek_results(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "deepseek":
        for i, lost in orphans(opened):
            yield Broken("OAC-DS-04", {"i": i}) if lost else None


@CHECKS.holds("OAC-ALI-03")
def _alibaba_pairs(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "alibaba":
        for i, ids in unanswered(opened):
            yield Broken("OAC-ALI-03", {"i": i, "ids": ", ".join(ids)}) if ids else None
        for i, lost in orphans(opened):
            yield Broken("OAC-ALI-03", {"i": i}, variant=1) if lost else None


@CHECKS.holds("OAC-COH-01")
def _cohere(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "cohere":
        return
    most, size = opened.request.style.window, _size(opened)
    told = {"n": size - most, "max": most, "code": "TOO_MANY_TOKENS"}
    yield Broken("OAC-COH-01", told) if size > most else None
    for _, ids in unanswered(opened):
        yield Broken("OAC-COH-01", {"id": ", ".join(ids)}, variant=1) if ids else None
    for i, lost in orphans(opened):
        if lost:
            yield Broken("OAC-COH-01", {"id": opened.messages[i]["tool_call_id"]}, variant=1)


@CHECKS.holds("OAC-OAI-01")
def _calls_answered(opened: Opened) -> Iterator[Broken | None]:
    if opened.style in _PAIRED:
        for i, ids in unanswered(opened):
            yield Broken("OAC-OAI-01", {"i": i, "ids": ", ".join(ids)}) if ids else None


@CHECKS.holds("OAC-OAI-02")
def _results_asked_for(opened: Opened) -> Iterator[Broken | None]:
    if opened.style in _PAIRED and opened.style != "moonshot":
        for i, lost in orphans(opened):
            yield Broken("OAC-OAI-02", {"i": i}) if lost else None


@CHECKS.holds("OAC-OAI-03")
def _length_of_ids(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "openai":
        for i, calls in enumerate(opened.calls):
            for k, call in enumerate(calls):
                told = {"i": i, "k": k, "n": len(call["id"])}
                yield Broken("OAC-OAI-03", told) if len(call["id"]) > 40 else None


@CHECKS.holds("OAC-OR-02")
def _upstream(opened: Opened) -> Iterator[Broken | None]:
    """What the host behind OpenRouter refuses comes back as the host said it, inside OpenRouter's own error."""
    if opened.style != "openrouter":
        return
    claude = (models.vendor(opened.model) or "anthropic") == "anthropic"
    calls, results = ("ANT-TOOL-01", "ANT-TOOL-02") if claude else ("OAC-OAI-01", "OAC-OAI-02")
    for i, ids in unanswered(opened):
        told = row(calls).text(i=i, ids=", ".join(ids))
        yield wrapped("OAC-OR-02", opened.model, told, i) if ids else None
    for i, lost in orphans(opened):
        told = row(results).text(i=i, j=0, id=opened.messages[i]["tool_call_id"])
        yield wrapped("OAC-OR-02", opened.model, told, i) if lost else None
    if opened.thinks and shown(opened) and matches(r"moonshotai/kimi-(?:k2\.[5-9]|k[3-9]).*", opened.model):
        for i, message in enumerate(opened.messages):
            if opened.calls[i]:
                texts = [message.get(key) for key in ("reasoning", "reasoning_content")]
                kept = message.get("reasoning_details") or any(isinstance(found, str) for found in texts)
                yield None if kept else wrapped("OAC-OR-02", opened.model, row("OAC-KIMI-01").text(i=i), i)


def wrapped(rule: str, model: str, message: str, i: int) -> Broken:
    """Say what a host refuses as OpenRouter passes it on."""
    vendor = models.vendor(model) or "anthropic"
    error: dict[str, Any] = {"message": message, "type": "invalid_request_error"}
    raw = (
        {"type": "error", "error": error}
        if vendor == "anthropic"
        else {"error": {**error, "param": None, "code": None}}
    )
    host = _HOSTS.get(vendor, vendor.capitalize())
    metadata = {"raw": jsonio.encode(raw).decode(), "provider_name": host}
    return Broken(rule, {"i": i, "extra": {"metadata": metadata}})
