"""The client: requests, streams, transport and middleware.

Public names are loaded on first use, so that creating a client is fast.
"""

from __future__ import annotations

from tenuto.lazy import import_lazily

TYPE_CHECKING = False  # Type checkers read it as True; importing it from `typing` would take most of the import time.
if TYPE_CHECKING:
    from tenuto.client.background_loop import Stream as Stream
    from tenuto.client.client import AsyncClient as AsyncClient
    from tenuto.client.http import HttpReply as HttpReply
    from tenuto.client.http import HttpRequest as HttpRequest
    from tenuto.client.http import Transport as Transport
    from tenuto.client.middleware.base import Middleware as Middleware
    from tenuto.client.parameters import ChatParameters as ChatParameters
    from tenuto.client.parameters import Key as Key
    from tenuto.client.parameters import MessageInput as MessageInput
    from tenuto.client.parameters import ProviderConfig as ProviderConfig
    from tenuto.client.parameters import Timeouts as Timeouts
    from tenuto.client.parameters import Tools as Tools
    from tenuto.client.reply import Reply as Reply
    from tenuto.client.stream import AsyncStream as AsyncStream
    from tenuto.client.structured_output import Structured as Structured
    from tenuto.client.sync import Client as Client

__all__, __getattr__, __dir__ = import_lazily(
    __name__,
    {
        "tenuto.client.client": "AsyncClient",
        "tenuto.client.http": "HttpReply HttpRequest Transport",
        "tenuto.client.middleware.base": "Middleware",
        "tenuto.client.parameters": "ChatParameters Key MessageInput ProviderConfig Timeouts Tools",
        "tenuto.client.reply": "Reply",
        "tenuto.client.stream": "AsyncStream",
        "tenuto.client.structured_output": "Structured",
        "tenuto.client.sync": "Client",
        "tenuto.client.background_loop": "Stream",
    },
)
