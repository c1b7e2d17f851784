"""Rules of the request as a whole: its size, its keys, the model, and the settings that a model takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from tenuto.core import jsonio
from tenuto.sim.anthropic.keys import BETA_KEYS, BLOCK_KEYS, OPEN_TYPES, RESULT_TYPES, TOP_KEYS
from tenuto.sim.anthropic.opened import Opened
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS", "Found"]

CHECKS = Checks()
Found: TypeAlias = Iterable[Broken | None]
_MAX_BYTES = 32 * 1024 * 1024
_SAMPLING = ("temperature", "top_p", "top_k")
_UNSEEN = "{} is not supported for this model."


@CHECKS.holds("ANT-MSG-12")
def body_fits(opened: Opened) -> Found:
    """A body is 32 MB at most."""
    headers = {name.lower(): value for name, value in opened.request.headers.items()}
    told = headers.get("content-length", "")
    size = int(told) if told.isdecimal() else len(jsonio.encode(opened.body))
    yield Broken("ANT-MSG-12", at="/") if size > _MAX_BYTES else None


@CHECKS.holds("ANT-PARAM-13")
def keys_are_known(opened: Opened) -> Found:
    """Every key is one that exists, and its beta is asked for."""
    for path in _paths(opened):
        needs = BETA_KEYS.get(path)
        if needs is None:
            known = path in TOP_KEYS or path.count(".") == 1
        else:
            known = opened.has_beta(*needs)
        yield None if known else Broken("ANT-PARAM-13", {"path": path, "key": path.replace(".", "/")})


def _paths(opened: Opened) -> Iterator[str]:
    for key, value in opened.body.items():
        yield key
        if key in ("thinking", "output_config") and isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in value)
    if (opened.body.get("thinking") or {}).get("display") == "updates":
        yield "thinking.display.updates"


@CHECKS.holds("ANT-PARAM-12")
def length_is_given(opened: Opened) -> Found:
    """A reply has a length, even 0; a count of tokens needs none."""
    if opened.request.verb != "count_tokens":
        yield Broken("ANT-PARAM-12") if opened.body.get("max_tokens") is None else None


@CHECKS.holds("ANT-MSG-11")
def blocks_are_known(opened: Opened) -> Found:
    """Blocks have a type and keys that exist."""
    for raw, at, place in _all_blocks(opened):
        type = raw["type"]
        known = BLOCK_KEYS.get(type)
        if type not in OPEN_TYPES and (known is None or (place and type not in RESULT_TYPES)):
            yield Broken("ANT-MSG-11", {**at, "type": type}, at=place)
            continue
        strange = [key for key in raw if known and key not in known]
        fields = {**at, "type": type, "key": strange[0] if strange else ""}
        yield Broken("ANT-MSG-11", fields, variant=1, at=place) if strange else None


def _all_blocks(opened: Opened) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Yield every block with the names in the rule's text, and its place if it stands in a result."""
    for block in opened.blocks():
        yield block.raw, block.at, ""
        inner = block.raw.get("content") if block.type == "tool_result" else None
        for at, found in enumerate(inner if isinstance(inner, list) else []):
            yield found, {"i": block.i, "j": f"{block.j}.tool_result.content.{at}"}, f"{block.place}/content/{at}"


@CHECKS.holds("ANT-PARAM-15")
def model_exists(opened: Opened) -> Found:
    """The model is one of the provider's."""
    request = opened.request
    if request.model:
        known = re.fullmatch(request.style.models, request.model)
        yield None if known else Broken("ANT-PARAM-15", {"model": request.model})


@CHECKS.holds("ANT-PARAM-01")
def sampling_is_gone(opened: Opened) -> Found:
    """Newer models take no sampling parameters."""
    for variant, name in enumerate(_SAMPLING):
        if opened.body.get(name) is not None:
            refused = opened.model.sampling == "none"
            yield Broken("ANT-PARAM-01", {"param": name}, variant=variant) if refused else None


@CHECKS.holds("ANT-PARAM-02")
def temperature_or_top_p(opened: Opened) -> Found:
    """Some models take temperature or top_p, not both."""
    given = [opened.body.get(name) is not None for name in ("temperature", "top_p")]
    if any(given) and opened.model.sampling == "one":
        yield Broken("ANT-PARAM-02") if all(given) else None


@CHECKS.holds("ANT-PARAM-04")
def budgets_are_gone(opened: Opened) -> Found:
    """Newer models take no thinking budget."""
    if opened.mode == "enabled":
        yield None if "enabled" in opened.model.modes else Broken("ANT-PARAM-04")


@CHECKS.holds("ANT-PARAM-05")
def thinking_may_be_always_on(opened: Opened) -> Found:
    """Some models always think."""
    if opened.mode == "disabled":
        yield None if "disabled" in opened.model.modes else Broken("ANT-PARAM-05")


