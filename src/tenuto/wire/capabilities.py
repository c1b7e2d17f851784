"""Fit a request to the traits of its model.

Parameters that the model would reject are omitted or mapped to the nearest accepted value, each with a `Loss`. The
request for an unknown model does not change. Data decides (`ModelTraits`), never a model's name.
"""

from typing import Any, get_args

import msgspec

from tenuto.core import jsonio
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import SystemMessage
from tenuto.core.provider import ModelTraits, Target
from tenuto.core.request import ChatRequest, Effort, JsonSchema
from tenuto.wire.body_builder import set_parameters
from tenuto.wire.codec import codec_for

_LOGITS = ("logit_bias", "logprobs", "top_logprobs")
_SAMPLING = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", *_LOGITS)
_PARAMETERS = ("tool_choice", "parallel_tool_calls", "response_format", "effort", "thinking", *_SAMPLING)
"""Parameters that most steps read. If none of them and no tools are set, most steps have nothing to do."""
_RANKS: tuple[Effort, ...] = get_args(Effort)
_TRANSLATED = ("budget", "toggle", "level", "disabled")
"""Modes in which the encoder can express an effort that the model has no word for."""


def apply_traits(request: ChatRequest, target: Target) -> tuple[ChatRequest, tuple[Loss, ...]]:
    """Return the request as the target's model, whose traits are known, accepts it, and the changes."""
    fitter = _RequestFitter(request, target)
    if request.tools or any(set_parameters(request, _PARAMETERS)):
        fitter.fit_tools()
        fitter.fit_effort()
        fitter.fit_thinking()
        fitter.fit_sampling()
    fitter.drop_refused()
    fitter.fit_tool_choice()
    fitter.clamp_max_tokens()
    fitter.fit_response_format()
    return fitter.request, tuple(fitter.losses)


def is_thinking_enabled(request: ChatRequest, traits: ModelTraits) -> bool:
    """Return whether the model will reason before it answers this request."""
    mode = request.thinking.mode if request.thinking is not None else None
    if traits.thinking_default == "always":
        return True
    if mode == "off" or (mode is None and request.effort == "none"):
        return False
    if mode is not None or request.effort is not None or request.thinking is not None:
        return traits.thinking != ("none",)
    if traits.effort_default:
        return traits.effort_default != "none" and traits.thinking_default != "no"
    return traits.thinking_default == "yes"


