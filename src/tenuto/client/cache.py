"""Replies that are kept: the same question is answered from the store, without asking anybody.

The key is a hash of the whole request, tokens and all, and of nothing else. A store belongs to those who mean the same by
a provider's name and may see one another's answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

import msgspec

from tenuto.client.pipeline import Next, closing
from tenuto.client.replay import events_of
from tenuto.core import jsonio
from tenuto.core.events import MessageDone, StreamEvent
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.core.stored import dump_message, dump_response, load_response
from tenuto.errors import StoreError

__all__ = ["Cache", "CacheStore", "MemoryCache", "cache", "key_of"]

T = TypeVar("T")
_log = logging.getLogger("tenuto")
_VERSION = b"tenuto reply 3\n"
_TROUBLE = (StoreError, OSError, ValueError)


class CacheStore(Protocol):
    """Where replies may be kept. It is called from worker threads, so it may wait, and must bear several at once.

    `StoreError` and `OSError` tell of trouble that shall not keep a question from being asked; anything else is raised.
    """

    def get(self, key: str) -> bytes | None:
        """Return what was set under this key; None if there is nothing, or no more."""

    def set(self, key: str, value: bytes, expires: float) -> None:
        """Keep a value; it is of no use after `expires` (Unix seconds)."""


class MemoryCache:
    """Keeps the values that were used last, as many as it may."""

    def __init__(self, max_entries: int, now: Callable[[], float]) -> None:
        self._most = max_entries
        self._now = now
        self._held: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: str) -> bytes | None:
        """Return a value, which now is the one used last."""
        with self._lock:
            expires, value = self._held.pop(key, (0.0, b""))
            if expires <= self._now():
                return None
            self._held[key] = expires, value
            return value

    def set(self, key: str, value: bytes, expires: float) -> None:
        """Keep a value; the one that was not used for longest makes room."""
        with self._lock:
            self._held.pop(key, None)
            self._held[key] = expires, value
            while len(self._held) > self._most:
                self._held.popitem(last=False)


class _Entry(msgspec.Struct, frozen=True):
    """A value in the store. It says itself how long it holds, whatever the store makes of that."""

    expires: float
    response: msgspec.Raw


class Cache:
    """Answers from a store what was asked before. Use `cache`."""

    def __init__(self, store: CacheStore, ttl: float, now: Callable[[], float]) -> None:
        self._store = store
        self._ttl = ttl
        self._now = now

    async def __call__(self, request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        """Stand around a call."""
        key = None if request.tools else key_of(request)
        kept = None if key is None else await self._kept(key)
        if kept is not None:
            _log.debug("%s answered from the cache", request.model)
            for event in events_of(kept):
                yield event
            return
        async with closing(next(request)) as events:
            async for event in events:
                if key is not None and isinstance(event, MessageDone) and _worth_keeping(event.response):
                    await self._keep(key, event.response)  # first: whoever has the whole reply need not read on
                yield event

    async def _kept(self, key: str) -> ChatResponse | None:
        try:
            value = await self._in_store(lambda: self._store.get(key))
            if value is None:
                return None
            entry = jsonio.decode_as(value, _Entry)
            return load_response(entry.response) if entry.expires > self._now() else None
        except _TROUBLE as exc:  # the question can still be asked
            _log.warning("what is in the cache cannot be read, so the question is asked: %s", exc)
            return None

    async def _keep(self, key: str, response: ChatResponse) -> None:
        expires = self._now() + self._ttl
        try:
            value = jsonio.encode(_Entry(expires, msgspec.Raw(dump_response(response))))
            await self._in_store(lambda: self._store.set(key, value, expires))
        except _TROUBLE as exc:  # the reply is there, and was paid for
            _log.warning("a reply could not be put into the cache: %s", exc)

    async def _in_store(self, act: Callable[[], T]) -> T:
        """Memory is asked at once. Anything else may wait, a file for its lock, and goes to a worker thread."""
        return act() if isinstance(self._store, MemoryCache) else await asyncio.to_thread(act)


def cache(
    store: str | os.PathLike[str] | CacheStore | None = None,
    *,
    ttl: float = 300.0,
    max_entries: int = 1024,
    now: Callable[[], float] = time.time,
) -> Cache:
    """Answer a question that was asked less than `ttl` seconds ago with the reply it got then.

    Replies are kept in memory; in a SQLite file, if `store` is a path, which several processes may share and which only
    its owner may read; or in any `CacheStore`. Memory and file keep at most `max_entries`. A question is the same if its
    request is, to the last token, streamed or not; a reply from the cache tells the usage that it had.

    Requests with tools are never answered from the cache; errors, replies that broke off and replies that ended in an
    error are never kept. A store that fails, or holds what cannot be read, is a warning in the log, and the question is
    asked.
    """
    if not ttl > 0 or max_entries < 1:
        raise ValueError("cache takes a ttl above 0 and a max_entries of at least 1")
    if store is None:
        return Cache(MemoryCache(max_entries, now), ttl, now)
    if isinstance(store, str | os.PathLike):
        from tenuto.client.cache_file import FileCache

        return Cache(FileCache(store, max_entries, now), ttl, now)
    if not (callable(getattr(store, "get", None)) and callable(getattr(store, "set", None))):
        raise TypeError(f"a cache keeps its replies in a path, or in something with get and set; not {type(store)}")
    return Cache(store, ttl, now)


def key_of(request: ChatRequest) -> str | None:
    """Return the hash of everything that is asked; None if it cannot be written down, so that whoever sends it says why.

    Whether it streams does not count, nor in which way the messages were given, nor the order of names in an object.
    """
    asked = msgspec.structs.replace(request, messages=(), stream=False)
    try:
        written = json.dumps(msgspec.to_builtins(asked, str_keys=True), sort_keys=True, allow_nan=False)
        messages = [dump_message(message) for message in request.transcript]
    except (TypeError, ValueError, RecursionError):
        return None
    digest = hashlib.sha256(_VERSION + written.encode())
    for message in messages:
        digest.update(b"\n%d:" % len(message) + message)
    return digest.hexdigest()


def _worth_keeping(response: ChatResponse) -> bool:
    messages = [choice.message for choice in response.choices]
    return bool(messages) and not any(message.incomplete or message.stop_reason == "error" for message in messages)
