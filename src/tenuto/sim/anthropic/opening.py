"""Opening a Messages request, and reading what it asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Literal

from tenuto.core import jsonio
from tenuto.sim.anthropic.models import ANY, facts
from tenuto.sim.anthropic.opened import Block, Message, Opened, is_server_result, is_server_use
from tenuto.sim.asked import Asked, Malformed, Offered, Request, Said
from tenuto.sim.mint import tokens

__all__ = ["AskedHere", "open_request", "prompt_tokens", "read"]

Kind = Literal["function", "search", "code", "other"]
_ROLES = ("user", "assistant", "system")
_MODES = ("adaptive", "enabled", "disabled", "between_tools")
_CHOICES = ("auto", "any", "tool", "none")
_ONLY_IN = {"tool_use": "assistant", "tool_result": "user", "thinking": "assistant", "redacted_thinking": "assistant"}
_NEEDS: dict[str, tuple[tuple[str, type], ...]] = {
    "text": (("text", str),),
    "tool_use": (("id", str), ("name", str)),
    "tool_result": (("tool_use_id", str),),
    "server_tool_use": (("id", str), ("name", str)),
    "mcp_tool_use": (("id", str), ("name", str)),
    "image": (("source", dict),),
    "document": (("source", dict),),
}
_WORDS = {str: "string", dict: "dictionary", list: "list", int: "integer", bool: "boolean"}
_MEDIA_TOKENS = 1_600
_OPAQUE = ("signature", "data", "encrypted_content", "encrypted_index", "encrypted_stdout")


class AskedHere(Asked, frozen=True, kw_only=True):
    """What is asked, with the request it was read from."""

    opened: Opened


def open_request(request: Request) -> Opened:
    """Open a request. Raise `Malformed` for whatever has the wrong shape."""
    body = request.body
    _typed(body, "model", (str,), may="anthropic_version" in body)  # a cloud has it in the address
    _typed(body, "messages", (list,))
    if not body["messages"]:
        raise Malformed("messages: at least one message is required", "/messages")
    _open_settings(body)
    _open_system(body.get("system"))
    _open_tools(body, counting=request.verb == "count_tokens")
    _open_thread(body.get("thread"))
    messages = tuple(_message(at, raw) for at, raw in enumerate(body["messages"]))
    headers = {name.lower(): value for name, value in request.headers.items()}
    betas = headers.get("anthropic-beta", "").replace(" ", "").split(",")
    return Opened(
        request=request,
        model=ANY if request.style.name == "deepseek" else facts(request.model),
        betas=frozenset(filter(None, [*betas, *_strings(body.get("anthropic_beta"))])),
        messages=messages,
        merged=_merged(messages),
    )


def _wrong(path: str, kind: type) -> Malformed:
    return Malformed(f"{path}: Input should be a valid {_WORDS[kind]}", "/" + path.replace(".", "/"))


def _typed(values: Mapping[str, Any], name: str, kinds: tuple[type, ...], *, path: str = "", may: bool = False) -> Any:
    where = f"{path}.{name}" if path else name
    value = values.get(name)
    if value is None:
        if may:
            return None
        raise Malformed(f"{where}: Field required", "/" + where.replace(".", "/"))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _wrong(where, kinds[0])
    return value


def _open_settings(body: dict[str, Any]) -> None:
    for name in (
        "thinking",
        "tool_choice",
        "output_config",
        "metadata",
        "cache_control",
        "context_management",
        "thread",
    ):
        _typed(body, name, (dict,), may=True)
    for name in ("stop_sequences", "mcp_servers"):
        _typed(body, name, (list,), may=True)
    _typed(body, "max_tokens", (int,), may=True)
    _typed(body.get("output_config") or {}, "effort", (str,), path="output_config", may=True)
    _tagged(body, "thinking", _MODES)
    _tagged(body, "tool_choice", _CHOICES)
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        _typed(thinking, "budget_tokens", (int,), path="thinking.enabled")
    _typed(thinking, "block_binding", (dict,), path="thinking", may=True)
    if (body.get("tool_choice") or {}).get("type") == "tool":
        _typed(body["tool_choice"], "name", (str,), path="tool_choice.tool")


def _tagged(body: dict[str, Any], name: str, tags: tuple[str, ...]) -> None:
    value = body.get(name)
    if value is None:
        return
    tag = _typed(value, "type", (str,), path=name)
    if tag not in tags:
        known = ", ".join(f"'{known}'" for known in tags)
        raise Malformed(
            f"{name}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {known}", f"/{name}"
        )


def _open_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise Malformed("system: Input should be a valid list", "/system")
    for at, block in enumerate(system):
        if not isinstance(block, dict):
            raise _wrong(f"system.{at}", dict)
        if _typed(block, "type", (str,), path=f"system.{at}") != "text":
            raise Malformed(f"system.{at}.type: Input should be 'text'", f"/system/{at}/type")
        _typed(block, "text", (str,), path=f"system.{at}")


def _open_thread(thread: dict[str, Any] | None) -> None:
    """Turn away what goes on with a conversation that the provider holds: none is held here, as after it was lost."""
    if thread and thread.get("type") == "continue":
        _typed(thread, "previous_message_id", (str,), path="thread.continue")
        told = "thread: no thread was found for `previous_message_id`; send the whole conversation to start a new one"
        raise Malformed(told, "/thread/previous_message_id", status=404, code="thread_not_found")


def _open_tools(body: dict[str, Any], *, counting: bool) -> None:
    for at, tool in enumerate(_typed(body, "tools", (list,), may=True) or []):
        if not isinstance(tool, dict):
            raise _wrong(f"tools.{at}", dict)
        kind = _typed(tool, "type", (str,), path=f"tools.{at}", may=True) or "custom"
        _typed(tool, "name", (str,), path=f"tools.{at}", may=True)
        if kind == "custom":
            _typed(tool, "name", (str,), path=f"tools.{at}.custom")
            _typed(tool, "input_schema", (dict,), path=f"tools.{at}.custom")
        elif counting and _kind(kind) in ("search", "code"):
            raise Malformed(f"tools.{at}: Server tools are not supported in the count_tokens endpoint.", f"/tools/{at}")
    if counting and body.get("mcp_servers"):
        raise Malformed("mcp_servers: MCP servers are not supported in the count_tokens endpoint.", "/mcp_servers")


def _message(at: int, raw: Any) -> Message:
    path = f"messages.{at}"
    if not isinstance(raw, dict):
        raise _wrong(path, dict)
    role = _typed(raw, "role", (str,), path=path)
    if role not in _ROLES:
        known = "'user', 'assistant' or 'system'"
        raise Malformed(f"{path}.role: Input should be {known}", f"/messages/{at}/role")
    if raw.get("content") is None:
        raise Malformed(f"{path}.content: Field required", f"/messages/{at}/content")
    content = raw["content"]
    if isinstance(content, str):
        said = (Block({"type": "text", "text": content}, at, 0, plain=True),) if content else ()
        return Message(role, at, said)
    if not isinstance(content, list):
        raise _wrong(f"{path}.content", list)
    return Message(role, at, tuple(_block(block, role, at, place) for place, block in enumerate(content)))


def _block(raw: Any, role: str, i: int, j: int) -> Block:
    path = f"messages.{i}.content.{j}"
    if not isinstance(raw, dict):
        raise _wrong(path, dict)
    type = _typed(raw, "type", (str,), path=path)
    served = is_server_use(type) or is_server_result(type)
    home = "assistant" if served else _ONLY_IN.get(type, role)
    if home != role:
        raise Malformed(f"messages.{i}: `{type}` blocks can only be in `{home}` messages", f"/messages/{i}")
    needs = _NEEDS.get(type, (("tool_use_id", str),) if is_server_result(type) else ())
    for name, kind in needs:
        _typed(raw, name, (kind,), path=f"{path}.{type}")
    if type == "tool_result":
        content = _typed(raw, "content", (list, str), path=f"{path}.{type}", may=True)
        for at, inner in enumerate(content if isinstance(content, list) else []):
            _inner(inner, f"{path}.tool_result.content.{at}")
    return Block(raw, i, j)


def _inner(raw: Any, path: str) -> None:
    if not isinstance(raw, dict):
        raise _wrong(path, dict)
    type = _typed(raw, "type", (str,), path=path)
    for name, kind in _NEEDS.get(type, ()):
        _typed(raw, name, (kind,), path=f"{path}.{type}")


def _merged(messages: Iterable[Message]) -> tuple[Message, ...]:
    joined = [(role, list(run)) for role, run in groupby(messages, key=lambda message: message.role)]
    return tuple(
        run[0]
        if len(run) == 1
        else Message(role, run[0].i, tuple(block for message in run for block in message.blocks))
        for role, run in joined
    )


def _strings(value: Any) -> list[str]:
    return [found for found in value if isinstance(found, str)] if isinstance(value, list) else []


def read(opened: Opened) -> Asked:
    """Say what is asked."""
    body = opened.body
    choice = body.get("tool_choice") or {}
    form = (body.get("output_config") or {}).get("format") or body.get("output_format")
    return AskedHere(
        opened=opened,
        request=opened.request,
        turn=sum(message.role == "assistant" for message in opened.messages),
        system=_system(body.get("system")),
        said=tuple(_said(opened)),
        tools=tuple(_offered(tool) for tool in opened.tools),
        choice={"any": "required", "tool": choice.get("name")}.get(opened.choice, opened.choice) or "auto",
        parallel=not choice.get("disable_parallel_tool_use"),
        think=opened.thinks,
        show=opened.shows,
        max_tokens=body.get("max_tokens"),
        stop=tuple(filter(None, _strings(body.get("stop_sequences")))),
        schema=form.get("schema") if isinstance(form, dict) and isinstance(form.get("schema"), dict) else None,
        prompt_tokens=prompt_tokens(body),
    )


def _system(system: str | list[dict[str, Any]] | None) -> str:
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system or [])


def _said(opened: Opened) -> Iterable[Said]:
    names = {block.raw["id"]: block.raw["name"] for block in opened.blocks("tool_use")}
    for message in opened.messages:
        yield Said(
            role=_role(message.role),
            text="".join(block.raw["text"] for block in message.of("text")),
            calls=tuple(
                (block.raw["name"], jsonio.encode(block.raw.get("input")).decode()) for block in message.of("tool_use")
            ),
            results=tuple(
                (names.get(block.raw["tool_use_id"], ""), _result(block.raw.get("content")))
                for block in message.of("tool_result")
            ),
        )


def _role(role: str) -> Literal["system", "user", "assistant"]:
    return "system" if role == "system" else "user" if role == "user" else "assistant"


def _result(content: Any) -> str:
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content if block["type"] == "text")
    return content or ""


def _kind(type: str) -> Kind:
    if type == "custom":
        return "function"
    starts: dict[str, Kind] = {"web_search": "search", "web_fetch": "search", "code_execution": "code"}
    return next((kind for start, kind in starts.items() if type.startswith(start)), "other")


def _offered(tool: dict[str, Any]) -> Offered:
    schema, description, name = tool.get("input_schema"), tool.get("description"), tool.get("name")
    return Offered(
        name=name if isinstance(name, str) else str(tool.get("type")),
        description=description if isinstance(description, str) else "",
        schema=schema if isinstance(schema, dict) else {},
        kind=_kind(tool.get("type") or "custom"),
    )


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Return how large the prompt is, about: a picture or a document has a fixed size, tokens have none."""
    return 3 + sum(_size(body.get(name)) for name in ("system", "tools", "messages"))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return tokens(value)
    if isinstance(value, dict):
        if value.get("type") in ("image", "document"):
            return _media(value.get("source")) + _size(value.get("title"))
        return sum(1 + _size(inner) for name, inner in value.items() if name not in _OPAQUE and name != "cache_control")
    if isinstance(value, list):
        return sum(map(_size, value))
    return 1


def _media(source: Any) -> int:
    if isinstance(source, dict) and source.get("type") in ("text", "content"):
        return _size(source.get("data")) + _size(source.get("content"))
    return _MEDIA_TOKENS
