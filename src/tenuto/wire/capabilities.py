"""Fit a request to the traits of its model.

Parameters that the model would reject are omitted or mapped to the nearest accepted value, each with a `Loss`. The
request for an unknown model does not change. Data decides (`ModelTraits`), never a model's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Block, Document, Image, Text
from tenuto.core.loss import Loss
from tenuto.core.messages import Content, Message, SystemMessage, ToolResults, UserMessage
from tenuto.core.provider import ModelTraits, Target
from tenuto.core.request import ChatRequest, JsonSchema
from tenuto.wire.body_builder import set_parameters
from tenuto.wire.registry import codec_for

Change: TypeAlias = "tuple[dict[str, Any], Loss]"

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
)
_PARAMETERS = ("tool_choice", "parallel_tool_calls", "response_format", "effort", "thinking", *_SAMPLING)
"""Parameters that most rules read. If none of them and no tools are set, only the rules in `_ALWAYS` apply."""
_RANKS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_TRANSLATED = ("budget", "toggle", "level", "disabled")
"""Modes in which the encoder can express an effort that the model has no word for."""


def apply_traits(request: ChatRequest, target: Target) -> tuple[ChatRequest, tuple[Loss, ...]]:
    """Return the request as the target's model accepts it, and the changes."""
    traits = target.traits
    if not traits.known:
        return request, ()
    losses: list[Loss] = []
    asked = request.tools or any(set_parameters(request, _PARAMETERS))
    for rule in _RULES if asked else _ALWAYS:
        changes: dict[str, Any] = {}
        for change, loss in rule(request, target):
            changes |= change
            losses.append(loss)
        if changes:
            request = msgspec.structs.replace(request, **changes)
    return request, tuple(losses)


def is_thinking_enabled(request: ChatRequest, traits: ModelTraits) -> bool:
    """Tell whether the model will reason before it answers this request."""
    asked = request.thinking.mode if request.thinking is not None else None
    if traits.thinking_default == "always":
        return True
    if asked == "off" or (asked is None and request.effort == "none"):
        return False
    if asked is not None or request.effort is not None or request.thinking is not None:
        return traits.thinking != ("none",)
    if traits.effort_default:
        return traits.effort_default != "none" and traits.thinking_default != "no"
    return traits.thinking_default == "yes"


