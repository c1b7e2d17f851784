"""Reading a request of the Responses dialect: its shape, the stored responses it goes on from, what is asked in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Asked, Made, Malformed, Offered, Request, Said
from tenuto.sim.mint import tokens
from tenuto.sim.responses.ids import place_of, xai_root
from tenuto.sim.responses.models import Model, model_of

__all__ = [
    "Opened",
    "effort_of",
    "functions_in",
    "is_ours",
    "kind_of",
    "open_request",
    "read",
    "says",
    "stored",
]

_CALLED = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call_output": ("call_id", "output"),
    "item_reference": ("id",),
}
"""Keys that an item cannot do without."""
_KINDS = frozenset(
    {
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
        "custom_tool_call_output", "item_reference", "file_search_call", "computer_call", "computer_call_output",
        "web_search_call", "tool_search_call", "tool_search_output", "additional_tools", "configuration_update",
        "compaction", "compaction_trigger", "image_generation_call", "code_interpreter_call", "local_shell_call",
        "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
        "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "program", "program_output",
    }
)  # fmt: skip
_AS: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}
_ROLES = ("user", "assistant", "system", "developer")
_WORDS = {
    str: "a string",
    dict: "an object",
    list: "an array",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
}
_SHAPES: dict[str, tuple[Any, str]] = {
    "reasoning": (dict, "an object"), "text": (dict, "an object"), "tools": (list, "an array"),
    "include": (list, "an array"), "instructions": (str, "a string"), "previous_response_id": (str, "a string"),
    "temperature": (int | float, "a decimal"), "top_p": (int | float, "a decimal"),
    "max_output_tokens": (int, "an integer"),
}  # fmt: skip
"""What a parameter must be, if it is given, and how that is said."""
_PICTURE = 700
"""Tokens of a picture or a file, roughly."""


class Opened(msgspec.Struct, frozen=True):
    """A request whose shape is right.

    `items` is the input as a list. `chain` is what the stored responses before it hold, oldest first; `found` is the one
    that is named, None if it is not stored.
    """

    request: Request
    body: dict[str, Any]
    items: list[dict[str, Any]]
    chain: list[dict[str, Any]]
    found: Made | None
    model: Model
    bare_text: bool

    @property
    def strict(self) -> bool:
        """Whether OpenAI itself judges: Azure serves the same."""
        return self.request.style.name in ("openai", "azure")

    @property
    def stores(self) -> bool:
        """Whether the provider keeps responses, and hands out blobs of what it does not keep."""
        return self.strict or self.request.style.name == "xai"

    @property
    def everything(self) -> list[dict[str, Any]]:
        """What is stored and what is new."""
        return [*self.chain, *self.items]


def kind_of(item: dict[str, Any]) -> str:
    """Return an item's type; a message may leave it out."""
    return str(item.get("type") or "message")


def is_ours(item: dict[str, Any]) -> bool:
    """Tell whether an item is one that a model says, rather than one said to it."""
    kind = kind_of(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind not in (
        "item_reference", "additional_tools", "configuration_update", "compaction", "compaction_trigger",
        "mcp_approval_response",
    ) and not (kind.endswith("_output") and kind not in ("tool_search_output", "program_output"))  # fmt: skip


def stored(request: Request, id: Any) -> Made | None:
    """Find a stored reply by its id or an item's; one that was made with `store` false is not found."""
    found = request.stored(id) if isinstance(id, str) and id and id.isascii() else None
    return found if found and found.request.get("store") is not False else None


def _resolved(opened: Opened) -> Iterator[dict[str, Any]]:
    """What is stored and what is new, with the items themselves in place of references to them."""
    for item in opened.everything:
        id = item.get("id")
        found = stored(opened.request, id) if kind_of(item) == "item_reference" else None
        output = found.reply.get("output") if found else None
        yield next((one for one in output or [] if one.get("id") == id), item)


def open_request(request: Request) -> Opened:
    """Read a request as far as the rules need it; raise `Malformed` for what has the wrong shape."""
    body = request.body
    for key, (shape, word) in _SHAPES.items():
        given = body.get(key)
        if given is not None and (not isinstance(given, shape) or isinstance(given, bool)):
            raise _wrong(key, word, given)
    given = body.get("input")
    if given is not None and not isinstance(given, str | list):
        raise _wrong("input", "one of a string or array of objects", given)
    items = _message(given) if isinstance(given, str) else given or []
    for at, item in enumerate(items):
        _look(request, f"input[{at}]", item)
    _look_at_tools("tools", body.get("tools"))
    found = stored(request, body.get("previous_response_id"))
    chain = _chain(request, found)
    return Opened(request, body, items, chain, found, model_of(request), isinstance(given, str))


def _message(text: str) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "user", "content": text}]


