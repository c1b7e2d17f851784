"""Settings that a model refuses: sampling, thinking, effort, forced calls, keys that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.audit.anthropic_body import betas, forced, mode, natively, number, setting, text_of
from tenuto.audit.looking import Broken, Checks, Sent

__all__ = ["CHECKS"]

CHECKS = Checks()

_SAMPLING = ("temperature", "top_p", "top_k")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_KEYS = frozenset(
    (
        *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config", "stream"),
        *("cache_control", "metadata", "stop_sequences", "service_tier", "speed", "inference_geo", "container"),
        *("diagnostics", "temperature", "top_p", "top_k", "anthropic_version", "anthropic_beta"),
    )
)
_BETA_KEYS = {
    "compaction": ("compact-",),
    "context_management": ("context-management-", "compact-"),
    "mcp_servers": ("mcp-client-",),
    "fallbacks": ("server-side-fallback-",),
    "fallback_credit_token": ("server-side-fallback-",),
    "thread": ("message-threads-",),
}
"""Keys that exist for those who name a beta: how its name begins."""


@CHECKS.holds("ANT-PARAM-01")
@natively
def sampling(sent: Sent) -> Iterator[Broken]:
    """No sampling where the model takes none."""
    if sent.target.traits.sampling == "rejected":
        for variant, name in enumerate(_SAMPLING):
            if sent.body.get(name) is not None:
                yield Broken("ANT-PARAM-01", {"param": name}, variant)


@CHECKS.holds("ANT-PARAM-02")
@natively
def one_of_two(sent: Sent) -> Iterator[Broken]:
    """Temperature or top_p, not both, where they exclude each other."""
    names = sent.target.traits.exclusive
    if {"temperature", "top_p"} <= set(names) and all(sent.body.get(name) is not None for name in names):
        yield Broken("ANT-PARAM-02")


@CHECKS.holds("ANT-PARAM-03")
@natively
def warm_thoughts(sent: Sent) -> Iterator[Broken]:
    """A model that thinks with a budget has temperature 1."""
    if _budgeted(sent) and sent.body.get("temperature") not in (None, 1):
        yield Broken("ANT-PARAM-03")


@CHECKS.holds("ANT-PARAM-04")
@natively
def no_budget(sent: Sent) -> Iterator[Broken]:
    """No budget where a model thinks as it sees fit."""
    modes = sent.target.traits.thinking
    if mode(sent) == "enabled" and "budget" not in modes and _adapts(modes):
        yield Broken("ANT-PARAM-04")


@CHECKS.holds("ANT-PARAM-05")
@natively
def never_off(sent: Sent) -> Iterator[Broken]:
    """Thinking cannot be switched off where it is always on."""
    modes = sent.target.traits.thinking
    if mode(sent) == "disabled" and "disabled" not in modes and _adapts(modes):
        yield Broken("ANT-PARAM-05")


@CHECKS.holds("ANT-PARAM-06")
@natively
def no_effort_without_thought(sent: Sent) -> Iterator[Broken]:
    """Thinking is off, and the effort is higher than that allows."""
    traits, effort = sent.target.traits, _effort(sent)
    if mode(sent) not in ("disabled", "between_tools") or mode(sent) not in traits.thinking:
        return
    if {effort, traits.effort_when_off} <= set(_EFFORTS) and _EFFORTS.index(effort) > _EFFORTS.index(
        traits.effort_when_off
    ):
        yield Broken("ANT-PARAM-06")


@CHECKS.holds("ANT-PARAM-07")
@natively
def ways_of_thinking(sent: Sent) -> Iterator[Broken]:
    """A way of thinking that the model does not have."""
    modes, asked = sent.target.traits.thinking, mode(sent)
    missing = {
        "adaptive": not _adapts(modes),
        "between_tools": "between_tools" not in modes,
        "enabled": "none" in modes,
    }
    if modes and missing.get(asked, False):
        yield Broken("ANT-PARAM-07", {"mode": asked})


@CHECKS.holds("ANT-PARAM-08")
@natively
def least_budget(sent: Sent) -> Iterator[Broken]:
    """A budget has at least 1024 tokens."""
    budget = number(setting(sent, "thinking").get("budget_tokens"))
    if mode(sent) == "enabled" and budget is not None and budget < 1024:
        yield Broken("ANT-PARAM-08")


@CHECKS.holds("ANT-PARAM-09")
@natively
def room_for_the_reply(sent: Sent) -> Iterator[Broken]:
    """The reply is longer than its budget, unless the budget is for all turns between calls."""
    budget, most = number(setting(sent, "thinking").get("budget_tokens")), number(sent.body.get("max_tokens"))
    if not _budgeted(sent) or budget is None or most is None or "interleaved-thinking-" in betas(sent):
        return
    if most <= budget:
        yield Broken("ANT-PARAM-09")


@CHECKS.holds("ANT-PARAM-10")
@natively
def free_thoughts(sent: Sent) -> Iterator[Broken]:
    """With a budget, no call is forced."""
    if _budgeted(sent) and forced(sent):
        yield Broken("ANT-PARAM-10")


@CHECKS.holds("ANT-PARAM-11")
@natively
def free_calls(sent: Sent) -> Iterator[Broken]:
    """No call is forced where the model does not take that."""
    if sent.target.traits.forced_tool_choice == "rejected" and forced(sent):
        yield Broken("ANT-PARAM-11")


@CHECKS.holds("ANT-PARAM-12")
def length(sent: Sent) -> Iterator[Broken]:
    """The length of the reply is always said."""
    if sent.body.get("max_tokens") is None:
        yield Broken("ANT-PARAM-12")


@CHECKS.holds("ANT-PARAM-13")
@natively
def keys(sent: Sent) -> Iterator[Broken]:
    """Keys exist, and those of a beta have its name with them. Without any header nobody knows which are named."""
    for key in sent.body:
        if key in _BETA_KEYS:
            if _unnamed(sent, *_BETA_KEYS[key]):
                yield Broken("ANT-PARAM-13", {"path": key, "key": key})
        elif key not in _KEYS:
            yield Broken("ANT-PARAM-13", {"path": key, "key": key})
    thinking = setting(sent, "thinking")
    if thinking.get("block_binding") is not None and _unnamed(sent, "thinking-binding-controls-"):
        yield Broken("ANT-PARAM-13", {"path": "thinking.block_binding", "key": "thinking/block_binding"})
    if thinking.get("display") == "updates" and _unnamed(sent, "thinking-display-updates-"):
        yield Broken("ANT-PARAM-13", {"path": "thinking.display.updates", "key": "thinking/display/updates"})


@CHECKS.holds("ANT-PARAM-14")
@natively
def efforts(sent: Sent) -> Iterator[Broken]:
    """The effort is one that the model has."""
    known, effort = sent.target.traits.efforts, _effort(sent)
    if known is not None and effort and effort not in known:
        yield Broken("ANT-PARAM-14")


@CHECKS.holds("ANT-PARAM-15")
def model(sent: Sent) -> Iterator[Broken]:
    """The model is one that somebody has heard of. Whether it was retired, the day tells, and none is known here."""
    if sent.model and not sent.target.traits.known:
        yield Broken("ANT-PARAM-15", {"model": sent.model})


@CHECKS.holds("ANT-PARAM-17")
def speed(sent: Sent) -> Iterator[Broken]:
    """The fast speed, where there is none."""
    if sent.body.get("speed") == "fast":
        yield Broken("ANT-PARAM-17")


def _budgeted(sent: Sent) -> bool:
    """Tell whether thinking has a budget, on a model that takes one as far as anyone knows."""
    modes = sent.target.traits.thinking
    return mode(sent) == "enabled" and (not modes or "budget" in modes)


def _adapts(modes: tuple[str, ...]) -> bool:
    return "adaptive" in modes or "always" in modes


def _effort(sent: Sent) -> str:
    return text_of(setting(sent, "output_config"), "effort")


def _unnamed(sent: Sent, *stems: str) -> bool:
    named = betas(sent)
    return bool(sent.headers) and not any(stem in named for stem in stems)
