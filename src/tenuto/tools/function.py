"""`@tool`: a function that a model may call, still a function.

What the model is told is read off the function: its name, its docstring, and the types of its parameters.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tenuto.core import jsonio
from tenuto.core.request import ToolDefinition
from tenuto.core.schemas import definitions, schemas_of
from tenuto.tools.docs import read_docstring

__all__ = ["Tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_WAY_IN = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional only, and a model names its arguments",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments, and a model names each",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name, and a model has to be told which there are",
}


class Tool(Generic[P, R]):
    """A function with what a model is told of it; calling it calls the function.

    `parameters` is the JSON Schema of an object with one property for each parameter. Raise `TypeError` for a function
    whose parameters cannot be described, and `ValueError` for a name that providers refuse.
    """

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], *, name: str | None = None, description: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.name = _checked(name if name is not None else getattr(function, "__name__", ""))
        said, of_parameters = read_docstring(_origin(function).__doc__)
        self.description = said if description is None else description
        self.parameters = _parameters(self.name, function, of_parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return ToolDefinition(self.name, self.description, self.parameters)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(*, name: str | None = None, description: str | None = None) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **said: Any) -> Any:
    """Make a function, `async` or not, a tool: `@tool`, or `@tool(name=..., description=...)`.

    The docstring up to its `Args:` describes the tool, and the entries there its parameters; parameters may be of any
    type that has a JSON Schema, and one without a type takes any value. Raise `TypeError` or `ValueError`, naming the
    parameter or the name, where the model could not be told how to call it.
    """
    if function is None:
        return functools.partial(Tool, **said)
    return Tool(function, **said)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a tool: 1 to 64 letters, digits, '_' and '-'; give one as name=...")
    return name


def _origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it was written, without wrappers."""
    while isinstance(function, functools.partial):
        function = function.func
    written: Callable[..., Any] = inspect.unwrap(function)
    return written


# --- the schema -------------------------------------------------------------------------------------------------------


def _parameters(tool: str, function: Callable[..., Any], said: Mapping[str, str]) -> dict[str, Any]:
    """Describe the parameters as an object."""
    found = _taken(tool, function)
    kinds = [_kind(tool, function, parameter) for parameter in found]
    schemas, held = _schemas(tool, found, kinds)
    properties = {
        parameter.name: _property(schema, parameter, said.get(parameter.name, ""))
        for parameter, schema in zip(found, schemas, strict=True)
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [parameter.name for parameter in found if parameter.default is parameter.empty],
        "additionalProperties": False,
        **definitions(held, schemas),
    }


def _taken(tool: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    for at, parameter in enumerate(found):
        if parameter.kind in _NO_WAY_IN:
            raise TypeError(f"tool {tool!r}: parameter {parameter.name!r} {_NO_WAY_IN[parameter.kind]}")
        if at == 0 and parameter.name in ("self", "cls"):
            raise TypeError(
                f"tool {tool!r}: parameter {parameter.name!r} is not the model's to give; make a tool of the bound "
                "method: tool(object.method)"
            )
    return found


def _kind(tool: str, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter; one that is written as a string is looked up where the function was written."""
    if parameter.annotation is parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
    names = getattr(_origin(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=names, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError) as exc:
        raise TypeError(
            f"tool {tool!r}: the type of parameter {parameter.name!r} cannot be read: {exc}; "
            "it has to be known at the module's level"
        ) from exc


def _schemas(
    tool: str, found: list[inspect.Parameter], kinds: list[Any]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    try:
        return schemas_of(kinds)
    except TypeError:
        for parameter, kind in zip(found, kinds, strict=True):  # which of them was it?
            try:
                schemas_of([kind])
            except TypeError as exc:
                raise TypeError(
                    f"tool {tool!r}: parameter {parameter.name!r} has a type without a JSON Schema: {exc}"
                ) from exc
        raise


def _property(schema: dict[str, Any], parameter: inspect.Parameter, said: str) -> dict[str, Any]:
    """Add what the docstring says, unless the type says it, and the default, if JSON can say it."""
    written = {"description": said, **schema} if said else dict(schema)
    if parameter.default is not parameter.empty:
        with contextlib.suppress(TypeError, jsonio.JsonError):
            written["default"] = jsonio.parse(jsonio.encode(parameter.default))
    return written
