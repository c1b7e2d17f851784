"""`Tool`, a tool as a value, and `@tool`, which makes one from the signature and the docstring of a function."""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import functools
import inspect
import logging
import math
import operator
import re
import types
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, get_args, overload

import msgspec

from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView
from tenuto.core.request import ToolDefinition
from tenuto.schema.from_types import parse_as, schemas_from_types, select_definitions
from tenuto.schema.validate import INVALID_SCHEMA, find_problems
from tenuto.tools.execution import ToolContext, is_async, to_text

P = ParamSpec("P")
R = TypeVar("R")

Effect: TypeAlias = Literal["pure", "idempotent", "keyed", "once"]
"""Whether a call that was interrupted may run again.

`pure` and `idempotent`: it may. `keyed`: it may, with the same key. `once`: it may not.
"""
Approval: TypeAlias = bool | Callable[..., bool]
"""Whether a call needs approval before it runs: always, never, or decided by a function of its arguments."""
ToolFunction: TypeAlias = Callable[[Mapping[str, Any], ToolContext], Any | Awaitable[Any]]

MAX_OUTPUT = 50_000
"""The default of `max_output`: about 12,000 tokens, so that ten such results fit the context of most models."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
log = logging.getLogger("tenuto")


class Tool:
    """A tool that a model may call.

    `name`: 1 to 64 letters, digits, `_` and `-`.
    `description`: tells the model what the tool does.
    `parameters`: the JSON Schema of the arguments, of type `object`.
    `call`: runs a call; it receives the arguments by name and the context. A function that is not `async` runs in a
    thread.
    `effect`: whether a call that was interrupted may run again.
    `approval`: whether a call needs approval. A function receives the arguments by name; if it raises, approval is needed.
    `timeout`: in seconds; None means no limit.
    `root`: the absolute directory that the tool works in; empty if it needs none. A resumed session keeps its directory,
    so `call` must use `context.root`.
    `max_output`: the number of characters of a result that the model receives; the middle of a longer text is cut.
    `check`: receives the arguments as plain JSON values and returns those for `call`. The model receives the message of
    its `ValueError`. By default, the arguments are validated with `parameters`.

    Raise `ValueError` or `TypeError` for an option that is not valid.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        call: ToolFunction,
        *,
        effect: Effect = "once",
        approval: Approval = False,
        timeout: float | None = None,
        root: str = "",
        max_output: int = MAX_OUTPUT,
        check: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"invalid tool name {name!r}: use 1 to 64 letters, digits, '_' and '-', as in name='add'")
        if not isinstance(description, str):
            raise TypeError(f"tool {name!r}: description={description!r:.100} is not a string")
        if not callable(call):
            raise TypeError(f"tool {name!r}: call={call!r:.100} is not a function of the arguments and the context")
        if effect not in get_args(Effect):
            raise ValueError(f"tool {name!r}: effect={effect!r} is not one of {', '.join(get_args(Effect))}")
        if inspect.iscoroutinefunction(approval):
            raise TypeError(f"tool {name!r}: approval= is not awaited: use a function that is not async")
        if not isinstance(approval, bool) and not callable(approval):
            raise TypeError(f"tool {name!r}: approval={approval!r} is not True, False or a function of the arguments")
        if timeout is not None and not 0 < timeout < math.inf:
            raise ValueError(f"tool {name!r}: timeout={timeout!r} is not a positive number of seconds; None: no limit")
        if root and not Path(root).is_absolute():
            raise ValueError(f"tool {name!r}: root={root!r} is not an absolute path: use str(Path(root).resolve())")
        if max_output < 1:
            raise ValueError(f"tool {name!r}: max_output={max_output!r} is not a positive number of characters")
        self.name = name
        self.description = description
        self.parameters = _read_schema(name, parameters)
        self.call = call
        self.effect = effect
        self.approval = approval
        self.timeout = timeout
        self.root = root
        self.max_output = max_output
        self.check = check
        self._defaults: dict[str, Any] = {}
        self.definition = ToolDefinition(name, description, self.parameters)
        """The definition that is sent to the model."""

    def read_arguments(self, call: ToolCallView) -> Mapping[str, Any]:
        """Return the arguments of a call. Raise `BadArguments` with a message for the model if they are not valid."""
        name = self.name
        if call.kind != "function":
            raise BadArguments(
                f"{name} is called with a JSON object of arguments, not as a {call.kind} call. Call it as a function."
            )
        if call.broken:
            raise BadArguments(
                f"The arguments for {name} are not JSON: {call.broken}. Call it again with one JSON object."
            )
        try:
            return self._parse(call.args)
        except ValueError as exc:
            raise BadArguments(
                f"The arguments for {name} do not fit, and it was not run. {exc}. Correct them and call it again."
            ) from exc
        except Exception as exc:  # custom argument types and checks may raise anything
            log.debug("tool %s: cannot read the arguments", name, exc_info=True)
            raise BadArguments(f"The arguments for {name} cannot be read, and it was not run. {to_text(exc)}") from exc

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if a call with these arguments, and the defaults of the others, needs approval."""
        if isinstance(self.approval, bool):
            return self.approval
        try:
            return bool(self.approval(**{**self._defaults, **arguments}))
        except Exception:
            log.debug("tool %s: approval= raised, so the call needs approval", self.name, exc_info=True)
            return True

    def at_root(self, root: str) -> Self:
        """Return the tool for another directory. Raise `NotADirectoryError` if it does not exist."""
        if root == self.root:
            return self
        if not Path(root).is_dir():
            raise NotADirectoryError(f"{root!r} is not a directory: choose an existing one for tool {self.name!r}")
        other = copy.copy(self)
        other.root = root
        return other

    def _parse(self, text: str) -> Mapping[str, Any]:
        """Read and check the arguments, without nulls that a strict schema made the model write."""
        arguments: Mapping[str, Any] = {name: jsonio.parse(raw) for name, raw in read_members(text).items()}
        if self.check is not None:
            return self.check(arguments)
        scope: dict[str, Any] = {key: self.parameters.get(key, {}) for key in ("$defs", "definitions", "properties")}
        required = self.parameters.get("required", ())
        arguments = {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required or not find_problems({name: None}, scope)
        }
        problems = find_problems(arguments, self.parameters)
        if problems:
            raise BadArguments("; ".join(problems))
        return arguments

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function by `@tool`. Calling it calls the function.

    `options` are those of `Tool`. Raise `TypeError` for a parameter that a model cannot fill.
    """

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self, function: Callable[P, R], *, name: str | None = None, description: str | None = None, **options: Any
    ) -> None:
        functools.update_wrapper(self, function)
        name = name if name is not None else getattr(function, "__name__", "")
        text, parameter_texts = read_docstring(type_origin(function).__doc__)
        self.signature = read_signature(name, function)
        if options.get("effect") == "keyed" and not self.signature.contexts:
            raise TypeError(
                f"tool {name!r}: effect='keyed' needs the key of the call: add a parameter annotated ToolContext and pass "
                "its .key to the system that does the work"
            )
        parameters = self.signature.schema(name, parameter_texts)
        description = text if description is None else description
        super().__init__(name, description, parameters, self._bind(function), **options)
        self._defaults = {each.name: each.default for each in self.signature.parameters if not each.required}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def _bind(self, function: Callable[..., Any]) -> ToolFunction:
        """Make the tool call this function. Return the function for `call`."""
        contexts = self.signature.contexts

        def call(arguments: Mapping[str, Any], context: ToolContext) -> Any:
            return function(**arguments, **dict.fromkeys(contexts, context))

        async def call_async(arguments: Mapping[str, Any], context: ToolContext) -> Any:
            value = function(**arguments, **dict.fromkeys(contexts, context))
            return await value if isinstance(value, Awaitable) else value

        self.__wrapped__ = function
        self.call = call_async if is_async(function) else call
        return self.call

    def _parse(self, text: str) -> Mapping[str, Any]:
        return parse_arguments(self.signature, text, self.parameters)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    approval: Approval = False,
    max_output: int = MAX_OUTPUT,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    approval: Approval = False,
    max_output: int = MAX_OUTPUT,
) -> Any:
    """Make a tool from a function: `@tool`, or `@tool(effect="pure", timeout=30)`; the options are those of `Tool`.

    The name, the docstring up to its `Args:`, the entries there and the types of the parameters describe the tool to the
    model. A parameter without a type takes any value. A parameter annotated `ToolContext` receives the context.

    Raise `TypeError` or `ValueError`, with the name of the parameter, if a model could not call the function.
    """

    make_tool = functools.partial(
        FunctionTool,
        name=name,
        description=description,
        effect=effect,
        timeout=timeout,
        approval=approval,
        max_output=max_output,
    )
    return make_tool if function is None else make_tool(function)


