"""The switches of the chat dialect, one function each: what a provider's row says, done to a request.

The last four acts work on the finished body, in this order: strip, rename, clamp, defaults. Whatever was asked for and
does not go out as it was asked for is a `Loss`.
"""

from __future__ import annotations

from typing import Any

from tenuto.core.provider import ChatSwitches
from tenuto.core.request import JsonSchema, NamedTool
from tenuto.wire.body_builder import BodyBuilder

__all__ = [
    "alternate",
    "cache_control",
    "clamp",
    "defaults",
    "limit",
    "log_probabilities",
    "rename",
    "response_format",
    "stop_sequences",
    "strip",
    "think",
    "tool_choice",
    "usage_of_stream",
]

_OURS = ("stream_options",)
"""Body fields that nobody asked for: leaving them out loses nothing."""


# --- the finished body ------------------------------------------------------------------------------------------------


def strip(draft: BodyBuilder, names: tuple[str, ...]) -> None:
    """Leave out what the provider refuses."""
    for name in names:
        if name in draft.body:
            value = draft.body.pop(name)
            if value is not None and name not in _OURS:
                draft.record_loss("stripped-parameter", name, repr(value)[:200], "this provider does not take it")


def rename(draft: BodyBuilder, names: dict[str, str]) -> None:
    """Call fields what the provider calls them."""
    if not names.keys().isdisjoint(draft.body):
        draft.body = {names.get(name, name): value for name, value in draft.body.items()}


def clamp(draft: BodyBuilder, bounds: dict[str, float | tuple[float, float]]) -> None:
    """Force a number, or force it into its bounds; what was not asked for stays absent."""
    for name, bound in bounds.items():
        value = draft.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        forced = bound if isinstance(bound, int | float) else min(max(value, bound[0]), bound[1])
        if forced != value:
            draft.body[name] = forced
            draft.record_loss("clamped-parameter", name, f"{value} became {forced}")


def defaults(draft: BodyBuilder, values: dict[str, Any]) -> None:
    """Set what nobody set."""
    for name, value in values.items():
        if draft.body.get(name) is None:
            draft.body[name] = value


# --- thinking ---------------------------------------------------------------------------------------------------------


class _Thinking:
    """What is asked for, and which of the row's fields this model takes."""

    def __init__(self, draft: BodyBuilder, switches: ChatSwitches) -> None:
        request, modes = draft.request, draft.target.traits.thinking
        self.draft = draft
        self.switches = switches
        self.effort: str | None = request.effort
        self.mode = request.thinking.mode if request.thinking is not None else None
        self.on = None if self.mode is None else self.mode != "off"
        self.effort_field = switches.effort_field if not modes or "effort" in modes else ""
        self.toggle = switches.thinking_toggle if not modes or "toggle" in modes else ""
        self.efforts = draft.target.traits.efforts

    def weigh(self) -> None:
        """Say with the toggle what the effort cannot say, and the other way round."""
        if self.effort == "none" and self.toggle and "none" not in (self.efforts or ()):
            self.on, self.effort = False, None
        elif self.effort not in (None, "none") and not self.effort_field and self.toggle:
            self.draft.record_loss(
                "effort-degree", "effort", f"{self.effort} became on: this model knows on and off only"
            )
            self.on, self.effort = True, None
        elif self.on is False and self.effort is None and self._none_is_an_effort():
            self.on, self.effort = None, "none"

    def _none_is_an_effort(self) -> bool:
        return not self.toggle and self.effort_field != "" and (self.efforts is None or "none" in self.efforts)

    def write(self) -> None:
        """Put both where the row says they stand."""
        sent = self.effort is not None and self.effort_field != ""
        if sent and self.effort is not None:
            _place(self.draft.body, self.effort_field, self.switches.effort_words.get(self.effort, self.effort))
        elif self.effort is not None:
            self.draft.record_unsupported("effort")
        if self.on is None:
            return
        if self.toggle and not (sent and self.switches.one_thinking_field):
            _turn(self.draft.body, self.toggle, on=self.on)
        elif not (self.on and sent):
            self.draft.record_loss(
                "unsupported-parameter", "thinking.mode", self.mode or "", "ask by effort where it is known"
            )


