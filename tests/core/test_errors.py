"""Errors as values: each one copies and pickles without change."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import tenuto.agent.machine
import tenuto.store.driver
from tenuto import errors
from tenuto.core.blocks import Text
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Usage
from tenuto.core.response import ChatResponse, Choice
from tenuto.errors import InvalidSessionId, LLMError, SessionInUse, StoreError, TenutoError, UnsupportedModel

PARTIAL = ChatResponse("id", "m", "p", (Choice(AssistantMessage((Text("half"),), incomplete=True)),), Usage(1, 2))
VALUES = {
    "str": "a word",
    "int": 503,
    "int | None": 503,
    "bool": True,
    "bool | None": True,
    "bytes": b"\xff{",
    "tuple[str, ...]": ("one", "two"),
    "tenuto.ChatResponse | None": PARTIAL,
    "tuple[tenuto.Loss, ...]": (Loss("clamped", Location(path="temperature"), "7.0 became 1"),),
    "State": next(iter(tenuto.agent.machine.State)),
}


def tree(kind: type[TenutoError] = TenutoError) -> list[type[TenutoError]]:
    children = [child for child in kind.__subclasses__() if child.__module__.startswith("tenuto.")]
    return [kind, *dict.fromkeys(descendant for child in children for descendant in tree(child))]


def make_error(kind: type[TenutoError]) -> TenutoError:
    """Make an error with every argument, and with the attributes that a client sets."""
    if not inspect.isfunction(kind.__init__):
        error = kind("a word")
    else:
        parameters = list(inspect.signature(kind).parameters.values())
        values = {parameter.name: VALUES[parameter.annotation] for parameter in parameters}
        positional = [values.pop(item.name) for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
        error = kind(*positional, **values)
    if isinstance(error, LLMError):
        error.request_id, error.retry_after, error.partial = "req_1", 1.5, PARTIAL
    error.add_note("tried 3 times")
    return error


def test_tree_has_all_error_classes():
    classes = {
        value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__
    }

    assert classes <= set(tree())
    assert {tenuto.agent.machine.InvalidTransition, tenuto.store.driver.ConnectionLost} <= set(tree())


@pytest.mark.parametrize("kind", tree(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, *(lambda e, p=p: pickle.loads(pickle.dumps(e, p)) for p in range(2, 6))],
    ids=["copy", "deepcopy", *(f"pickle-{protocol}" for protocol in range(2, 6))],
)
def test_error_copies_and_pickles_without_change(kind, again):
    error = make_error(kind)
    copied = again(error)

    assert type(copied) is kind
    assert (str(copied), copied.args, vars(copied)) == (str(error), error.args, vars(error))


def test_note_on_copy_leaves_original_alone():
    error = UnsupportedModel("m", "r")
    error.add_note("first")
    copied = copy.copy(error)
    copied.add_note("second")

    assert error.__notes__ == ["first"]
    assert copied.__notes__ == ["first", "second"]


def test_copy_of_session_in_use_names_session_and_holder():
    copied = copy.copy(SessionInUse("s", pid=1, host="h"))

    assert (copied.session, copied.pid, copied.host) == ("s", 1, "h")
    assert str(copied).startswith("session 's' is in use by process 1 on h")


def test_invalid_session_id_is_store_error_and_value_error():
    assert issubclass(InvalidSessionId, StoreError)
    assert issubclass(InvalidSessionId, ValueError)
