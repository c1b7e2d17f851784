"""Apply the chat switches of a provider to a request body. A parameter that is not sent as requested is a `Loss`."""

from typing import Any

from tenuto.core.provider import ChatSwitches, Target
from tenuto.core.request import JsonSchema, NamedTool, ResponseFormat
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.codec import CallIdRule, TurnOrder

Fields = dict[str, Any]


def adjust_body(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Strip the fields that the provider refuses, rename fields, limit numbers to their bounds, and set defaults."""
    for name in switches.strip:
        if name in builder.body:
            value = builder.body.pop(name)
            if value is not None and name != "stream_options":  # not requested by the caller
                builder.record_loss("stripped-parameter", name, repr(value)[:200], "this provider does not take it")
    if not switches.rename.keys().isdisjoint(builder.body):
        builder.body = {switches.rename.get(name, name): value for name, value in builder.body.items()}
    for name, bound in switches.clamp.items():
        value = builder.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        new_value = bound if isinstance(bound, int | float) else min(max(value, bound[0]), bound[1])
        if new_value != value:
            builder.body[name] = new_value
            builder.record_loss("clamped-parameter", name, f"{value} became {new_value}")
    set_defaults(builder, switches.defaults)


def set_defaults(builder: BodyBuilder, values: Fields) -> None:
    """Set the fields that are absent or null."""
    for name, value in values.items():
        if builder.body.get(name) is None:
            builder.body[name] = value


def set_thinking(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Set effort, thinking on or off, budget, and readable reasoning, in this provider's fields."""
    request, traits, body = builder.request, builder.target.traits, builder.body
    thinking, effort = request.thinking, request.effort
    mode = thinking.mode if thinking is not None else None
    is_on = None if mode is None else mode != "off"
    effort_field = switches.effort_field if not traits.thinking or "effort" in traits.thinking else ""
    toggle = switches.thinking_toggle if not traits.thinking or "toggle" in traits.thinking else ""
    has_none = traits.efforts is None or "none" in traits.efforts

    # the toggle replaces an effort that the model does not know, and the effort `none` a missing toggle
    if effort == "none" and toggle and "none" not in (traits.efforts or ()):
        is_on, effort = False, None
    elif effort not in (None, "none") and not effort_field and toggle:
        builder.record_loss("effort-degree", "effort", f"{effort} became on: this model has no degrees of effort")
        is_on, effort = True, None
    elif is_on is False and effort is None and not toggle and effort_field and has_none:
        is_on, effort = None, "none"

    sends_effort = effort is not None and effort_field != ""
    if effort is not None and sends_effort:
        _set_path(body, effort_field, switches.effort_words.get(effort, effort))
    elif effort is not None:
        builder.record_unsupported("effort")
    if is_on is not None:
        if toggle and not (sends_effort and switches.one_thinking_field):
            _set_toggle(body, toggle, is_on=is_on)
        elif not (is_on and sends_effort):
            remedy = "set `effort` if the model has it"
            builder.record_loss("unsupported-parameter", "thinking.mode", mode or "", remedy)

    if thinking is not None:
        if mode == "between_tools":
            builder.record_loss("unsupported-parameter", "thinking.mode", "between_tools became on")
        if thinking.budget is not None and switches.budget_field:
            _set_path(body, switches.budget_field, thinking.budget)
        elif thinking.budget is not None:
            detail, remedy = str(thinking.budget), "set `effort` if the model has it"
            builder.record_loss("unsupported-parameter", "thinking.budget", detail, remedy)
        if thinking.show is not None and switches.show_field:
            is_negated = switches.show_field.endswith("exclude")
            _set_path(body, switches.show_field, not thinking.show if is_negated else thinking.show)
        elif thinking.show is not None:
            builder.record_loss("unsupported-parameter", "thinking.show", str(thinking.show))
    if (is_on or effort not in (None, "none")) and is_on is not False:
        set_defaults(builder, switches.with_thinking)


def _set_toggle(body: Fields, toggle: str, *, is_on: bool) -> None:
    if toggle == "thinking.type":
        _set_path(body, toggle, "enabled" if is_on else "disabled")
    elif toggle == "template":
        _set_path(body, "chat_template_kwargs.enable_thinking", is_on)
    else:
        _set_path(body, toggle, not is_on if toggle == "disable_reasoning" else is_on)


def _set_path(body: Fields, path: str, value: Any) -> None:
    """Set a field, or a field of an object (`reasoning.effort`); other fields of the object stay."""
    name, _, inner = path.partition(".")
    body[name] = {**body.get(name, {}), inner: value} if inner else value


def set_stop(builder: BodyBuilder, stop: str | tuple[str, ...], switches: ChatSwitches) -> None:
    if isinstance(stop, str):
        builder.body["stop"] = [stop] if switches.stop_as_list else stop
        return
    limit = switches.stop_max or len(stop)
    for at, word in enumerate(stop[limit:], limit):
        builder.record_loss("too-many-stops", f"stop[{at}]", repr(word), f"this provider takes {limit}")
    builder.body["stop"] = list(stop[:limit])


def set_logprobs(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Request log probabilities: a flag and a number, or one number for both."""
    request = builder.request
    if not switches.logprobs_as_number:
        builder.set_if_given(logprobs=request.logprobs, top_logprobs=request.top_logprobs)
    elif request.logprobs:
        builder.body["logprobs"] = request.top_logprobs if request.top_logprobs is not None else 1
    else:
        builder.record_unsupported("top_logprobs", remedy="set `logprobs` too")


def set_tool_choice(builder: BodyBuilder, switches: ChatSwitches) -> None:
    """Set which tool to call. Providers refuse the field in a request without tools."""
    request = builder.request
    choice = request.tool_choice
    if "tools" not in builder.body:
        if choice not in (None, "auto", "none"):
            builder.record_loss("unsupported-parameter", "tool_choice", repr(choice), "the request has no tools")
        return
    if choice == "none" and switches.none_drops_tools:
        del builder.body["tools"]
        builder.record_loss("dropped-tools", "tools", "the provider ignores tool_choice none, so the tools are omitted")
        return
    if isinstance(choice, NamedTool):
        kinds = {getattr(tool, "name", ""): getattr(tool, "kind", "") for tool in request.tools}
        kind = "custom" if kinds.get(choice.name) == "custom" else "function"
        builder.body["tool_choice"] = {"type": kind, kind: {"name": choice.name}}
    elif choice is not None:
        builder.body["tool_choice"] = switches.required_word if choice == "required" else choice
    if request.parallel_tool_calls is not None:
        builder.body["parallel_tool_calls"] = request.parallel_tool_calls


def set_response_format(builder: BodyBuilder, output: ResponseFormat, switches: ChatSwitches) -> None:
    """Request text, JSON, or JSON with a schema; JSON without it if the provider takes no schemas."""
    support = builder.target.traits.structured_output
    if not isinstance(output, JsonSchema):
        builder.body["response_format"] = {"type": output}
    elif support == "none":
        builder.record_loss("unsupported-parameter", "response_format", output.name, "request JSON in the prompt")
    elif not switches.json_schema or support != "native":
        builder.body["response_format"] = {"type": "json_object"}
        builder.record_loss("dropped-schema", "response_format", output.name, "describe the JSON in the prompt")
    else:
        builder.body["response_format"] = {"type": "json_schema", "json_schema": builder.schema_fields(output)}


def make_cache_control(cache: str) -> dict[str, str]:
    """Make a `cache_control` value. Without a `ttl`, providers cache for five minutes."""
    ttl = cache.removeprefix("auto-")
    return {"type": "ephemeral", **({"ttl": ttl} if ttl not in ("5m", "auto") else {})}


def call_ids(target: Target) -> CallIdRule:
    switches = target.provider.chat
    if switches.call_id == "nine":
        return CallIdRule("[0-9A-Za-z]{9}", 9)
    return CallIdRule(max_length=switches.call_id_max)


def turn_order(target: Target) -> TurnOrder:
    alternates = target.provider.chat.alternate
    return TurnOrder(user_first=alternates, user_last=alternates, alternates=alternates)
