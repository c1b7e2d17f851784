"""Signatures, type hints and docstrings of methods that take their options as `**parameters`.

Static type checkers read `**parameters: Unpack[SomeTypedDict]`. For `help()`, `inspect.signature` and
`typing.get_type_hints`, the decorators here put the fields of the TypedDict in place of `**parameters`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, get_type_hints

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_FIELD_PATTERN = re.compile(r'^    (\w+): [^\n]+\n    """(.+?)"""$', re.MULTILINE | re.DOTALL)


def expand_parameters(*typed_dicts: type) -> Callable[[F], F]:
    """Show the fields of these TypedDicts as keyword parameters of a function that has `**parameters`.

    The docstring of the function gets a list of the fields. The description of a field is the string under it.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        fields = {name: hint for fields in map(get_type_hints, typed_dicts) for name, hint in fields.items()}
        named = [value for value in signature.parameters.values() if value.kind is not value.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in fields.items()
        ]
        _set_signature(function, signature.replace(parameters=[*named, *added]))
        descriptions = _descriptions(typed_dicts)
        lines = [f"    {name}: {descriptions.get(name, '')}".rstrip() for name in fields]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Parameters:", *lines])
        return function

    return decorate


def mirror_methods(source: type) -> Callable[[C], C]:
    """Document the methods of a class by the methods of `source` that have the same names.

    A method without docstring gets that of `source`. A method with `**parameters` gets the parameters of `source`, and
    keeps its own return type.
    """

    def decorate(cls: C) -> C:
        for name, method in vars(cls).items():
            original = getattr(source, name, None)
            if not isinstance(method, FunctionType) or not isinstance(original, FunctionType):
                continue
            method.__doc__ = method.__doc__ or original.__doc__
            signature = inspect.signature(method)
            if any(value.kind is value.VAR_KEYWORD for value in signature.parameters.values()):
                parameters = list(inspect.signature(original).parameters.values())
                _set_signature(method, signature.replace(parameters=parameters))
        return cls

    return decorate


def _set_signature(function: Any, signature: inspect.Signature) -> None:
    hints = {
        name: value.annotation for name, value in signature.parameters.items() if value.annotation is not value.empty
    }
    function.__signature__ = signature
    function.__annotations__ = {**hints, "return": signature.return_annotation}


def _descriptions(typed_dicts: tuple[type, ...]) -> dict[str, str]:
    """Return the strings under the fields of the modules in which the TypedDicts are; none without source files."""
    descriptions: dict[str, str] = {}
    for module in {inspect.getmodule(typed_dict): None for typed_dict in typed_dicts}:
        try:
            source = inspect.getsource(module) if module is not None else ""
        except OSError:
            continue
        descriptions |= {name: " ".join(text.split()) for name, text in _FIELD_PATTERN.findall(source)}
    return descriptions
