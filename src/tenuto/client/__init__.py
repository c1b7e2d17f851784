"""The client: requests, streams, transport and middleware.

Public names are loaded on first use, so that creating a client is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Type checkers read it as True; importing it from `typing` would take most of the import time.
if TYPE_CHECKING:
    from tenuto.client.client import AsyncClient as AsyncClient
    from tenuto.client.http import HttpReply as HttpReply
    from tenuto.client.http import HttpRequest as HttpRequest
    from tenuto.client.http import Transport as Transport
    from tenuto.client.middleware.base import Middleware as Middleware
    from tenuto.client.options import Timeouts as Timeouts
    from tenuto.client.parameters import ChatParameters as ChatParameters
    from tenuto.client.parameters import Key as Key
    from tenuto.client.parameters import MessageInput as MessageInput
    from tenuto.client.parameters import ProviderConfig as ProviderConfig
    from tenuto.client.parameters import Tools as Tools
    from tenuto.client.reply import Reply as Reply
    from tenuto.client.stream import AsyncStream as AsyncStream
    from tenuto.client.structured import Structured as Structured
    from tenuto.client.sync import Client as Client
    from tenuto.client.sync_stream import Stream as Stream

_NAMES_BY_MODULE = {
    "client": "AsyncClient",
    "http": "HttpReply HttpRequest Transport",
    "middleware.base": "Middleware",
    "options": "Timeouts",
    "parameters": "ChatParameters Key MessageInput ProviderConfig Tools",
    "reply": "Reply",
    "stream": "AsyncStream",
    "structured": "Structured",
    "sync": "Client",
    "sync_stream": "Stream",
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
