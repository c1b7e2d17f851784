"""Asking: the client, its transport, its middleware and the door for code that does not await.

The names below are for those who write types, transports or middleware; they are loaded when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from tenuto.client.client import AsyncClient as AsyncClient
    from tenuto.client.http import HttpReply as HttpReply
    from tenuto.client.http import HttpRequest as HttpRequest
    from tenuto.client.http import Transport as Transport
    from tenuto.client.options import Timeouts as Timeouts
    from tenuto.client.parameters import ChatParameters as ChatParameters
    from tenuto.client.parameters import ClientOptions as ClientOptions
    from tenuto.client.parameters import Key as Key
    from tenuto.client.parameters import ProviderConfig as ProviderConfig
    from tenuto.client.parameters import Tools as Tools
    from tenuto.client.reply import Reply as Reply
    from tenuto.client.request import MessageInput as MessageInput
    from tenuto.client.stream import AsyncStream as AsyncStream
    from tenuto.client.structured import Structured as Structured
    from tenuto.client.sync import Client as Client
    from tenuto.client.sync_stream import Stream as Stream

_HOMES = {
    "client": ("AsyncClient",),
    "http": ("HttpReply", "HttpRequest", "Transport"),
    "reply": ("Reply",),
    "options": ("Timeouts",),
    "parameters": ("ChatParameters", "ClientOptions", "Key", "ProviderConfig", "Tools"),
    "request": ("MessageInput",),
    "stream": ("AsyncStream",),
    "structured": ("Structured",),
    "sync_stream": ("Stream",),
    "sync": ("Client",),
}

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "ChatParameters",
    "Client",
    "ClientOptions",
    "HttpReply",
    "HttpRequest",
    "Key",
    "MessageInput",
    "ProviderConfig",
    "Reply",
    "Stream",
    "Structured",
    "Timeouts",
    "Tools",
    "Transport",
]


def __getattr__(name: str) -> object:
    """Load a name from its home."""
    import importlib

    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
