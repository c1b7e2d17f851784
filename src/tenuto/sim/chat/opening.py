"""Reading a chat request: as far as the rules need it, and then what it asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from tenuto.core import jsonio
from tenuto.sim import styles
from tenuto.sim.asked import Asked, Malformed, Offered, Request, Said
from tenuto.sim.chat import models
from tenuto.sim.mint import tokens

__all__ = ["Opened", "empty", "kind", "open", "parts", "read", "shown", "text"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_BY_RULE = ("openai", "groq")
"""Whose unknown models a rule of the book speaks of."""
_MOST_CHOICES = 128


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose messages are objects with a role, with content and calls of the right shape.

    `calls` are the tool calls of each message; `thinks` says whether the model thinks.
    """

    request: Request
    messages: list[dict[str, Any]]
    calls: list[list[dict[str, Any]]]
    tools: list[dict[str, Any]]
    thinks: bool

    @property
    def style(self) -> str:
        """The name of the provider that is played."""
        return self.request.style.name

    @property
    def model(self) -> str:
        """The real model; empty if none in particular is asked."""
        return self.request.model

    @property
    def body(self) -> dict[str, Any]:
        """The request's body."""
        return self.request.body


def open(request: Request) -> Opened:
    """Read the body as far as the rules need it. Raise `Malformed` for what has the wrong shape."""
    body = request.body
    _known(request)
    messages = body.get("messages")
    if messages is None:
        raise Malformed("Missing required parameter: 'messages'.", "messages", code="missing_required_parameter")
    if not isinstance(messages, list):
        raise _wrong("messages", "an array of objects", messages)
    if not messages:
        told = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise Malformed(told, "messages", code="empty_array")
    many = body.get("n")
    if isinstance(many, int) and many > _MOST_CHOICES:
        told = f"Invalid 'n': integer above maximum value. Expected a value <= {_MOST_CHOICES}, but got {many} instead."
        raise Malformed(told, "n", code="integer_above_max_value")
    tools = body.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise _wrong("tools", "an array of objects", tools)
    return Opened(
        request=request,
        messages=messages,
        calls=[_message(message, index) for index, message in enumerate(messages)],
        tools=tools or [],
        thinks=models.thinks(request.style, request.model, body),
    )


def _known(request: Request) -> None:
    style, model = request.style, request.model
    if style.name in _BY_RULE or styles.exists(style, model):
        return
    match style.name:
        case "deepseek":
            raise Malformed("Model Not Exist", "")
        case "mistral":
            raise Malformed(f"Invalid model: {model}", "", code="1500")
        case "moonshot":
            raise Malformed(f"Not found the model {model} or Permission denied", "", status=404)
        case "zai":
            raise Malformed("Unknown Model, please check the model code.", "", code="1211")
        case "perplexity":
            raise Malformed(f"Invalid model '{model}'. Permitted models can be found in the documentation.", "")
        case "cohere":
            told = "not found, make sure the correct model ID was used and that you have access to the model."
            raise Malformed(f"model '{model}' {told}", "", status=404)
    raise Malformed(f"The model `{model}` does not exist or you do not have access to it.", "", status=404)


def _message(message: object, index: int) -> list[dict[str, Any]]:
    """Look at the shape of one message, and return its calls."""
    at = f"messages[{index}]"
    if not isinstance(message, dict):
        raise _wrong(at, "an object", message)
    if message.get("role") not in _ROLES:
        told = "Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
        raise Malformed(f"Invalid value: '{message.get('role')}'. {told}", f"{at}.role", code="invalid_value")
    content = message.get("content")
    if isinstance(content, list):
        for place, part in enumerate(content):
            if not isinstance(part, dict):
                raise _wrong(f"{at}.content[{place}]", "an object", part)
    elif content is not None and not isinstance(content, str):
        raise _wrong(f"{at}.content", "one of a string or array of objects", content)
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise Malformed(
            f"Missing required parameter: '{at}.tool_call_id'.", f"{at}.tool_call_id", code="missing_required_parameter"
        )
    return list(_calls(message, at))


def _calls(message: dict[str, Any], at: str) -> Iterator[dict[str, Any]]:
    calls = message.get("tool_calls")
    if calls is None or message["role"] != "assistant":
        return
    if not isinstance(calls, list):
        raise _wrong(f"{at}.tool_calls", "an array of objects", calls)
    for place, call in enumerate(calls):
        here = f"{at}.tool_calls[{place}]"
        if not isinstance(call, dict):
            raise _wrong(here, "an object", call)
        if not isinstance(call.get("id"), str):
            raise Malformed(
                f"Missing required parameter: '{here}.id'.", f"{here}.id", code="missing_required_parameter"
            )
        inner = call.get("function") or call.get("custom")
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            told = f"Missing required parameter: '{here}.function'."
            raise Malformed(told, f"{here}.function", code="missing_required_parameter")
        yield call


