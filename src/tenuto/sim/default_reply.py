"""The reply without a script: call each offered tool once, give the smallest instance of a schema, or repeat the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from tenuto.core import jsonio
from tenuto.schema.validate import find_problems, resolve_ref
from tenuto.sim.dialects import InvalidRequest, OfferedTool, PastMessage, TurnRequest
from tenuto.sim.script import CallTool, Say, Think, Turn

DefaultTools: TypeAlias = Literal["each", "none"]
"""Which tools the default reply calls: each one, or none that the request does not force."""
THINKING = "I am a simulator: I repeat what I read."
GREETING = """\
**This is tenuto's simulator, not a model**, because no API key is set. It calls each tool once and repeats what it reads. \
Everything else is real: the session is stored, and you can resume it, audit it and hand it to another provider.

For replies of a model, run `tenuto keys set anthropic` or set `ANTHROPIC_API_KEY`; `tenuto providers` lists the others. \
The simulator read:"""
"""The first text of a session without a key; what the default reply repeats follows it."""
_NO_TEXT = "(no text)"
_HELP = "script the reply: Simulator.script(...), --script FILE or POST /_sim/script"
_MAX_NESTING = 32
_MAX_PARTS = 10_000
"""Limit for the schemas that are read for one instance."""
_MAX_LENGTH = 10_000
"""Limit for the characters and items that a schema may require."""
_FORMATS = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "a@example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_TYPE_KEYWORDS = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems"),
    "string": ("pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords that tell the type of a schema without `type`."""


def default_reply(request: TurnRequest, tools: DefaultTools = "each", greeting: str = "") -> Turn:
    """Return the reply to a request.

    `greeting` precedes the first text of a conversation. Raise `InvalidRequest` if no instance of a schema can be built.
    """
    thinking = (Think(THINKING),) if request.thinks else ()
    latest = _messages_since_prompt(request.messages)
    if calls := _calls(request, latest, tools):
        return (*thinking, *calls)
    if request.schema is not None:
        value = _instance(request.schema, "the answer")
        return (*thinking, Say(jsonio.encode(value).decode("utf-8", "replace")))
    results = [result for message in latest for result in message.results]
    prompt = next((texts[-1] for message in latest if (texts := message.texts) and message.role == "user"), "")
    echo = "\n".join(result or _NO_TEXT for result in results) or prompt or _NO_TEXT
    is_first = not any(message.role == "assistant" and message.text for message in request.messages)
    return (*thinking, Say(f"{greeting}\n\n{echo}" if greeting and is_first else echo))


def _messages_since_prompt(messages: Sequence[PastMessage]) -> Sequence[PastMessage]:
    """Return the messages from the last user text on. A text next to tool results belongs to these."""
    prompts = [
        index
        for index, message in enumerate(messages)
        if message.role == "user" and message.text.strip() and not message.results
    ]
    return messages[prompts[-1] :] if prompts else messages


def _calls(request: TurnRequest, latest: Sequence[PastMessage], tools: DefaultTools) -> list[CallTool]:
    offered, choice = request.tools, request.tool_choice
    if choice not in ("auto", "none"):
        offered = tuple(tool for tool in offered if tool.name == choice) or offered
    elif choice == "none" or tools == "none" or any(message.calls or message.role == "assistant" for message in latest):
        return []

    def arguments(tool: OfferedTool) -> dict[str, Any] | str:
        return "" if tool.is_custom else _instance(tool.schema, f"the arguments of {tool.name}")

    count = len(offered) if request.parallel and tools == "each" else 1
    return [CallTool(tool.name, arguments(tool)) for tool in offered[:count]]


def _instance(schema: dict[str, Any], purpose: str) -> Any:
    try:
        return smallest_instance(schema if _type(schema) else {**schema, "type": "object"})
    except NoInstance as exc:
        raise InvalidRequest(f"the simulator cannot build {purpose}: {exc}; {_HELP}") from None


class NoInstance(Exception):
    """No value of a schema can be built: the reason."""


class _TooDeep(NoInstance):
    pass


def smallest_instance(schema: dict[str, Any]) -> Any:
    """Return a value that a JSON Schema allows, with as little in it as possible. Raise `NoInstance`."""
    parts = 0
    for nesting in range(1, _MAX_NESTING + 1):
        builder = _InstanceBuilder(schema, parts)
        try:
            value = builder.build(schema, nesting)
        except _TooDeep:  # a shallow instance is the smallest one of a recursive schema
            parts = builder.parts
            continue
        except (ArithmeticError, AttributeError, TypeError, ValueError) as exc:
            raise NoInstance(f"invalid schema: {exc}") from exc
        if problems := find_problems(value, schema):
            raise NoInstance(problems[0])
        return value
    raise NoInstance(f"the schema requires more than {_MAX_NESTING} levels")