def think(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Ask for effort, thinking on or off, a budget, and readable reasoning, each where this provider wants it."""
    wanted = draft.request.thinking
    if wanted is None and draft.request.effort is None:
        return
    asked = _Thinking(draft, switches)
    asked.weigh()
    asked.write()
    if wanted is not None:
        if asked.mode == "between_tools":
            draft.record_loss("unsupported-parameter", "thinking.mode", "between_tools became on")
        if wanted.budget is not None:
            _budget(draft, switches.budget_field, wanted.budget)
        if wanted.show is not None:
            _show(draft, switches.show_field, show=wanted.show)
    if (asked.on or asked.effort not in (None, "none")) and asked.on is not False:
        defaults(draft, switches.with_thinking)


def _budget(draft: BodyBuilder, field: str, budget: int) -> None:
    if field:
        _place(draft.body, field, budget)
    else:
        draft.record_loss("unsupported-parameter", "thinking.budget", str(budget), "ask by effort where it is known")


def _show(draft: BodyBuilder, field: str, *, show: bool) -> None:
    if field:
        _place(draft.body, field, not show if field.endswith("exclude") else show)
    else:
        draft.record_loss("unsupported-parameter", "thinking.show", str(show))


def _turn(body: dict[str, Any], toggle: str, *, on: bool) -> None:
    if toggle == "thinking.type":
        _place(body, toggle, "enabled" if on else "disabled")
    elif toggle == "template":
        _place(body, "chat_template_kwargs.enable_thinking", on)
    else:
        _place(body, toggle, not on if toggle == "disable_reasoning" else on)


def _place(body: dict[str, Any], path: str, value: Any) -> None:
    """Set a field, or a field of a field, beside what stands there already."""
    name, _, inner = path.partition(".")
    body[name] = {**body.get(name, {}), inner: value} if inner else value


# --- single parameters ------------------------------------------------------------------------------------------------


def limit(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Limit the tokens of the answer, under the name that the model, or else the provider, knows."""
    if draft.request.max_tokens is None:
        return
    named = draft.target.traits.max_tokens_field
    field = named if named in ("max_tokens", "max_completion_tokens") else switches.max_tokens_field
    draft.body[field] = draft.request.max_tokens


def alternate(messages: list[dict[str, Any]], switches: ChatSwitches) -> list[dict[str, Any]]:
    """Join neighbours of one role where users and assistants have to take turns: texts as paragraphs, parts as a list."""
    if not switches.alternate:
        return messages
    joined: list[dict[str, Any]] = []
    for message in messages:
        before = joined[-1] if joined else {}
        if before.get("role") == message["role"] in ("user", "assistant"):
            joined[-1] = {**before, **message, "content": _joined(before["content"], message["content"])}
        else:
            joined.append(message)
    return joined


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    lists = ([{"type": "text", "text": said}] if isinstance(said, str) else said or [] for said in (one, other))
    return [part for parts in lists for part in parts]


def stop_sequences(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Send stop sequences: one as it is, or as a list; no more than are taken."""
    stop = draft.request.stop
    if stop is None:
        return
    if isinstance(stop, str):
        draft.body["stop"] = [stop] if switches.stop_as_list else stop
        return
    most = switches.stop_max or len(stop)
    for at, word in enumerate(stop[most:], most):
        draft.record_loss("too-many-stops", f"stop[{at}]", repr(word), f"this provider takes {most}")
    draft.body["stop"] = list(stop[:most])


def log_probabilities(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Ask for log probabilities: a flag and a number, or one number for both."""
    request = draft.request
    if request.logprobs is None and request.top_logprobs is None:
        return
    if not switches.logprobs_as_number:
        draft.set_if_given(logprobs=request.logprobs, top_logprobs=request.top_logprobs)
    elif request.logprobs:
        draft.body["logprobs"] = request.top_logprobs if request.top_logprobs is not None else 1
    else:
        draft.record_unsupported("top_logprobs", remedy="ask for `logprobs` too")


def tool_choice(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Say which tool to call. Without tools there is nothing to choose, and providers refuse the field."""
    request = draft.request
    choice = request.tool_choice
    if "tools" not in draft.body:
        if choice not in (None, "auto", "none"):
            draft.record_loss("unsupported-parameter", "tool_choice", repr(choice), "there are no tools to choose from")
        return
    if choice == "none" and switches.none_drops_tools:
        del draft.body["tools"]
        draft.record_loss("dropped-tools", "tools", "tool_choice none is not obeyed here, so the tools stay out")
        return
    if isinstance(choice, NamedTool):
        kinds = {getattr(tool, "name", ""): getattr(tool, "kind", "") for tool in request.tools}
        kind = "custom" if kinds.get(choice.name) == "custom" else "function"
        draft.body["tool_choice"] = {"type": kind, kind: {"name": choice.name}}
    elif choice is not None:
        draft.body["tool_choice"] = switches.required_word if choice == "required" else choice
    draft.set_if_given(parallel_tool_calls=request.parallel_tool_calls)


def response_format(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Ask for text, JSON, or JSON of a schema; where schemas are not known, for JSON."""
    asked, known = draft.request.response_format, draft.target.traits.structured_output
    if asked is None:
        return
    if not isinstance(asked, JsonSchema):
        draft.body["response_format"] = {"type": asked}
    elif known == "none":
        draft.record_loss("unsupported-parameter", "response_format", asked.name, "ask for JSON in the prompt")
    elif not switches.json_schema or known != "native":
        draft.body["response_format"] = {"type": "json_object"}
        draft.record_loss(
            "dropped-schema", "response_format", asked.name, "say in the prompt what the JSON should look like"
        )
    else:
        optional: dict[str, Any] = {"strict": asked.strict, "description": asked.description or None}
        schema: dict[str, Any] = {"name": asked.name, "schema": asked.schema}
        schema.update({name: value for name, value in optional.items() if value is not None})
        draft.body["response_format"] = {"type": "json_schema", "json_schema": schema}


def cache_control(cache: str) -> dict[str, str]:
    """Write a hint to cache the prompt up to here; without a `ttl`, providers keep it for five minutes."""
    return {"type": "ephemeral", **({"ttl": cache} if cache not in ("5m", "auto") else {})}


def usage_of_stream(draft: BodyBuilder, switches: ChatSwitches) -> None:
    """Ask for a stream, and for its usage where that must be asked for."""
    draft.body["stream"] = draft.request.stream
    if draft.request.stream and switches.stream_options:
        draft.body["stream_options"] = {"include_usage": True}