def _wrong(at: str, wanted: str, found: object) -> Malformed:
    told = f"Invalid type for '{at}': expected {wanted}, but got {kind(found)} instead."
    return Malformed(told, at, code="invalid_type")


def kind(found: object) -> str:
    """Say what kind of JSON it is."""
    kinds = {str: "a string", list: "an array", dict: "an object", bool: "a boolean", int: "an integer"}
    return "null" if found is None else kinds.get(type(found), "a number")


def parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message; a text is one part, nothing is none."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def text(message: dict[str, Any]) -> str:
    """Return the text of a message."""
    return "".join(found for part in parts(message) if isinstance(found := part.get("text"), str))


def empty(message: dict[str, Any]) -> bool:
    """Tell whether nothing is said in a message: no content, or nothing but empty texts."""
    return all(part.get("type") == "text" and not part.get("text") for part in parts(message))


def read(opened: Opened) -> Asked:
    """Say what is asked."""
    body, messages = opened.body, opened.messages
    said = tuple(_said(opened))
    system = "\n\n".join(text(message) for message in messages if message["role"] in ("system", "developer"))
    tools = tuple(_offered(opened))
    size = sum(
        tokens(one.text) + 4 + sum(tokens(word) for pair in (*one.calls, *one.results) for word in pair) for one in said
    )
    return Asked(
        request=opened.request,
        turn=sum(message["role"] == "assistant" for message in messages),
        system=system,
        said=said,
        tools=tools,
        choice=_choice(body.get("tool_choice")),
        parallel=body.get("parallel_tool_calls") is not False,
        think=opened.thinks,
        show=shown(opened),
        max_tokens=_number(body.get("max_completion_tokens")) or _number(body.get("max_tokens")),
        stop=_stop(body.get("stop")),
        schema=_schema(body.get("response_format")),
        choices=_number(body.get("n")) or 1,
        prompt_tokens=size + tokens(system) + (tokens(jsonio.encode(opened.tools).decode()) if opened.tools else 0) + 3,
    )


def _said(opened: Opened) -> Iterator[Said]:
    names: dict[str, str] = {}
    for message, calls in zip(opened.messages, opened.calls, strict=True):
        role: Literal["user", "assistant"] = "assistant" if message["role"] == "assistant" else "user"
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] in ("tool", "function"):
            name = names.get(str(message.get("tool_call_id")), str(message.get("name") or ""))
            yield Said(role=role, results=((name, text(message)),))
            continue
        made = [_call(call) for call in calls]
        names |= {call["id"]: name for call, (name, _) in zip(calls, made, strict=True)}
        yield Said(role=role, text=text(message), calls=tuple(made))


def _call(call: dict[str, Any]) -> tuple[str, str]:
    inner = call.get("function") or call["custom"]
    found = inner.get("arguments", inner.get("input"))
    return inner["name"], found if isinstance(found, str) else jsonio.encode(found).decode()


def _offered(opened: Opened) -> Iterator[Offered]:
    for tool in opened.tools:
        inner = tool.get("function") if tool.get("type", "function") == "function" else tool.get("custom")
        if not isinstance(inner, dict):
            yield _hosted(str(tool.get("type")))
            continue
        schema = inner.get("parameters")
        yield Offered(
            name=str(inner.get("name", "")),
            description=str(inner.get("description") or ""),
            schema=schema if isinstance(schema, dict) else {},
            kind="custom" if tool.get("type") == "custom" else "function",
        )
    plugins = opened.body.get("plugins")
    searches = isinstance(plugins, list) and any(isinstance(one, dict) and one.get("id") == "web" for one in plugins)
    if searches or "web_search_options" in opened.body or opened.style == "perplexity":
        yield Offered(name="web_search", kind="search")


def _hosted(kind: str) -> Offered:
    if "search" in kind:
        return Offered(name=kind, kind="search")
    return Offered(name=kind, kind="code" if "code" in kind else "other")


def _choice(choice: Any) -> str:
    if isinstance(choice, str):
        return "required" if choice == "any" else choice
    if isinstance(choice, dict):
        inner = choice.get("function") or choice.get("custom")
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            return str(inner["name"])
    return "auto"


def shown(opened: Opened) -> bool:
    """Tell whether thoughts are to be seen: not if the request turned thinking off, or wants them hidden."""
    body = opened.body
    reasoning = body.get("reasoning")
    hidden = (isinstance(reasoning, dict) and reasoning.get("exclude") is True) or body.get(
        "reasoning_format"
    ) == "hidden"
    off = models.told(body) is False
    return not (hidden or off or body.get("include_reasoning") is False)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _stop(value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(one for one in found if isinstance(one, str) and one)


def _schema(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or value.get("type") in (None, "text"):
        return None
    inner = value.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else {}
