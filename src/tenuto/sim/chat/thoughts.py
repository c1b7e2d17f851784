"""The rules on reasoning that is sent back, in the order in which they are tried."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from tenuto.sim.chat import models
from tenuto.sim.chat.models import matches
from tenuto.sim.chat.opening import Opened, parts, text
from tenuto.sim.chat.turns import wrapped
from tenuto.sim.judging import Broken, Checks
from tenuto.sim.mint import digest

__all__ = ["CHECKS", "ENCRYPTED", "opened_token", "thought"]

CHECKS = Checks()
ENCRYPTED = "gAAAAAB"
"""What OpenAI's tokens begin with."""


def opened_token(opened: Opened, token: object) -> dict[str, Any] | None:
    """Return what a token claims; None if it is none of ours, or not as it was."""
    if not isinstance(token, str) or not token:
        return None
    bare = token.removeprefix(ENCRYPTED)
    marks = b"-_" if bare != token else b"+/"
    try:
        data = base64.b64decode(bare, altchars=marks, validate=True)
    except (binascii.Error, ValueError):
        return None
    return opened.request.seals.open(data) if base64.b64encode(data, altchars=marks).decode() == bare else None


def thought(part: dict[str, Any]) -> str:
    """Return the text of a thinking part, as Mistral has them."""
    inner = part.get("thinking")
    if not isinstance(inner, list):
        return ""
    return "".join(found for one in inner if isinstance(one, dict) and isinstance(found := one.get("text"), str))


def _callers(opened: Opened) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((i, message) for i, message in enumerate(opened.messages) if opened.calls[i])


def _turn(opened: Opened) -> int:
    """Return where the last user message stands: what follows it is the turn that goes on."""
    return max((i for i, message in enumerate(opened.messages) if message["role"] == "user"), default=-1)