@CHECKS.holds("ANT-PARAM-06")
def effort_needs_thinking(opened: Opened) -> Found:
    """With thinking turned off, some models take no effort above high."""
    if opened.mode in ("disabled", "between_tools") and opened.model.calm:
        told = _UNSEEN.format(f'"thinking.type.{opened.mode}" with this effort')
        yield Broken("ANT-PARAM-06", says=told) if _effort(opened) in ("xhigh", "max") else None


@CHECKS.holds("ANT-PARAM-07")
def modes_are_offered(opened: Opened) -> Found:
    """Adaptive thinking came with 4.6, and thinking between tools is one model's."""
    if opened.mode in ("adaptive", "between_tools"):
        yield None if opened.mode in opened.model.modes else Broken("ANT-PARAM-07", {"mode": opened.mode})


@CHECKS.holds("ANT-PARAM-08")
def budget_is_large_enough(opened: Opened) -> Found:
    """A budget is 1024 tokens at least."""
    if opened.mode == "enabled":
        yield Broken("ANT-PARAM-08") if opened.body["thinking"]["budget_tokens"] < 1024 else None


@CHECKS.holds("ANT-PARAM-09")
def budget_leaves_room(opened: Opened) -> Found:
    """A budget is smaller than the reply, unless thinking is interleaved."""
    limit = opened.body.get("max_tokens")
    if opened.mode == "enabled" and limit is not None and not opened.has_beta("interleaved-thinking-"):
        yield Broken("ANT-PARAM-09") if limit <= opened.body["thinking"]["budget_tokens"] else None


@CHECKS.holds("ANT-PARAM-03")
def thinking_fixes_temperature(opened: Opened) -> Found:
    """With a budget, temperature is 1."""
    temperature = opened.body.get("temperature")
    if opened.mode == "enabled" and temperature is not None:
        yield None if temperature == 1 else Broken("ANT-PARAM-03")


@CHECKS.holds("ANT-PARAM-10")
def budgets_force_nothing(opened: Opened) -> Found:
    """With a budget, no call can be forced."""
    if opened.mode == "enabled" and opened.choice:
        yield Broken("ANT-PARAM-10") if opened.choice in ("any", "tool") else None


@CHECKS.holds("ANT-PARAM-11")
def calls_may_not_be_forced(opened: Opened) -> Found:
    """Some models cannot be forced to call a tool."""
    if opened.choice:
        forced = opened.choice in ("any", "tool") and not opened.model.forces
        yield Broken("ANT-PARAM-11") if forced else None


@CHECKS.holds("ANT-PARAM-14")
def effort_is_offered(opened: Opened) -> Found:
    """A model has the effort that is asked for."""
    effort = _effort(opened)
    if effort is not None:
        told = _UNSEEN.format(f"output_config.effort: '{effort}'")
        yield None if effort in opened.model.efforts else Broken("ANT-PARAM-14", says=told)


@CHECKS.holds("ANT-PARAM-17")
def speed_is_offered(opened: Opened) -> Found:
    """A model has the speed that is asked for."""
    if opened.body.get("speed") == "fast":
        yield None if opened.model.fast else Broken("ANT-PARAM-17", says=_UNSEEN.format("speed: 'fast'"))


@CHECKS.holds("ANT-SRV-07")
def threads_stand_alone(opened: Opened) -> Found:
    """A thread goes with neither cache marks nor edits of the context nor fallbacks."""
    if opened.body.get("thread") is None:
        return
    beside = [
        name for name in ("cache_control", "context_management", "fallbacks") if opened.body.get(name) is not None
    ]
    if not beside and any(opened.marks()):
        beside = ["cache_control"]
    told = f"thread: cannot be used together with {beside[0]}" if beside else ""
    code = "thread_unsupported_request"
    fields = {"code": code, "extra": {"details": {"error_code": code, "unsupported": beside}}}
    yield Broken("ANT-SRV-07", fields, says=told) if beside else None


@CHECKS.holds("ANT-CACHE-01")
def four_marks_at_most(opened: Opened) -> Found:
    """A request has four cache marks at most, the automatic one included."""
    count = len(list(opened.marks()))
    if count:
        yield Broken("ANT-CACHE-01", {"n": count}) if count > 4 else None


@CHECKS.holds("ANT-CACHE-02")
def long_marks_come_first(opened: Opened) -> Found:
    """A mark of an hour does not follow one of five minutes."""
    short = False
    for path, mark in opened.marks():
        long = mark.get("ttl") == "1h"
        if long and short:
            pointer = "/" + path.replace(".", "/") + "/ttl"
            text = Broken("ANT-CACHE-02").row.says[0]
            where = "messages.{i}.content.{j}.cache_control"
            yield Broken("ANT-CACHE-02", says=text.replace(where, path), at=pointer)
        else:
            yield None
        short = short or not long


def _effort(opened: Opened) -> Any:
    return (opened.body.get("output_config") or {}).get("effort")