def _read_schema(tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema as plain values. Raise `TypeError` or `ValueError` if it cannot describe arguments."""
    if not isinstance(schema, Mapping):
        raise TypeError(f"tool {tool!r}: parameters={schema!r:.100} is not a JSON Schema: use a dictionary")
    example = "{'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}"
    if schema.get("type") != "object":
        raise ValueError(f"tool {tool!r}: parameters must have the type 'object', as in {example}")
    try:
        plain: dict[str, Any] = jsonio.parse(jsonio.encode(schema))
    except (TypeError, jsonio.JsonError) as exc:
        raise ValueError(f"tool {tool!r}: parameters cannot be written as JSON: {exc}") from exc
    problems = [problem for problem in find_problems({}, plain) if INVALID_SCHEMA in problem] or [
        f"/properties/{name}: {value!r:.60} is not a schema"
        for name, value in plain.get("properties", {}).items()
        if not isinstance(value, dict | bool)
    ]
    if problems:
        raise ValueError(f"tool {tool!r}: parameters are not a valid JSON Schema: {'; '.join(problems)}")
    return plain


# --- signatures and arguments ------------------------------------------------------------------------------------------


_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params)\s*:\s*")
_GOOGLE_ITEM = re.compile(r"\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_SPHINX_FIELD = re.compile(r"\s*:(\w+)([^:]*):\s*(.*)")
_SPHINX_NAMES = ("param", "parameter", "arg", "argument", "key", "keyword")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_NUMPY_RULE = re.compile(r"-{3,}\s*")

_UNSUPPORTED = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, but models pass arguments by name",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, but models pass arguments by name",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, but a model needs the names",
}
_FORMATS = {dt.datetime: "date-time", dt.time: "time"}
_MAX_TEXT = 400  # limit for the characters of a schema or of one problem in a message


class BadArguments(ValueError):
    """The arguments of a call are not valid. The message names the problems and the expected types."""


class Parameter(msgspec.Struct, frozen=True, eq=False):
    """A parameter that the model fills."""

    name: str
    type: Any
    default: Any
    required: bool
    """Whether a call must have the argument: it has no default."""


class Signature(msgspec.Struct, frozen=True, eq=False):
    parameters: tuple[Parameter, ...]
    """Those that the model fills."""
    contexts: tuple[str, ...]
    """The names of those that receive the `ToolContext`."""

    def schema(self, tool: str, descriptions: Mapping[str, str]) -> dict[str, Any]:
        """Return the JSON Schema of the arguments. Raise `TypeError` for a parameter whose type has none."""
        for parameter in self.parameters:
            try:
                schemas_from_types([parameter.type])
            except TypeError as exc:
                name = parameter.name
                raise TypeError(f"tool {tool!r}: the type of parameter {name!r} has no JSON Schema: {exc}") from exc
        schemas, definitions = schemas_from_types([_with_format(parameter.type) for parameter in self.parameters])
        properties = {
            parameter.name: _to_property(schema, parameter, descriptions.get(parameter.name, ""))
            for parameter, schema in zip(self.parameters, schemas, strict=True)
        }
        return {
            "type": "object",
            "properties": properties,
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
            **select_definitions(definitions, schemas),
        }


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of the function and those of its parameters (Google, NumPy or Sphinx style)."""
    lines = inspect.cleandoc(text or "").splitlines()
    for index, line in enumerate(lines):
        rest = lines[index + 1 :]
        field = _SPHINX_FIELD.fullmatch(line)
        if _GOOGLE.fullmatch(line):
            # cleandoc removes the indentation of a list that follows the first line
            items = _google_items(rest if index else [f"    {line}" for line in rest])
        elif line.strip() == "Parameters" and rest and _NUMPY_RULE.fullmatch(rest[0]):
            items = _numpy_items(rest[1:])
        elif field and field[1] in (*_SPHINX_NAMES, "type"):
            items = _sphinx_items(lines[index:])
        else:
            continue
        texts: dict[str, list[str]] = {}
        for name, part in items:
            texts.setdefault(name, []).append(part.strip())
        joined = {name: " ".join(filter(None, parts)) for name, parts in texts.items()}
        return "\n".join(lines[:index]).strip(), {name: text for name, text in joined.items() if name and text}
    return "\n".join(lines).strip(), {}


def _google_items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and line. A line with more indentation than the first one continues the previous item."""
    name, margin = "", 0
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if not indent:
            return
        margin = margin or indent
        item = _GOOGLE_ITEM.fullmatch(line) if indent <= margin else None
        name = item[1] if item else name
        yield name, item[2] if item else line


def _numpy_items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and line, up to the next underlined heading. The text of a name is indented below it."""
    names: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _NUMPY_RULE.fullmatch(below):
            return
        item = _NUMPY_ITEM.fullmatch(line)
        if item and not line.startswith(" "):
            names = [name.strip() for name in item[1].split(",")]
        else:
            yield from ((name, line) for name in names)


def _sphinx_items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and line. A type may precede the name; other lines continue the previous field."""
    name = ""
    for line in lines:
        field = _SPHINX_FIELD.fullmatch(line)
        if field:
            words = field[2].split()
            name = words[-1].lstrip("*") if words and field[1] in _SPHINX_NAMES else ""
            yield name, field[3]
        elif line.strip():
            yield name, line


def type_origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside partials and wrappers."""
    while isinstance(function, functools.partial):
        function = function.func
    origin: Callable[..., Any] = inspect.unwrap(function)
    return origin


def read_signature(tool: str, function: Callable[..., Any]) -> Signature:
    """Read the parameters of a function. Raise `TypeError`, with its name, for one that a model cannot fill."""
    parameters: list[Parameter] = []
    contexts: list[str] = []
    for index, each in enumerate(inspect.signature(function).parameters.values()):
        if each.kind in _UNSUPPORTED:
            raise TypeError(f"tool {tool!r}: parameter {each.name!r} {_UNSUPPORTED[each.kind]}")
        if index == 0 and each.name in ("self", "cls"):
            raise TypeError(
                f"tool {tool!r}: a model cannot fill parameter {each.name!r}; use the bound method: tool(object.method)"
            )
        annotation = _read_annotation(tool, function, each)
        if _is_context(annotation):
            contexts.append(each.name)
        else:
            parameters.append(Parameter(each.name, annotation, each.default, each.default is each.empty))
    return Signature(tuple(parameters), tuple(contexts))


def _read_annotation(tool: str, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter. Names in strings are resolved in the module of the function."""
    if parameter.annotation is parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
    origin = type_origin(function)
    names = getattr(origin, "__globals__", None) or getattr(type(origin).__call__, "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError) as exc:
        raise TypeError(
            f"tool {tool!r}: cannot resolve the type of parameter {parameter.name!r}: {exc}; define it at module level"
        ) from exc


def _is_context(annotation: Any) -> bool:
    is_context = ToolContext in (annotation, typing.get_origin(annotation))
    return is_context or any(map(_is_context, _union_members(annotation)))


def _union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the types in a union, or the type in `Annotated`."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return typing.get_args(annotation)[:1]
    return typing.get_args(annotation) if origin in (typing.Union, types.UnionType) else ()


def _with_format(annotation: Any) -> Any:
    """Add the format to the schema of a time; msgspec adds it only if the type has a time zone."""
    if isinstance(annotation, type) and annotation in _FORMATS:
        return Annotated[annotation, msgspec.Meta(extra_json_schema={"format": _FORMATS[annotation]})]
    members = () if typing.get_origin(annotation) is Annotated else _union_members(annotation)
    return functools.reduce(operator.or_, map(_with_format, members)) if members else annotation


def _to_property(schema: dict[str, Any], parameter: Parameter, description: str) -> dict[str, Any]:
    """Add the description, unless `Annotated` has one in the schema, and the default, if it can be written as JSON."""
    extras = typing.get_args(parameter.type)[1:] if typing.get_origin(parameter.type) is Annotated else ()
    description = next((extra for extra in extras if isinstance(extra, str)), "") or description
    written = {"description": description, **schema} if description else dict(schema)
    if not parameter.required:
        with contextlib.suppress(TypeError, jsonio.JsonError):
            written["default"] = jsonio.parse(jsonio.encode(parameter.default))
    return written


def parse_arguments(signature: Signature, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, without defaults. Raise `BadArguments` with all problems.

    A null for a parameter that has a default and cannot be null is omitted: providers that enforce a strict schema make
    the model write null for a value that it omits.
    """
    members = read_members(text)
    problems: list[str] = []
    arguments: dict[str, Any] = {}
    for parameter in signature.parameters:
        raw = members.pop(parameter.name, None)
        if raw is None and parameter.required:
            problems.append(f"{parameter.name}: missing{_expected(parameter, schema)}")
        elif raw is not None:
            try:
                arguments[parameter.name] = _parse_argument(raw, parameter.type)
            except ValueError as exc:
                if bytes(raw) != b"null" or parameter.required:
                    problems.append(f"{', '.join(_problems(parameter.name, exc))}{_expected(parameter, schema)}")
    known = ", ".join(parameter.name for parameter in signature.parameters) or "none"
    problems += [f"{_shorten(name)}: no such argument (there are: {known})" for name in members]
    if problems:
        raise BadArguments("; ".join(problems))
    return arguments


def read_members(text: str) -> dict[str, msgspec.Raw]:
    """Split the JSON object of arguments; empty text and `null` mean no arguments."""
    try:
        raw = jsonio.check(text.strip() or "{}")
        return jsonio.members(raw) if bytes(raw) != b"null" else {}
    except jsonio.JsonError as exc:
        raise BadArguments(f"expected one JSON object with the arguments by name: {exc}") from None


def _parse_argument(raw: msgspec.Raw, annotation: Any) -> Any:
    """Parse one argument. If it does not match, try whole floats as integers: in JSON Schema, 5.0 is an integer."""
    try:
        return parse_as(raw, annotation)
    except ValueError as first:
        if b"." not in bytes(raw) and b"e" not in bytes(raw).lower():
            raise
        try:
            return parse_as(jsonio.encode(_to_integers(jsonio.parse(raw))), annotation)
        except ValueError:
            raise first from None


def _to_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_integers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_to_integers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _problems(name: str, error: ValueError) -> Iterator[str]:
    """Yield the problems of an argument, each with its path."""
    cause: BaseException | None = error
    while cause is not None:
        errors = getattr(cause, "errors", None)  # pydantic: its message contains URLs
        if callable(errors):
            for problem in errors():
                yield _shorten(f"{'.'.join(map(str, (name, *problem['loc'])))}: {problem['msg']}")
            return
        cause = cause.__cause__
    message, _, path = str(error).partition(" - at `$")  # msgspec
    yield _shorten(f"{name}{path.removesuffix('`')}: {message}")


def _expected(parameter: Parameter, schema: Mapping[str, Any]) -> str:
    expected = {
        keyword: value
        for keyword, value in schema["properties"][parameter.name].items()
        if keyword not in ("description", "title", "default")
    }
    reference = str(expected.get("$ref", "")).removeprefix("#/$defs/")
    expected = schema.get("$defs", {}).get(reference, expected)
    return f" (expected {_shorten(jsonio.as_text(jsonio.encode(expected)))})" if expected else ""


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