def _wrong(place: str, expected: str, value: object) -> Malformed:
    got = "null" if value is None else _WORDS.get(type(value), "something else")
    message = f"Invalid type for '{place}': expected {expected}, but got {got} instead."
    return Malformed(message, place, code="invalid_type")


def _missing(place: str) -> Malformed:
    return Malformed(f"Missing required parameter: '{place}'.", place, code="missing_required_parameter")


def _look(request: Request, place: str, item: Any) -> None:
    if not isinstance(item, dict):
        raise _wrong(place, "an object", item)
    kind = item.get("type")
    if kind is not None and not isinstance(kind, str):
        raise _wrong(f"{place}.type", "a string", kind)
    if kind and kind not in _KINDS and request.style.name in ("openai", "azure"):
        told = ", ".join(f"'{word}'" for word in sorted(_KINDS))
        raise Malformed(f"Invalid value: '{kind}'. Supported values are: {told}.", place, code="invalid_value")
    if kind_of(item) == "message":
        _look_at_message(place, item)
    for key in ("id", "call_id"):
        if item.get(key) is not None and not isinstance(item[key], str):
            raise _wrong(f"{place}.{key}", "a string", item[key])
    if kind_of(item) == "additional_tools":
        _look_at_tools(f"{place}.tools", item.get("tools"))
    _look_for_keys(place, item)


def _look_for_keys(place: str, item: dict[str, Any]) -> None:
    for key in _CALLED.get(kind_of(item), ()):
        if key not in item:
            raise _missing(f"{place}.{key}")
        if key in ("call_id", "name") and not isinstance(item[key], str):
            raise _wrong(f"{place}.{key}", "a string", item[key])


def _look_at_message(place: str, item: dict[str, Any]) -> None:
    if "role" not in item:
        raise _missing(f"{place}.role")
    if item["role"] not in _ROLES:
        told = f"Invalid value: '{item['role']}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
        raise Malformed(told, place, code="invalid_value")
    if "content" not in item:
        raise _missing(f"{place}.content")
    content = item["content"]
    if not isinstance(content, str | list):
        raise _wrong(f"{place}.content", "one of an array of objects or string", content)
    for at, part in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(part, dict):
            raise _wrong(f"{place}.content[{at}]", "an object", part)


def _look_at_tools(place: str, tools: Any) -> None:
    if tools is not None and not isinstance(tools, list):
        raise _wrong(place, "an array of objects", tools)
    for at, tool in enumerate(tools or []):
        _look_at_tool(f"{place}[{at}]", tool)


def _look_at_tool(place: str, tool: Any) -> None:
    if not isinstance(tool, dict):
        raise _wrong(place, "an object", tool)
    if not isinstance(tool.get("type"), str):
        raise _missing(f"{place}.type")
    if tool["type"] in ("function", "custom", "namespace") and not isinstance(tool.get("name"), str):
        raise _missing(f"{place}.name")
    if tool["type"] == "namespace":
        _look_at_tools(f"{place}.tools", tool.get("tools"))


def _chain(request: Request, found: Made | None) -> list[dict[str, Any]]:
    links: list[Made] = []
    while found:
        links.insert(0, found)
        found = stored(request, found.request.get("previous_response_id"))
    chain: list[dict[str, Any]] = []
    for link in links:
        given = link.request.get("input")
        chain += _message(given) if isinstance(given, str) else given or []
        chain += link.reply.get("output") or []
    return chain


def says(content: Any) -> str:
    """Return the text of a message's content or of a call's output."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text") or part.get("refusal") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def effort_of(opened: Opened) -> str | None:
    """Return the effort with which the model reasons: the one that is asked for, or its own."""
    asked = (opened.body.get("reasoning") or {}).get("effort")
    return asked if isinstance(asked, str) else opened.model.effort


def functions_in(tools: Iterable[Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Find the tools that a client calls, each with the namespace it stands in."""
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        if tool.get("type") in ("function", "custom") and isinstance(tool.get("name"), str):
            yield tool, ""
        for inner in tool.get("tools") or [] if tool.get("type") == "namespace" else []:
            if isinstance(inner, dict) and isinstance(inner.get("name"), str):
                yield inner, str(tool.get("name"))


