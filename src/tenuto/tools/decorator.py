"""`Tool`, a tool as a value, and `@tool`, which makes one from a function."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, get_args, overload

from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView
from tenuto.core.request import ToolDefinition
from tenuto.schema.validate import INVALID_SCHEMA, find_problems
from tenuto.tools.execution import ToolContext, is_async, to_text
from tenuto.tools.signature import (
    BadArguments,
    parse_arguments,
    read_docstring,
    read_members,
    read_signature,
    type_origin,
)

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
        """Read and check the arguments. Omit a null for an optional property that cannot be null.

        Providers that enforce a strict schema make the model write null for a value that it omits.
        """
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
