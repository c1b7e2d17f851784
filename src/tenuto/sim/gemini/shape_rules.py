"""Rules for keys, models, parameters, tools and schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenuto.sim.gemini.opening import Opened
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS"]

CHECKS = Checks()
_Found = Iterator[Broken | None]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_HOTTEST = 2.0001
_BESIDE_FUNCTIONS = ("computerUse", "mcpServers")
"""Tools that are no hindrance to functions: the caller runs the first; of the other nobody has told."""
_COUNTED = "tools[{t}].function_declarations[{k}]"


def _strays(opened: Opened, rule: str, *, looked: bool = True) -> _Found:
    found = [stray for stray in opened.strays if stray.rule == rule]
    for stray in found:
        yield Broken(
            rule,
            {"key": stray.key, "kw": stray.key, "path": stray.path},
            variant=0 if stray.path else 1,
            at=stray.at,
            param=stray.path,
        )
    if looked and not found:
        yield None


# --- keys and models --------------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-PART-04")
def _known_keys(opened: Opened) -> _Found:
    yield from _strays(opened, "GEM-PART-04")


@CHECKS.holds("GEM-PARAM-09")
def _keys_of_the_other_host(opened: Opened) -> _Found:
    yield from _strays(opened, "GEM-PARAM-09", looked=not opened.vertex)


@CHECKS.holds("GEM-SIG-04")
def _signature_beside_the_call(opened: Opened) -> _Found:
    calls = any("functionCall" in part for content in opened.contents for part in content.get("parts") or [])
    yield from _strays(opened, "GEM-SIG-04", looked=calls)


@CHECKS.holds("GEM-PARAM-11")
def _model_exists(opened: Opened) -> _Found:
    request = opened.request
    if not request.model:
        return
    if opened.facts.here and re.fullmatch(request.style.models, request.model):
        yield None
    else:
        fields = {"model": request.model, "method": request.verb or "generateContent"}
        yield Broken("GEM-PARAM-11", fields, variant=int(opened.vertex))


# --- parameters -------------------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-PARAM-01")
def _temperature(opened: Opened) -> _Found:
    value = opened.config.get("temperature")
    if value is not None:
        yield None if 0 <= value < _HOTTEST else Broken("GEM-PARAM-01", {"v": f"{value:g}"})


@CHECKS.holds("GEM-PARAM-02")
def _level_of_old_models(opened: Opened) -> _Found:
    if "thinkingLevel" in opened.thinking:
        yield None if opened.facts.level else Broken("GEM-PARAM-02")


@CHECKS.holds("GEM-PARAM-03")
def _level_or_budget(opened: Opened) -> _Found:
    if "thinkingLevel" in opened.thinking:
        yield Broken("GEM-PARAM-03") if "thinkingBudget" in opened.thinking else None


@CHECKS.holds("GEM-PARAM-04")
def _least_budget(opened: Opened) -> _Found:
    value, allowed = opened.thinking.get("thinkingBudget"), opened.facts.budget
    if value is None or allowed is None:
        return
    low, high = allowed
    if value == -1 or low <= value <= high or (value == 0 and opened.facts.off):
        yield None
    elif value == 0:
        yield Broken("GEM-PARAM-04", variant=int(opened.vertex))
    else:
        yield Broken("GEM-PARAM-04", {"v": value, "low": low, "high": high}, variant=2)


@CHECKS.holds("GEM-PARAM-05")
def _least_level(opened: Opened) -> _Found:
    level = opened.thinking.get("thinkingLevel")
    if level is not None and opened.facts.level:
        minimal = str(level).upper() == "MINIMAL"
        yield Broken("GEM-PARAM-05") if minimal and not opened.facts.minimal else None


@CHECKS.holds("GEM-PARAM-06")
def _functions_to_choose_from(opened: Opened) -> _Found:
    config = (opened.body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is not None:
        forced = str(config.get("mode", "")).upper() == "ANY" or config.get("allowedFunctionNames")
        yield Broken("GEM-PARAM-06") if forced and not any(opened.declared()) else None


@CHECKS.holds("GEM-PARAM-07")
def _functions_beside_other_tools(opened: Opened) -> _Found:
    if all(name in _BESIDE_FUNCTIONS for name in opened.built_in()) or not any(opened.declared()):
        return
    flag = (opened.body.get("toolConfig") or {}).get("includeServerSideToolInvocations")
    yield None if flag and opened.facts.generation >= 3 else Broken("GEM-PARAM-07")


@CHECKS.holds("GEM-PARAM-08")
def _functions_beside_json(opened: Opened) -> _Found:
    if opened.config.get("responseMimeType") == "application/json" and any(opened.declared()):
        yield Broken("GEM-PARAM-08") if opened.facts.generation < 3 else None


# --- tools and schemas ------------------------------------------------------------------------------------------------


@CHECKS.holds("GEM-SCHEMA-01")
def _keywords(opened: Opened) -> _Found:
    yield from _strays(opened, "GEM-SCHEMA-01", looked=any(_schemas(opened)))


@CHECKS.holds("GEM-SCHEMA-02")
def _types(opened: Opened) -> _Found:
    yield from _strays(opened, "GEM-SCHEMA-02", looked=False)
    for path, at, schema in _schemas(opened):
        for below, lower, inner in _deep(schema, path, at):
            array = str(inner.get("type", "")).upper() in ("ARRAY", "5")
            lacking = array and "items" not in inner
            yield Broken("GEM-SCHEMA-02", {"path": below}, variant=1, at=lower) if lacking else None


@CHECKS.holds("GEM-SCHEMA-03")
def _names(opened: Opened) -> _Found:
    for t, k, function in opened.declared():
        kept = _NAME.fullmatch(function.get("name", ""))
        place = f"/tools/{t}/functionDeclarations/{k}/name"
        param = f"{_COUNTED.format(t=t, k=k)}.name"
        yield None if kept else Broken("GEM-SCHEMA-03", {"k": k}, at=place, param=param)


@CHECKS.holds("GEM-SCHEMA-04")
def _one_schema(opened: Opened) -> _Found:
    for t, k, function in opened.declared():
        if "parameters" in function or "parametersJsonSchema" in function:
            both = "parameters" in function and "parametersJsonSchema" in function
            place = f"/tools/{t}/functionDeclarations/{k}"
            yield Broken("GEM-SCHEMA-04", {"k": k, "one": "parameters"}, at=place) if both else None
    if "responseSchema" in opened.config or "responseJsonSchema" in opened.config:
        both = "responseSchema" in opened.config and "responseJsonSchema" in opened.config
        yield Broken("GEM-SCHEMA-04", {"one": "response_schema"}, at="/generationConfig") if both else None


def _schemas(opened: Opened) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each schema of Google's own kind: its path in their words, its place in the request, itself."""
    for t, k, function in opened.declared():
        for name in ("parameters", "response"):
            if name in function:
                path = f"{_COUNTED.format(t=t, k=k)}.{name}"
                yield path, f"/tools/{t}/functionDeclarations/{k}/{name}", function[name]
    if "responseSchema" in opened.config:
        yield "generation_config.response_schema", "/generationConfig/responseSchema", opened.config["responseSchema"]


def _deep(schema: dict[str, Any], path: str, at: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield path, at, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from _deep(inner, f"{path}.properties[{name}]", f"{at}/properties/{name}")
    for n, inner in enumerate(schema.get("anyOf") or []):
        yield from _deep(inner, f"{path}.any_of[{n}]", f"{at}/anyOf/{n}")
    if "items" in schema:
        yield from _deep(schema["items"], f"{path}.items", f"{at}/items")
