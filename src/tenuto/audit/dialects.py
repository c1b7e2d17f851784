"""What the audit knows of each dialect."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.core.provider import Dialect, Provider

if TYPE_CHECKING:
    from tenuto.audit.cross_reading import Called
    from tenuto.audit.fates_slots import Slot, Stream
    from tenuto.audit.looking import Checks, Sent

_MODULES: dict[Dialect, str] = {
    "anthropic-messages": "tenuto.audit.anthropic",
    "openai-responses": "tenuto.audit.responses",
    "openai-chat": "tenuto.audit.chat",
    "gemini": "tenuto.audit.gemini",
}


class AuditDialect(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect: its checks, and how to read its requests."""

    checks: Checks
    conversation: str
    """The field of a request with the conversation."""
    calls: Callable[[Sent], Iterator[Called]]
    """Yield the calls of a request."""
    answers: Callable[[Sent], Iterator[tuple[str, str]]]
    """Yield the pointer and the call id of each tool result of a request."""
    slots: Callable[[dict[str, Any], bool], Iterator[Slot]]
    """Yield the slots of a body; if the second argument is true, each with the key of its whole value."""
    slot: Callable[[str, object, Stream, bool], Slot]
    """Read one element of a body: a block, an item, a part."""
    accepts_call_id: Callable[[Provider, str], bool] = lambda provider, id: True
    """Whether a provider accepts a call id."""
    has_reasoning_field: bool = False
    """An assistant message has a field of its own for reasoning."""
    signs_calls: bool = False
    """A call can carry a signature."""


@functools.cache
def dialect_for(name: Dialect) -> AuditDialect:
    """Return what the audit knows of a dialect, and import it if this is its first use."""
    dialect: AuditDialect = importlib.import_module(_MODULES[name]).DIALECT
    return dialect


def conversation_fields() -> set[str]:
    """Return the field with the conversation of every dialect."""
    return {dialect_for(name).conversation for name in _MODULES}
