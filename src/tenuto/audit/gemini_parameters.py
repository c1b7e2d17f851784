"""Parameters of Gemini's dialect, by model and host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenuto.audit.gemini_parts import contents, field, listed, spelt
from tenuto.audit.gemini_schemas import declared
from tenuto.audit.looking import Broken, Checks, Sent
from tenuto.core.rules import rule

__all__ = ["CHECKS"]

CHECKS = Checks()

_HOTTEST = 2.0001
_LONGEST_TOKEN = 6
"""Characters that a token of a long text has on average, at the very most: it counts too little rather than too much."""
_ELSEWHERE = re.compile(r"(?:gemini-omni-|deep-research-|lyria-|gemini-.*(?:-live\b|native-audio)).*")
"""Models that have an API of their own."""
_OWN_TOOLS = (
    *("googleSearch", "googleSearchRetrieval", "googleMaps", "urlContext", "codeExecution", "fileSearch"),
    *("retrieval", "enterpriseWebSearch"),
)


def _config(sent: Sent) -> tuple[Any, str]:
    return field(sent.body, "generationConfig"), f"/{spelt(sent.body, 'generationConfig')}"


def _thinking(sent: Sent) -> tuple[Any, str]:
    config, at = _config(sent)
    return field(config, "thinkingConfig"), f"{at}/{spelt(config, 'thinkingConfig')}"


def _number(value: object) -> float | None:
    """Return a number, also one that is written as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _level(sent: Sent) -> str:
    found = field(_thinking(sent)[0], "thinkingLevel")
    return found.upper() if isinstance(found, str) and not found.upper().endswith("UNSPECIFIED") else ""


@CHECKS.holds("GEM-PARAM-01")
def _temperature_in_range(sent: Sent) -> Iterator[Broken]:
    config, at = _config(sent)
    heat = _number(field(config, "temperature"))
    if heat is not None and not 0 <= heat < _HOTTEST:
        yield Broken("GEM-PARAM-01", {"v": f"{heat:g}"}, at=f"{at}/temperature")


@CHECKS.holds("GEM-PARAM-02")
def _no_level(sent: Sent) -> Iterator[Broken]:
    if _level(sent):
        thinking, at = _thinking(sent)
        yield Broken("GEM-PARAM-02", at=f"{at}/{spelt(thinking, 'thinkingLevel')}")


@CHECKS.holds("GEM-PARAM-03")
def _level_or_budget(sent: Sent) -> Iterator[Broken]:
    thinking, at = _thinking(sent)
    if "level" in sent.target.traits.thinking and _level(sent) and field(thinking, "thinkingBudget") is not None:
        yield Broken("GEM-PARAM-03", at=at)


@CHECKS.holds("GEM-PARAM-04")
def _budget_in_range(sent: Sent) -> Iterator[Broken]:
    thinking, at = _thinking(sent)
    traits = sent.target.traits
    budget = _number(field(thinking, "thinkingBudget"))
    if budget is None or traits.budget is None or budget == -1:
        return
    low, high = traits.budget
    off = budget == 0 and "always" not in traits.thinking
    if not off and not low <= budget <= high:
        variant = 2 if budget else int(sent.target.provider.gemini.vertex)
        fields = {"v": f"{budget:g}", "low": low, "high": high}
        yield Broken("GEM-PARAM-04", fields, variant=variant, at=f"{at}/{spelt(thinking, 'thinkingBudget')}")


@CHECKS.holds("GEM-PARAM-05")
def _no_minimal(sent: Sent) -> Iterator[Broken]:
    traits = sent.target.traits
    if _level(sent) == "MINIMAL" and "level" in traits.thinking and "minimal" not in (traits.efforts or ()):
        thinking, at = _thinking(sent)
        yield Broken("GEM-PARAM-05", at=f"{at}/{spelt(thinking, 'thinkingLevel')}")


@CHECKS.holds("GEM-PARAM-06")
def _functions_for_their_choice(sent: Sent) -> Iterator[Broken]:
    calling = field(field(sent.body, "toolConfig"), "functionCallingConfig")
    mode = field(calling, "mode")
    forced = isinstance(mode, str) and mode.upper() == "ANY"
    if (forced or field(calling, "allowedFunctionNames")) and next(declared(sent), None) is None:
        yield Broken("GEM-PARAM-06", at=f"/{spelt(sent.body, 'toolConfig')}")


@CHECKS.holds("GEM-PARAM-07")
def _functions_or_own_tools(sent: Sent) -> Iterator[Broken]:
    tools = listed(sent.body.get("tools"), "")
    own = any(field(tool, name) is not None for _, _, tool in tools for name in _OWN_TOOLS)
    if not own or next(declared(sent), None) is None:
        return
    told = field(field(sent.body, "toolConfig"), "includeServerSideToolInvocations") is True
    before_three = sent.concerns(rule("GEM-MEDIA-03"))
    if not told or before_three or sent.target.provider.gemini.vertex:
        yield Broken("GEM-PARAM-07")


@CHECKS.holds("GEM-PARAM-08")
def _no_json_beside_functions(sent: Sent) -> Iterator[Broken]:
    config, at = _config(sent)
    if field(config, "responseMimeType") == "application/json" and next(declared(sent), None) is not None:
        yield Broken("GEM-PARAM-08", at=f"{at}/{spelt(config, 'responseMimeType')}")


@CHECKS.holds("GEM-PARAM-10")
def _within_the_window(sent: Sent) -> Iterator[Broken]:
    window = sent.target.traits.context_window
    if window is None or not sent.may_have(window * _LONGEST_TOKEN):
        return
    told = field(sent.body, "systemInstruction")
    parts = [fields for _, _, fields in listed(field(told, "parts"), "")]
    parts += [part.fields for content in contents(sent) for part in content.parts]
    letters = sum(len(part["text"]) for part in parts if isinstance(part.get("text"), str))
    if letters // _LONGEST_TOKEN > window:
        yield Broken("GEM-PARAM-10", {"n": letters // _LONGEST_TOKEN, "max": window})


@CHECKS.holds("GEM-PARAM-11")
def _a_model_that_is_served(sent: Sent) -> Iterator[Broken]:
    model = sent.model.rpartition("models/")[2]
    if model and "/" not in model and (not sent.target.traits.known or _ELSEWHERE.fullmatch(model)):
        variant = int(sent.target.provider.gemini.vertex)
        yield Broken("GEM-PARAM-11", {"model": model, "method": "generateContent"}, variant)