class _RequestFitter:
    """Change a request step by step; each change is a `Loss`."""

    def __init__(self, request: ChatRequest, target: Target) -> None:
        self.request = request
        self.losses: list[Loss] = []
        self._traits = target.traits
        self._target = target
        self._codec = codec_for(target.dialect)

    def _change(self, kind: str, parameter: str, detail: str, remedy: str = "", **changes: Any) -> None:
        self.losses.append(Loss(kind, Location(path=parameter), detail, remedy))
        self.request = msgspec.structs.replace(self.request, **changes)

    def fit_tools(self) -> None:
        """Drop tools that the model does not accept.

        Chat Completions rejects function tools with reasoning: on some models unless it is off, on some always.
        """
        traits, request = self._traits, self.request
        if request.tools and not traits.tools:
            names = ", ".join(getattr(tool, "name", "") or getattr(tool, "kind", "") for tool in request.tools)
            self._change("no-tools", "tools", names, "choose a model that takes tools", tools=(), tool_choice=None)
        if request.parallel_tool_calls and not traits.parallel_tools:
            self._change("no-parallel-tools", "parallel_tool_calls", "one call at a time", parallel_tool_calls=None)
        if not self.request.tools or not self._codec.limits_tools_with_reasoning:
            return
        remedy = "ask in the Responses dialect"
        if traits.chat_tools == "rejected":
            self._change("no-tools", "tools", "not in the chat dialect", remedy, tools=(), tool_choice=None)
        elif traits.chat_tools != "ok" and request.effort != "none":
            detail = f"{request.effort or traits.effort_default} became none: tools are rejected with reasoning"
            self._change("effort-mapped", "effort", detail, remedy, effort="none", thinking=None)

    def fit_effort(self) -> None:
        """Map an effort that the model does not have to the nearest one."""
        traits, effort, efforts = self._traits, self.request.effort, self._traits.efforts
        if effort is None or efforts is None or effort in efforts:
            return
        is_translated = any(mode in traits.thinking for mode in _TRANSLATED)
        if effort == "none" and (traits.thinking_default == "no" or is_translated):
            return  # already off, or expressed in another way
        if not efforts and is_translated:
            return
        rank = _RANKS.index(effort)
        ranks = (_RANKS.index(word) for word in efforts if word in _RANKS)
        nearest = min(ranks, key=lambda known: (abs(known - rank), abs(known - 4)), default=None)
        new = _RANKS[nearest] if nearest is not None else None
        detail = f"{effort} became {new}" if new else f"{effort}: this model takes none"
        self._change("effort-mapped", "effort", detail, f"it takes {', '.join(efforts) or 'nothing'}", effort=new)

    def fit_thinking(self) -> None:
        """Keep a budget in its bounds, and an effort below the limit for disabled thinking."""
        traits, thinking, effort = self._traits, self.request.thinking, self.request.effort
        if thinking is None:
            return
        if thinking.budget is not None and traits.budget is not None:
            low, high = traits.budget
            budget = min(max(thinking.budget, low), high)
            if thinking.budget not in (0, budget):
                detail = f"{thinking.budget} became {budget}"
                new = msgspec.structs.replace(thinking, budget=budget)
                self._change("clamped", "thinking.budget", detail, thinking=new)
        limit = traits.effort_when_off
        is_off = thinking.mode == "off" or (thinking.mode == "between_tools" and thinking.mode in traits.thinking)
        if limit and is_off and effort in _RANKS[_RANKS.index(limit) + 1 :]:
            self._change("effort-mapped", "effort", f"{effort} became {limit}: thinking is off", effort=limit)

    def fit_sampling(self) -> None:
        sampling = self._traits.sampling
        is_refused = sampling in ("rejected", "ignored")
        if sampling == "only_without_reasoning":
            is_refused = is_thinking_enabled(self.request, self._traits)
        for name, value in [*set_parameters(self.request, _SAMPLING)] if is_refused else ():
            reason = "has no effect on" if sampling == "ignored" else "is refused by"
            self._change("sampling-refused", name, f"{value!r} {reason} this model", "leave it out", **{name: None})

    def drop_refused(self) -> None:
        """Drop parameters that the model refuses by name, and all but the first of those that exclude each other."""
        for name in self._traits.refuses:
            if (value := getattr(self.request, name, None)) is not None:
                self._change("parameter-refused", name, repr(value), "leave it out", **{name: None})
        names = [name for name in self._traits.exclusive if getattr(self.request, name, None) is not None]
        for name in names[1:]:
            detail, remedy = f"not together with {names[0]}", "set one of them"
            self._change("parameter-refused", name, detail, remedy, **{name: None})

    def fit_tool_choice(self) -> None:
        request, traits = self.request, self._traits
        choice, rule = request.tool_choice, traits.forced_tool_choice
        if choice in (None, "auto", "none") or rule == "ok":
            return
        remedy = "ask for it in words"
        if rule == "not_with_thinking":
            has_budget = request.thinking is not None and request.thinking.budget is not None
            if not is_thinking_enabled(request, traits) or ("adaptive" in traits.thinking and not has_budget):
                return
            remedy = "switch thinking off to force a tool"
        self._change("forced-choice-refused", "tool_choice", f"{choice!r} became auto", remedy, tool_choice="auto")

    def clamp_max_tokens(self) -> None:
        limit, value = self._traits.max_output, self.request.max_tokens
        if limit is not None and value is not None and value > limit:
            self._change("clamped", "max_tokens", f"{value} became {limit}", max_tokens=limit)

    def fit_response_format(self) -> None:
        """Put a schema that the model cannot take as a parameter into the instructions."""
        format, support, remedy = self.request.response_format, self._traits.structured_output, ""
        if format in (None, "text"):
            return
        if self._codec.functions_exclude_format(self.request, self._target):
            support, remedy = "none", "ask for it in a request without functions"
        if support == "native":
            return
        if isinstance(format, JsonSchema):
            schema = jsonio.as_text(jsonio.encode(format.schema))
            note = SystemMessage(f"Respond with JSON matching this schema: {schema}")
            changes = {"response_format": None if support == "none" else "json_object"}
            messages, detail = (note, *self.request.transcript), "the schema went into the instructions"
            self._change("no-structured-output", "response_format", detail, remedy, messages=messages, **changes)
        elif support == "none":
            self._change("no-structured-output", "response_format", "json_object", remedy, response_format=None)