class _InstanceBuilder:
    """Build the smallest values of the parts of one schema."""

    def __init__(self, root: dict[str, Any], parts: int) -> None:
        self._root = root
        self.parts = parts

    def build(self, schema: Any, nesting: int) -> Any:
        """Return a value with at most `nesting` levels."""
        self.parts += 1
        if self.parts > _MAX_PARTS:
            raise NoInstance("the schema is too large")
        if nesting == 0:
            raise _TooDeep
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            target = resolve_ref(self._root, schema["$ref"])
            return self.build(_merge(_without(schema, "$ref"), target), nesting - 1)
        for part in schema.get("allOf", ()):
            schema = _merge(_without(schema, "allOf"), part)
        for keyword in ("anyOf", "oneOf"):
            if options := schema.get(keyword):
                return self._first([_merge(_without(schema, keyword), option) for option in options], nesting)
        if "const" in schema or schema.get("enum"):
            return schema["const"] if "const" in schema else schema["enum"][0]
        match _type(schema):
            case "object":
                properties, others = schema.get("properties", {}), schema.get("additionalProperties")
                names = schema.get("required", ())
                return {name: self.build(properties.get(name, others), nesting - 1) for name in names}
            case "array":
                items, prefix = schema.get("items"), schema.get("prefixItems", [])
                count = _required_length(schema, "minItems")
                parts = [prefix[index] if index < len(prefix) else items for index in range(count)]
                return [self.build(part, nesting - 1) for part in parts]
            case "string":
                return _string(schema)
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return False
        return None

    def _first(self, options: list[Any], nesting: int) -> Any:
        """Build the first option that can be built; null is the smallest."""
        errors: list[NoInstance] = []
        for option in sorted(options, key=lambda option: isinstance(option, dict) and option.get("type") != "null"):
            try:
                return self.build(option, nesting)
            except NoInstance as exc:
                errors.append(exc)
        raise next((error for error in errors if isinstance(error, _TooDeep)), errors[0])


def _type(schema: dict[str, Any]) -> str:
    """Return the type of the smallest instance; empty if the schema does not tell."""
    types = schema.get("type")
    if isinstance(types, list):
        return "null" if "null" in types else str(types[0])
    return types or next((name for name, keys in _TYPE_KEYWORDS.items() if any(key in schema for key in keys)), "")


def _without(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != keyword}


def _merge(schema: dict[str, Any], other: Any) -> Any:
    """Return a schema with the keywords of both; the validator finds what they contradict."""
    if not schema or not isinstance(other, dict):
        return other
    merged = {**schema, **other}
    if "properties" in schema and "properties" in other:
        merged["properties"] = {**schema["properties"], **other["properties"]}
    if "required" in schema and "required" in other:
        merged["required"] = list(dict.fromkeys((*schema["required"], *other["required"])))
    return merged


def _required_length(schema: dict[str, Any], keyword: str) -> int:
    length: int = math.ceil(schema.get(keyword, 0))
    if length > _MAX_LENGTH:
        raise NoInstance(f"{keyword} is {length}")
    return length


def _string(schema: dict[str, Any]) -> str:
    examples = (schema.get("default"), *schema.get("examples", ()), schema.get("example"))
    length = _required_length(schema, "minLength")
    for text in (*examples, _FORMATS.get(schema.get("format", ""), "x" * length)):
        if isinstance(text, str) and not find_problems(text, {**schema, "type": "string"}):
            return text
    raise NoInstance(f"no text for the pattern {schema['pattern']!r}" if "pattern" in schema else "no text fits")


def _number(schema: dict[str, Any]) -> float:
    """Return 0, or the number next to a limit."""
    limits = [schema[name] for name in _TYPE_KEYWORDS["number"][:-1] if name in schema]
    step = schema.get("multipleOf", 1)
    multiples = [(math.floor(limit / step) + more) * step for limit in limits for more in (0, 1, -1)]
    middle = [sum(limits) / len(limits)] if limits else []
    for number in (0, *limits, *multiples, *middle):
        value = int(number) if number == int(number) else number
        if not find_problems(value, _without(schema, "$defs")):
            return value
    raise NoInstance("no number fits")