@CHECKS.holds("OAC-DS-01")
def _deepseek_wants_it(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "deepseek" and opened.thinks and not matches(r"deepseek-r1.*", opened.model):
        for i, message in _callers(opened):
            yield None if isinstance(message.get("reasoning_content"), str) else Broken("OAC-DS-01", {"i": i})


@CHECKS.holds("OAC-KIMI-01")
def _kimi_wants_it(opened: Opened) -> Iterator[Broken | None]:
    known = not opened.model or matches(r"kimi-(?:k2\.[5-9]|k[3-9]).*", opened.model)
    if opened.style == "moonshot" and opened.thinks and known:
        for i, message in _callers(opened):
            yield None if isinstance(message.get("reasoning_content"), str) else Broken("OAC-KIMI-01", {"i": i})


@CHECKS.holds("OAC-GROQ-01")
def _groq_has_no_such_key(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "groq":
        for i, message in enumerate(opened.messages):
            if message["role"] == "assistant":
                yield Broken("OAC-GROQ-01", {"i": i}) if "reasoning_content" in message else None


@CHECKS.holds("OAC-GROQ-02")
def _groq_reasons_not(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "groq" and opened.model and not models.thinks(opened.request.style, opened.model, {}):
        if opened.body.get("reasoning") is not None:
            yield Broken("OAC-GROQ-02", variant=1, at="/reasoning")
        for i, message in enumerate(opened.messages):
            if message["role"] == "assistant":
                yield Broken("OAC-GROQ-02", {"i": i}) if message.get("reasoning") is not None else None


@CHECKS.holds("OAC-OR-04")
def _details_as_they_were(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "openrouter":
        return
    signed, turn = matches(models.SIGNED, opened.model), _turn(opened)
    seen: list[object] = []
    for i, message in enumerate(opened.messages):
        if message["role"] != "assistant":
            continue
        details = _details(message)
        if details:
            trouble = _trouble(opened, details, i) or _twice(opened, details, seen)
            seen += [one["id"] for one in details if one.get("id")]
            yield wrapped("OAC-OR-04", opened.model, trouble, i) if trouble else None
        if signed and i > turn and opened.calls[i]:
            kept = opened.calls[i][0]["id"] in [one.get("id") for one in details]
            told = "Function call is missing a thought_signature in functionCall parts."
            yield None if kept else wrapped("OAC-OR-04", opened.model, told, i)


def _details(message: dict[str, Any]) -> list[dict[str, Any]]:
    found = message.get("reasoning_details")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _twice(opened: Opened, details: list[dict[str, Any]], seen: list[object]) -> str:
    again = next((one["id"] for one in details if one.get("id") and one["id"] in seen), None)
    if again is None or models.family(opened.model) != models.FORMATS["openai"]:
        return ""
    return f"Duplicate item found with id {again}. Remove duplicate items from your input and try again."


def _trouble(opened: Opened, details: list[dict[str, Any]], i: int) -> str:
    """Say what the host would say of a message's details; nothing if they are as they were."""
    for j, one in enumerate(details):
        form = one.get("format")
        if form not in models.FORMATS.values():
            continue
        if opened.model and form != models.family(opened.model):
            return f"messages.{i}.reasoning_details.{j}: {form} is not a format of this model."
        problem = _altered(opened, details, j)
        if problem:
            return problem.replace("{i}", str(i)).replace("{j}", str(j))
    return ""


def _altered(opened: Opened, details: list[dict[str, Any]], j: int) -> str:
    one = details[j]
    form, kind = one.get("format"), one.get("type")
    token = one.get("data") if kind == "reasoning.encrypted" else one.get("signature")
    if token is None:
        missing = form == models.FORMATS["anthropic"]
        return "messages.{i}.content.{j}.thinking.signature: Field required" if missing else ""
    claims = opened_token(opened, token)
    if claims is not None and _fits(claims, details, j):
        return ""
    if form == models.FORMATS["anthropic"]:
        return "messages.{i}.content.{j}: Invalid `signature` in `thinking` block"
    if form == models.FORMATS["google"]:
        return "Corrupted thought signature."
    return f"The encrypted content for item {one.get('id')} could not be verified."


def _fits(claims: dict[str, Any], details: list[dict[str, Any]], j: int) -> bool:
    """A token stands where it stood, among as many others, in the same form, beside the same text, under the same id."""
    one = details[j]
    said = one.get("text") if isinstance(one.get("text"), str) else ""
    there = {"n": j, "of": len(details), "f": one.get("format"), "id": one.get("id") or "", "t": digest(str(said))}
    return claims == there


# --- what is lost -----------------------------------------------------------------------------------------------------


@CHECKS.holds("OAC-MIS-06")
def _mistral_keeps_thoughts(opened: Opened) -> Iterator[Broken | None]:
    if opened.style != "mistral" or not opened.thinks:
        return
    for i, message in enumerate(opened.messages):
        if message["role"] == "assistant":
            kept = [part for part in parts(message) if part.get("type") == "thinking"]
            signed = [part for part in kept if part.get("signature") is not None]
            whole = all(
                (opened_token(opened, one["signature"]) or {}).get("t") == digest(thought(one)) for one in signed
            )
            yield None if kept and whole else Broken("OAC-MIS-06", {"i": i})


@CHECKS.holds("OAC-OAI-16")
def _openai_forgets(opened: Opened) -> Iterator[Broken | None]:
    reasons = models.is_openai_reasoner(opened.model) and models.effort(opened.model, opened.body) != "none"
    if opened.style in ("openai", "azure") and reasons:
        for i, _ in _callers(opened):
            yield Broken("OAC-OAI-16", {"i": i})


@CHECKS.holds("OAC-OLL-02")
def _ollama_takes_anything(opened: Opened) -> Iterator[Broken | None]:
    if opened.style in ("ollama", "lmstudio", "vllm", "llamacpp"):
        for i, message in enumerate(opened.messages):
            if message["role"] == "assistant":
                both = "reasoning" in message and "reasoning_content" in message
                yield Broken("OAC-OLL-02", {"i": i}) if both else None


@CHECKS.holds("OAC-ZAI-02")
def _glm_keeps_thoughts(opened: Opened) -> Iterator[Broken | None]:
    known = matches(r"(?i:glm-(?:4\.[6-9]|[5-9]).*)", opened.model)
    if opened.style != "zai" or not known or not opened.thinks:
        return
    thinking = opened.body.get("thinking")
    always = isinstance(thinking, dict) and thinking.get("clear_thinking") is False
    turn = _turn(opened)
    for i, message in enumerate(opened.messages):
        if message["role"] == "assistant" and (always or (i > turn and opened.calls[i])):
            yield None if message.get("reasoning_content") else Broken("OAC-ZAI-02", {"i": i})


@CHECKS.holds("OAC-MM-01")
def _minimax_keeps_thoughts(opened: Opened) -> Iterator[Broken | None]:
    if opened.style == "minimax":
        for i, message in _callers(opened):
            kept = "<think>" in text(message) or message.get("reasoning_details") or message.get("reasoning_content")
            yield None if kept else Broken("OAC-MM-01", {"i": i})