def _tools(opened: Opened) -> list[dict[str, Any]]:
    given = [*(opened.body.get("tools") or [])]
    for item in opened.everything:
        if kind_of(item) == "additional_tools":
            given += [tool for tool in item.get("tools") or [] if isinstance(tool, dict)]
    return given


def _offered(opened: Opened) -> tuple[Offered, ...]:
    given = _tools(opened)
    found = []
    for tool, _ in functions_in(given):
        schema = tool.get("parameters")
        kind: Literal["function", "custom"] = "custom" if tool.get("type") == "custom" else "function"
        told = str(tool.get("description") or "")
        found.append(
            Offered(name=tool["name"], description=told, schema=schema if isinstance(schema, dict) else {}, kind=kind)
        )
    for tool in given:
        word = tool.get("type", "")
        if word.startswith("web_search"):
            found.append(Offered(name=word, kind="search"))
        elif word == "code_interpreter":
            found.append(Offered(name=word, kind="code"))
        elif word not in ("function", "custom", "namespace"):
            found.append(Offered(name=word, kind="other"))
    return tuple(found)


def _choice(given: Any) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return "auto"
    if given.get("type") == "allowed_tools":
        return str(given.get("mode") or "auto")
    return str(given.get("name") or "required")


def _said(opened: Opened) -> Iterator[Said]:
    names: dict[Any, str] = {}
    for item in _resolved(opened):
        kind = kind_of(item)
        if kind == "message":
            yield Said(role=_AS.get(item["role"], "system"), text=says(item.get("content")))
        elif kind in ("function_call", "custom_tool_call"):
            names[item.get("call_id")] = item["name"]
            given = item.get("arguments") if kind == "function_call" else item.get("input")
            yield Said(role="assistant", calls=((item["name"], given if isinstance(given, str) else ""),))
        elif kind.endswith("call_output"):
            name = names.get(item.get("call_id"), "")
            yield Said(role="user", results=((name, says(item.get("output"))),))


def _turns(opened: Opened) -> int:
    """Count the answers so far. Items of one response are one answer even where outputs were put between them."""
    seals = opened.request.seals
    turns = 0
    inside = False
    answer = ""
    for item in _resolved(opened):
        if not is_ours(item):
            inside = False
            continue
        place = place_of(seals, item.get("id"))
        mine = place.response if place else xai_root(seals, item.get("id"))
        goes_on = mine == answer if mine and answer else inside
        turns += not goes_on
        answer = (mine or answer) if goes_on else mine
        inside = True
    return turns


def _size(opened: Opened, said: Iterable[Said]) -> int:
    body = opened.body
    words = [body.get("instructions") if isinstance(body.get("instructions"), str) else ""]
    pictures = 0
    for one in said:
        words += [one.text, *(text for pair in (*one.calls, *one.results) for text in pair)]
    for item in opened.items:
        content = item.get("content") or item.get("output")
        parts = content if isinstance(content, list) else []
        pictures += sum(isinstance(part, dict) and part.get("type") in ("input_image", "input_file") for part in parts)
    size = sum(tokens(word) + 1 for word in words if word) + pictures * _PICTURE + 6
    return size + tokens(jsonio.encode(body["tools"]).decode()) if body.get("tools") else size


def read(opened: Opened) -> Asked:
    """Say what is asked."""
    body, request = opened.body, opened.request
    reasoning = body.get("reasoning") or {}
    said = tuple(_said(opened))
    limit = body.get("max_output_tokens")
    given = (body.get("text") or {}).get("format") or {}
    form = given.get("type") if isinstance(given, dict) else None
    schema = given.get("schema") if form == "json_schema" else {} if form == "json_object" else None
    thinks = opened.model.reasons and effort_of(opened) != "none" and (bool(request.model) or request.style.thinks)
    return Asked(
        request=request,
        turn=_turns(opened),
        system="\n".join([*filter(None, [body.get("instructions")]), *(one.text for one in said if one.role == "system")]),
        said=tuple(one for one in said if one.role != "system"),
        tools=_offered(opened),
        choice=_choice(body.get("tool_choice")),
        parallel=body.get("parallel_tool_calls") is not False,
        think=thinks,
        show=request.style.name not in ("openai", "azure") or reasoning.get("summary") not in (None, "none"),
        max_tokens=limit if limit and limit > 0 else None,
        schema=schema if isinstance(schema, dict) else None,
        prompt_tokens=_size(opened, said),
    )  # fmt: skip
