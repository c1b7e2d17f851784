"""`help()`, `inspect.signature` and `typing.get_type_hints` agree for all public names."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import types
import typing

import pytest

from tenuto import Agent, AsyncAgent, AsyncClient, Client
from tenuto.client import ChatParameters

MODULES = ["", "agent", "blocks", "client", "errors", "events", "middleware", "store", "testing", "tools"]


def public_objects():
    """Return the public classes and functions by their qualified names."""
    objects = {}
    for module_name in MODULES:
        module = importlib.import_module(f"tenuto.{module_name}".rstrip("."))
        for name in getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]:
            value = getattr(module, name)
            if isinstance(value, type | types.FunctionType) and value.__module__.startswith("tenuto."):
                objects[f"{value.__module__}.{value.__qualname__}"] = value
    return objects


def public_callables():
    """Return the public functions, methods and constructors by their qualified names."""
    callables = {}
    for name, value in public_objects().items():
        if isinstance(value, types.FunctionType):
            callables[name] = value
            continue
        for base in value.__mro__:
            if base.__module__.startswith("tenuto."):
                for method_name, method in vars(base).items():
                    function = getattr(method, "fget", getattr(method, "__func__", method))
                    is_public = method_name[0] != "_" or method_name == "__init__"
                    if is_public and isinstance(function, types.FunctionType) and function.__module__ != "typing":
                        callables[f"{function.__module__}.{function.__qualname__}"] = function
    return callables


CLASSES = [pytest.param(value, id=name) for name, value in public_objects().items() if isinstance(value, type)]
CALLABLES = [pytest.param(value, id=name) for name, value in public_callables().items()]


def test_public_callables_are_found():
    names = public_callables().keys()

    assert {"tenuto.client.client.AsyncClient.chat", "tenuto.agent.sync.Session.send"} <= names
    assert {"tenuto.client.middleware.retry.Retry", "tenuto.core.blocks.Image"} <= public_objects().keys()


def evaluate(annotation, function):
    return eval(annotation, inspect.unwrap(function).__globals__) if isinstance(annotation, str) else annotation


@pytest.mark.parametrize("cls", CLASSES)
def test_type_hints_of_public_class_evaluate(cls):
    typing.get_type_hints(cls)
    has_signature = not issubclass(cls, Exception | dict) or isinstance(cls.__init__, types.FunctionType)
    if has_signature:
        inspect.signature(cls)


@pytest.mark.parametrize("function", CALLABLES)
def test_signature_and_type_hints_agree(function):
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function, include_extras=True)
    annotations = {name: value.annotation for name, value in signature.parameters.items()}
    annotations["return"] = signature.return_annotation

    evaluated = {name: evaluate(value, function) for name, value in annotations.items() if value is not signature.empty}
    assert {name: type(None) if value is None else value for name, value in evaluated.items()} == hints


@pytest.mark.parametrize("function", CALLABLES)
def test_help_shows_every_parameter(function):
    shown = pydoc.plain(pydoc.render_doc(function))

    assert [name for name in inspect.signature(function).parameters if name not in shown] == []


@pytest.mark.parametrize("name", ["chat", "stream", "chat_structured", "count_tokens"])
@pytest.mark.parametrize("client", [AsyncClient, Client])
def test_chat_parameters_are_listed_and_described(client, name):
    method = getattr(client, name)
    described = dict(re.findall(r"^    (\w+): (.+)$", method.__doc__.partition("\nParameters:\n")[2], re.MULTILINE))

    assert described.keys() == typing.get_type_hints(ChatParameters).keys()
    assert described.keys() <= inspect.signature(method).parameters.keys()
    assert described["max_tokens"] == "The maximum number of output tokens."


def test_client_constructors_have_the_same_parameters():
    assert inspect.signature(Client).parameters == inspect.signature(AsyncClient).parameters
    assert Client.__init__.__doc__ == AsyncClient.__init__.__doc__


def test_agent_options_are_keyword_parameters():
    parameters = inspect.signature(Agent).parameters

    assert parameters == inspect.signature(AsyncAgent).parameters
    assert {"model", "tools", "limits", "effort", "max_tokens"} <= parameters.keys()
