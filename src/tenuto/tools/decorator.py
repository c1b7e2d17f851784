"""`@tool`: a function that a model may call, still a function.

What the model is told is read off the function: its name, its docstring, and the types of its parameters.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, ParamSpec, Self, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

import msgspec

from tenuto.core.request import ToolDefinition
from tenuto.tools.signature import read_docstring, read_signature, type_origin

__all__ = ["MAX_OUTPUT", "Approval", "Effect", "Tool", "ToolOptions", "check_name", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

Effect: TypeAlias = Literal["pure", "idempotent", "keyed", "once"]
"""What may be done if a call never returned.

`pure` and `idempotent` may be run again, `keyed` may be run again with the same key, `once` may not.
"""
Approval: TypeAlias = bool | Callable[..., bool]
"""Whether a call needs somebody's word before it runs: always, never, or as a function of its arguments has it."""

MAX_OUTPUT = 50_000
"""How many characters of a result are kept, unless a tool says otherwise.

Some 12,000 tokens: a turn of ten calls that all run over still fits the context of most models.
"""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
log = logging.getLogger("tenuto")


class ToolOptions(TypedDict, total=False):
    """What may be said of a tool.

    `name` and `description` are the function's own unless given. `effect` says what may be done if a call never
    returned. `timeout` is in seconds; None is no limit of its own. `approval` says whether a call needs somebody's word
    first: a function gets the arguments by name, those left to their defaults too, and one that raises counts as yes.
    `max_output` is how many characters of a result are kept.
    """

    name: str | None
    description: str | None
    effect: Effect
    timeout: float | None
    approval: Approval
    max_output: int


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    """The same, with the defaults."""

    name: str | None = None
    description: str | None = None
    effect: Effect = "once"
    timeout: float | None = None
    approval: Approval = False
    max_output: int = MAX_OUTPUT


class Tool(Generic[P, R]):
    """A function with what a model is told of it; calling it calls the function.

    `parameters` is the JSON Schema of an object with one property for each parameter. A parameter annotated
    `ToolContext` is not told: a `Toolbox` fills it in. Raise `TypeError` for a function whose parameters cannot be
    described, or for options that make no sense, and `ValueError` for a name that providers refuse.
    """

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], **options: Unpack[ToolOptions]) -> None:
        given = _Options(**options)
        functools.update_wrapper(self, function)
        self.name = check_name(given.name if given.name is not None else getattr(function, "__name__", ""))
        said, of_parameters = read_docstring(type_origin(function).__doc__)
        self.description = said if given.description is None else given.description
        self.signature = read_signature(self.name, function)
        self.parameters = self.signature.schema(self.name, of_parameters)
        self.effect = _effect(self.name, given.effect, self.signature.contexts)
        self.timeout = _timeout(self.name, given.timeout)
        self.approval = _approval(self.name, given.approval)
        self.max_output = _positive(self.name, given.max_output)
        self.root = ""
        """The directory in which the tool works, absolute; empty for a tool without one."""
        self._at_root: Callable[[str], Callable[P, R]] | None = None

    def bind_root(self, root: str, function_at: Callable[[str], Callable[P, R]]) -> Self:
        """Say that the tool works in a directory; `function_at` returns the function for another one."""
        self.root, self._at_root = root, function_at
        return self

    def at_root(self, root: str) -> Tool[P, R]:
        """Return the tool for another directory. Raise `NotADirectoryError` if it does not exist."""
        if self._at_root is None or root == self.root:
            return self
        other = copy.copy(self)
        other.__wrapped__ = self._at_root(root)
        other.root = root
        return other

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return ToolDefinition(self.name, self.description, self.parameters)

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a call with these arguments, of the parameters' types, needs somebody's word before it runs."""
        if isinstance(self.approval, bool):
            return self.approval
        defaults = {found.name: found.default for found in self.signature.parameters if not found.required}
        try:
            return bool(self.approval(**{**defaults, **arguments}))
        except Exception:
            log.debug("tool %s: approval= raised, so the call needs approval", self.name, exc_info=True)
            return True

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    approval: Approval = False,
    max_output: int = MAX_OUTPUT,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **said: Any) -> Any:
    """Make a function, `async` or not, a tool: `@tool`, or `@tool(effect="pure", timeout=30)`; see `ToolOptions`.

    The docstring up to its `Args:` describes the tool, and the entries there its parameters; parameters may be of any
    type that has a JSON Schema, and one without a type takes any value. A parameter annotated `ToolContext` is filled
    in. Raise `TypeError` or `ValueError`, naming the parameter or the name, where the model could not be told how to
    call it.
    """
    if function is None:
        return functools.partial(Tool, **said)
    return Tool(function, **said)


def check_name(name: str) -> str:
    """Return a tool's name; raise `ValueError` for one that providers refuse."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a tool: 1 to 64 letters, digits, '_' and '-'; give one as name=...")
    return name


def _effect(tool: str, effect: Effect, contexts: tuple[str, ...]) -> Effect:
    if effect not in get_args(Effect):
        raise ValueError(f"tool {tool!r}: effect={effect!r} is none of {', '.join(get_args(Effect))}")
    if effect == "keyed" and not contexts:
        raise TypeError(
            f"tool {tool!r}: effect='keyed' promises that the same key has the work done once, so the function has to "
            "be given the key: add a parameter annotated ToolContext, and pass its .key on"
        )
    return effect


def _timeout(tool: str, timeout: float | None) -> float | None:
    if timeout is not None and not 0 < timeout < math.inf:
        raise ValueError(f"tool {tool!r}: timeout={timeout!r} is no number of seconds; None is no limit")
    return timeout


def _approval(tool: str, approval: Approval) -> Approval:
    if inspect.iscoroutinefunction(approval):
        raise TypeError(f"tool {tool!r}: approval= is asked before anything runs, and is not awaited: use a function")
    if not isinstance(approval, bool) and not callable(approval):
        raise TypeError(f"tool {tool!r}: approval={approval!r} is neither True nor False nor a function")
    return approval


def _positive(tool: str, characters: int) -> int:
    if characters < 1:
        raise ValueError(f"tool {tool!r}: max_output={characters!r} is no number of characters to keep")
    return characters