def _effort(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    wanted, takes = request.effort, traits.efforts
    if wanted is None or takes is None or wanted in takes:
        return
    if wanted == "none" and (traits.thinking_default == "no" or any(m in traits.thinking for m in _TRANSLATED)):
        return  # already off, or expressed in another way
    if not takes and any(mode in traits.thinking for mode in _TRANSLATED):
        return
    nearest = _nearest(wanted, takes)
    what = f"{wanted} became {nearest}" if nearest else f"{wanted}: this model takes none"
    yield {"effort": nearest}, Loss("effort-mapped", "effort", what, f"it takes {', '.join(takes) or 'nothing'}")


def _nearest(wanted: str, takes: tuple[str, ...]) -> str | None:
    rank = _RANKS.index(wanted)
    known = [word for word in takes if word in _RANKS]
    return min(known, key=lambda w: (abs(_RANKS.index(w) - rank), abs(_RANKS.index(w) - 4)), default=None)


def _sampling(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    refused = traits.sampling in ("rejected", "ignored") or (
        traits.sampling == "only_without_reasoning" and is_thinking_enabled(request, traits)
    )
    for name, value in set_parameters(request, _SAMPLING) if refused else ():
        why = "has no effect on" if traits.sampling == "ignored" else "is refused by"
        yield {name: None}, Loss("sampling-refused", name, f"{value!r} {why} this model", "leave it out")


def _tools(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    if request.tools and not traits.tools:
        names = ", ".join(getattr(tool, "name", "") or getattr(tool, "kind", "") for tool in request.tools)
        yield {"tools": (), "tool_choice": None}, Loss("no-tools", "tools", names, "choose a model that takes tools")
    if request.parallel_tool_calls and not traits.parallel_tools:
        yield {"parallel_tool_calls": None}, Loss("no-parallel-tools", "parallel_tool_calls", "one call at a time")


def _tool_choice(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    choice, rule = request.tool_choice, traits.forced_tool_choice
    if choice in (None, "auto", "none") or rule == "ok":
        return
    budget = request.thinking is not None and request.thinking.budget is not None
    if rule == "not_with_thinking" and (
        not is_thinking_enabled(request, traits) or ("adaptive" in traits.thinking and not budget)
    ):
        return
    remedy = "switch thinking off to force a tool" if rule == "not_with_thinking" else "ask for it in words"
    yield {"tool_choice": "auto"}, Loss("forced-choice-refused", "tool_choice", f"{choice!r} became auto", remedy)


def _chat_tools(request: ChatRequest, target: Target) -> Iterator[Change]:
    """Chat Completions rejects function tools with reasoning: on some models unless it is off, on some always."""
    rule = target.traits.chat_tools
    if rule == "ok" or not request.tools or not codec_for(target.dialect).limits_tools_with_reasoning:
        return
    remedy = "ask in the Responses dialect"
    if rule == "rejected":
        yield {"tools": (), "tool_choice": None}, Loss("no-tools", "tools", "not in the chat dialect", remedy)
    elif request.effort != "none":
        what = f"{request.effort or target.traits.effort_default} became none: tools are rejected with reasoning"
        yield {"effort": "none", "thinking": None}, Loss("effort-mapped", "effort", what, remedy)


def _refused(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    for name in traits.refuses:
        if getattr(request, name, None) is not None:
            yield {name: None}, Loss("parameter-refused", name, f"{getattr(request, name)!r}", "leave it out")
    names = [name for name in traits.exclusive if getattr(request, name, None) is not None]
    for name in names[1:]:
        yield {name: None}, Loss("parameter-refused", name, f"not together with {names[0]}", "set one of them")


def _thinking(request: ChatRequest, target: Target) -> Iterator[Change]:
    """Keep a budget in its bounds, and an effort below the limit for disabled thinking."""
    traits, wanted = target.traits, request.thinking
    if wanted is not None and wanted.budget is not None and traits.budget is not None:
        low, high = traits.budget
        fits = min(max(wanted.budget, low), high)
        if wanted.budget not in (0, fits):
            changed = {"thinking": msgspec.structs.replace(wanted, budget=fits)}
            yield changed, Loss("clamped", "thinking.budget", f"{wanted.budget} became {fits}")
    most = traits.effort_when_off
    is_off = wanted is not None and (
        wanted.mode == "off" or (wanted.mode == "between_tools" and wanted.mode in traits.thinking)
    )
    if most and is_off and request.effort in _RANKS[_RANKS.index(most) + 1 :]:
        yield {"effort": most}, Loss("effort-mapped", "effort", f"{request.effort} became {most}: thinking is off")


def _limit(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    most = traits.max_output
    if most is not None and request.max_tokens is not None and request.max_tokens > most:
        yield {"max_tokens": most}, Loss("clamped", "max_tokens", f"{request.max_tokens} became {most}")


def _format(request: ChatRequest, target: Target) -> Iterator[Change]:
    traits = target.traits
    wanted, means = request.response_format, traits.structured_output
    if wanted in (None, "text"):
        return
    remedy = ""
    if codec_for(target.dialect).functions_exclude_format(request, target):
        means, remedy = "none", "ask for it in a request without functions"
    if means == "native":
        return
    if not isinstance(wanted, JsonSchema):
        if means == "none":
            yield {"response_format": None}, Loss("no-structured-output", "response_format", "json_object", remedy)
        return
    schema = jsonio.as_text(jsonio.encode(wanted.schema))
    note = SystemMessage(f"Respond with JSON matching this schema: {schema}")
    changes = {
        "response_format": None if means == "none" else "json_object",
        "messages": (note, *request.transcript),
    }
    yield changes, Loss("no-structured-output", "response_format", "the schema went into the instructions", remedy)


# --- media that the model does not accept ------------------------------------------------------------------------------


def _media(request: ChatRequest, target: Target) -> Iterator[Change]:
    messages = list(request.transcript)
    shown = [
        at
        for at, message in enumerate(messages)
        if isinstance(message, ToolResults)
        or (isinstance(message, UserMessage) and not isinstance(message.content, str))
    ]
    if not shown:
        return
    traits = target.traits
    refused: tuple[type[Block], ...] = tuple(
        kind
        for kind, takes in ((Image, traits.images_in), (Audio, traits.audio_in), (Document, traits.documents_in))
        if not takes
    )
    losses: list[Loss] = []
    for at in shown if refused else ():
        messages[at] = _without(messages[at], refused, f"messages[{at}]", losses)
    for loss in losses:
        yield {"messages": tuple(messages)}, loss


def _without(message: Message, refused: tuple[type[Block], ...], place: str, losses: list[Loss]) -> Message:
    if isinstance(message, ToolResults):
        results = [
            result
            if isinstance(result.content, str)
            else msgspec.structs.replace(result, content=_kept(result.content, refused, place, losses))
            for result in message.results
        ]
        return msgspec.structs.replace(message, results=tuple(results))
    if isinstance(message, UserMessage) and not isinstance(message.content, str):
        message = msgspec.structs.replace(message, content=_kept(message.content, refused, place, losses))
    return message


def _kept(
    parts: tuple[Content, ...], refused: tuple[type[Block], ...], place: str, losses: list[Loss]
) -> tuple[Content, ...]:
    kept: list[Content] = []
    for part in parts:
        if not isinstance(part, refused):
            kept.append(part)
            continue
        losses.append(Loss("content-refused", place, type(part).__name__.lower(), "choose a model that takes it"))
        if isinstance(part, Document) and part.text:
            kept.append(Text(part.text))
    return tuple(kept)


_RULES = (
    _tools,
    _chat_tools,
    _effort,
    _thinking,
    _sampling,
    _refused,
    _tool_choice,
    _limit,
    _media,
    _format,
)
_ALWAYS = (_refused, _limit, _media)
