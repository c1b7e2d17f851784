"""What is refused at this endpoint, and in which order it is looked at: parameters first, the length of it all last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tenuto.sim.judging import Broken, Checks
from tenuto.sim.responses import item_rules, reasoning_rules, tool_rules
from tenuto.sim.responses.models import exists
from tenuto.sim.responses.opening import Opened, effort_of, kind_of, read, says

__all__ = ["CHECKS", "UNCHECKED"]

Found: TypeAlias = Iterator[Broken | None]
_FIRST, _LAST = Checks(), Checks()
_KEYS = frozenset(
    {
        "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens",
        "max_tool_calls", "reasoning", "text", "include", "store", "previous_response_id", "conversation",
        "background", "stream", "stream_options", "truncation", "temperature", "top_p", "top_logprobs", "metadata",
        "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
        "prompt", "context_management", "moderation", "access_programs", "image", "user",
    }
)  # fmt: skip
UNCHECKED = {"OAR-PARAM-07": "whether an organisation has zero data retention is nothing a request shows"}


@_FIRST.holds("OAR-PARAM-08")
def _model_exists(opened: Opened) -> Found:
    if opened.strict and opened.request.model:
        known = exists(opened.request)
        yield None if known else Broken("OAR-PARAM-08", {"model": opened.request.model})


@_FIRST.holds("OAR-PARAM-10")
def _keys_are_known(opened: Opened) -> Found:
    for key in opened.body if opened.strict else ():
        yield None if key in _KEYS else Broken("OAR-PARAM-10", {"p": key})


@_FIRST.holds("OAR-PARAM-03")
def _numbers_are_not_negative(opened: Opened) -> Found:
    for key in ("temperature", "top_p") if opened.strict else ():
        value = opened.body.get(key)
        if isinstance(value, int | float):
            yield None if value >= 0 else Broken("OAR-PARAM-03", {"p": key, "v": f"{value:g}"}, key != "temperature")


@_FIRST.holds("OAR-PARAM-02")
def _effort_is_offered(opened: Opened) -> Found:
    asked = (opened.body.get("reasoning") or {}).get("effort")
    if not opened.model.efforts or asked is None:
        return
    *most, last = [f"'{effort}'" for effort in opened.model.efforts]
    allowed = f"{', '.join(most)}, and {last}" if most else last
    fields = {"v": asked, "model": opened.request.model, "allowed": allowed}
    yield None if asked in opened.model.efforts else Broken("OAR-PARAM-02", fields)


@_FIRST.holds("OAR-PARAM-01")
def _sampling_is_taken(opened: Opened) -> Found:
    sampling = opened.model.sampling
    taken = sampling == "always" or (sampling == "none" and effort_of(opened) == "none")
    for key in ("temperature", "top_p", "top_logprobs"):
        if opened.body.get(key) is not None and sampling != "always":
            yield None if taken else Broken("OAR-PARAM-01", {"p": key}, key != "temperature")
    if sampling != "always" and "message.output_text.logprobs" in (opened.body.get("include") or []):
        yield None if taken else Broken("OAR-PARAM-01", {"p": "logprobs"}, 1, at="/include")


@_FIRST.holds("OAR-REAS-12")
def _only_reasoning_models_reason(opened: Opened) -> Found:
    if not opened.strict:
        return
    if "reasoning.encrypted_content" in (opened.body.get("include") or []):
        yield None if opened.model.reasons else Broken("OAR-REAS-12", {"p": "include"})
    for key in ("effort", "summary"):
        if (opened.body.get("reasoning") or {}).get(key) is not None:
            fields = {"p": f"reasoning.{key}", "code": "unsupported_parameter"}
            yield None if opened.model.reasons else Broken("OAR-REAS-12", fields, 1, at=f"/reasoning/{key}")


@_FIRST.holds("OAR-PARAM-04")
def _json_is_spoken_of(opened: Opened) -> Found:
    format = (opened.body.get("text") or {}).get("format")
    if opened.strict and isinstance(format, dict) and format.get("type") == "json_object":
        texts = [says(item.get("content")) for item in opened.everything if kind_of(item) == "message"]
        yield None if any("json" in text.lower() for text in texts) else Broken("OAR-PARAM-04")


@_FIRST.holds("OAR-PARAM-05")
def _one_thing_to_go_on_from(opened: Opened) -> Found:
    named = [opened.body.get(key) is not None for key in ("previous_response_id", "conversation")]
    if opened.strict and any(named):
        yield Broken("OAR-PARAM-05") if all(named) else None


@_FIRST.holds("OAR-PARAM-06")
def _previous_response_is_stored(opened: Opened) -> Found:
    id = opened.body.get("previous_response_id")
    if id is not None and opened.stores:
        made = opened.found is not None and opened.found.reply.get("id") == id
        yield None if made else Broken("OAR-PARAM-06", {"id": id})


@_FIRST.holds("OAR-PARAM-11")
def _instructions_are_said_again(opened: Opened) -> Found:
    if opened.strict and opened.found and opened.found.request.get("instructions"):
        yield None if opened.body.get("instructions") else Broken("OAR-PARAM-11")


@_LAST.holds("OAR-PARAM-09")
def _input_fits(opened: Opened) -> Found:
    if not opened.strict:
        return
    window = opened.model.window or opened.request.style.window
    fits = opened.body.get("truncation") == "auto" or read(opened).prompt_tokens <= window
    yield None if fits else Broken("OAR-PARAM-09")


CHECKS = Checks(
    {
        **_FIRST,
        **tool_rules.OFFERED,
        **item_rules.SHAPES,
        **item_rules.IDS,
        **tool_rules.PAIRS,
        **reasoning_rules.ORDER,
        **reasoning_rules.TOKENS,
        **_LAST,
    }
)
