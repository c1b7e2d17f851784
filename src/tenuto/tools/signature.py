"""What a function takes: the parameters that a model fills, those that we fill, and the schema that tells a model."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from tenuto.core import jsonio
from tenuto.schema.from_types import schemas_from_types, select_definitions
from tenuto.tools.execution import ToolContext

__all__ = ["Parameter", "Signature", "read_docstring", "read_signature", "type_origin"]

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params)\s*:\s*")
_GOOGLE_ITEM = re.compile(r"\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_FIELD = re.compile(r"\s*:(\w+)([^:]*):\s*(.*)")
_SPHINX = ("param", "parameter", "arg", "argument", "key", "keyword")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_RULER = re.compile(r"-{3,}\s*")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return what is said of the function, and what is said of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    for at, line in enumerate(lines):
        after = lines[at + 1 :]
        if _GOOGLE.fullmatch(line):
            # Nothing before the list: its indentation was taken for that of the source.
            return _joined(lines[:at]), _join_description(_google(after if at else [f"    {line}" for line in after]))
        if line.strip() == "Parameters" and after and _RULER.fullmatch(after[0]):
            return _joined(lines[:at]), _join_description(_numpy(after[1:]))
        field = _FIELD.fullmatch(line)
        if field and field[1] in (*_SPHINX, "type"):
            return _joined(lines[:at]), _join_description(_sphinx(lines[at:]))
    return _joined(lines), {}


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip()


def _join_description(pieces: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Join what is said of each name to one paragraph."""
    found: dict[str, list[str]] = {}
    for name, piece in pieces:
        found.setdefault(name, []).append(piece.strip())
    joined = {name: " ".join(filter(None, held)) for name, held in found.items()}
    return {name: said for name, said in joined.items() if name and said}


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Read an indented list. A line that is indented more than the first one goes on with the item before."""
    name, margin = "", 0
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if not indent:
            return
        margin = margin or indent
        item = _GOOGLE_ITEM.fullmatch(line) if indent <= margin else None
        name = item[1] if item else name
        yield name, item[2] if item else line


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Read names at the margin, each with an indented text below it, up to the next underlined heading."""
    names: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _RULER.fullmatch(below):
            return
        item = _NUMPY_ITEM.fullmatch(line)
        if item and not line.startswith(" "):
            names = [name.strip() for name in item[1].split(",")]
        else:
            yield from ((name, line) for name in names)


def _sphinx(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Read fields. A parameter's type may stand before its name; indented lines go on with the field before."""
    name = ""
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field:
            words = field[2].split()
            name = words[-1].lstrip("*") if words and field[1] in _SPHINX else ""
            yield name, field[3]
        elif line.strip():
            yield name, line


_NO_WAY_IN = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional only, and a model names its arguments",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, and a model names each",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, and a model has to be told which there are",
}

_FORMATS = {dt.datetime: "date-time", dt.time: "time"}


class Parameter(msgspec.Struct, frozen=True, eq=False):
    """One parameter that a model fills: its name, its type, and its default (`inspect.Parameter.empty` for none)."""

    name: str
    kind: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether a call has to give it."""
        return self.default is inspect.Parameter.empty


class Signature(msgspec.Struct, frozen=True, eq=False):
    """The parameters that a model fills, and the names of those that take the `ToolContext`."""

    parameters: tuple[Parameter, ...]
    contexts: tuple[str, ...]

    def schema(self, tool: str, said: Mapping[str, str]) -> dict[str, Any]:
        """Describe the parameters as an object; `said` is what the docstring says of each.

        Raise `TypeError`, naming the parameter, for a type that has no JSON Schema.
        """
        schemas, held = _schemas(tool, self.parameters)
        properties = {
            parameter.name: _property(schema, parameter, said.get(parameter.name, ""))
            for parameter, schema in zip(self.parameters, schemas, strict=True)
        }
        return {
            "type": "object",
            "properties": properties,
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
            **select_definitions(held, schemas),
        }


def type_origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it was written, without wrappers."""
    while isinstance(function, functools.partial):
        function = function.func
    written: Callable[..., Any] = inspect.unwrap(function)
    return written


def read_signature(tool: str, function: Callable[..., Any]) -> Signature:
    """Read what a function takes; raise `TypeError`, naming the parameter, for one that nobody could fill."""
    taken: list[Parameter] = []
    contexts: list[str] = []
    for at, found in enumerate(inspect.signature(function).parameters.values()):
        if found.kind in _NO_WAY_IN:
            raise TypeError(f"tool {tool!r}: parameter {found.name!r} {_NO_WAY_IN[found.kind]}")
        if at == 0 and found.name in ("self", "cls"):
            raise TypeError(
                f"tool {tool!r}: parameter {found.name!r} is not the model's to give; make a tool of the bound "
                "method: tool(object.method)"
            )
        kind = _kind(tool, function, found)
        if _takes_context(kind):
            contexts.append(found.name)
        else:
            taken.append(Parameter(found.name, kind, found.default))
    return Signature(tuple(taken), tuple(contexts))


def _kind(tool: str, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter; one that is written as a string is looked up where the function was written."""
    if parameter.annotation is parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
    written = type_origin(function)
    names = getattr(written, "__globals__", None) or getattr(type(written).__call__, "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError) as exc:
        raise TypeError(
            f"tool {tool!r}: the type of parameter {parameter.name!r} cannot be read: {exc}; "
            "it has to be known at the module's level"
        ) from exc


def _takes_context(kind: Any) -> bool:
    """Tell whether a type is `ToolContext`, or `ToolContext | None`."""
    return kind is ToolContext or any(_takes_context(inner) for inner in _choices(kind))


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the types that a union, or an annotated type, is made of."""
    if typing.get_origin(kind) is Annotated:
        return typing.get_args(kind)[:1]
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()


def _schemas(tool: str, found: Sequence[Parameter]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    try:
        return schemas_from_types([_dated(parameter.kind) for parameter in found])
    except TypeError:
        for parameter in found:  # which of them was it?
            try:
                schemas_from_types([parameter.kind])
            except TypeError as exc:
                raise TypeError(
                    f"tool {tool!r}: parameter {parameter.name!r} has a type without a JSON Schema: {exc}"
                ) from exc
        raise


def _dated(kind: Any) -> Any:
    """Have a moment's schema name its format, which msgspec does only where the time zone is given, too."""
    if isinstance(kind, type) and kind in _FORMATS:
        return Annotated[kind, msgspec.Meta(extra_json_schema={"format": _FORMATS[kind]})]
    choices = () if typing.get_origin(kind) is Annotated else _choices(kind)
    return functools.reduce(operator.or_, map(_dated, choices)) if choices else kind


def _property(schema: dict[str, Any], parameter: Parameter, said: str) -> dict[str, Any]:
    """Add what is said of a parameter, unless its type says it, and the default, if JSON can say it.

    A string inside `Annotated` stands closer to the parameter than the docstring.
    """
    told = _told(parameter.kind) or said
    written = {"description": told, **schema} if told else dict(schema)
    if not parameter.required:
        with contextlib.suppress(TypeError, jsonio.JsonError):
            written["default"] = jsonio.parse(jsonio.encode(parameter.default))
    return written


def _told(kind: Any) -> str:
    if typing.get_origin(kind) is not Annotated:
        return ""
    return next((extra for extra in typing.get_args(kind)[1:] if isinstance(extra, str)), "")
