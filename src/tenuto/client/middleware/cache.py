"""A cache of replies and embeddings.

The key is a hash of the complete request and of nothing else. Share a store only between callers that use the same provider
names for the same providers and may see each other's replies.
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
from contextlib import closing as closing_connection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from tenuto.client.middleware.base import AnyNext, AnyRequest, OperationCall, OperationDone, closing, handles
from tenuto.client.middleware.replay import replay_events
from tenuto.core import jsonio
from tenuto.core.embeddings import EmbedResponse
from tenuto.core.events import MessageDone
from tenuto.core.response import ChatResponse
from tenuto.core.stored import dump_message, dump_response, load_response
from tenuto.errors import StoreError

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
_log = logging.getLogger("tenuto")
_VERSION = b"tenuto reply 3\n"
_STORE_ERRORS = (StoreError, OSError, ValueError)


class CacheStore(Protocol):
    """A place for cached replies. It is called from worker threads: it may block and must be thread-safe.

    `StoreError` and `OSError` are logged, and the request is sent without the cache; any other error is raised.
    """

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if it is missing or has expired."""

    def set(self, key: str, value: bytes, expires: float) -> None:
        """Store a value that expires at `expires` (Unix seconds)."""


class MemoryCache:
    """Stores the most recently used values in memory."""

    def __init__(self, max_entries: int, now: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._now = now
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> bytes | None:
        with self._lock:
            expires, value = self._entries.pop(key, (0.0, b""))
            if expires <= self._now():
                return None
            self._entries[key] = expires, value
            return value

    def set(self, key: str, value: bytes, expires: float) -> None:
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = expires, value
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


_CREATE_LOCK = threading.Lock()
_BUSY_TIMEOUT = 5.0
_BUSY_PAUSE = 0.01
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID
"""
_DELETE_EXCESS = "DELETE FROM replies WHERE key IN (SELECT key FROM replies ORDER BY expires DESC LIMIT -1 OFFSET ?)"


class FileCache:
    """Stores values in a SQLite file that only its owner can read, for several threads and processes.

    Each operation opens the file again: such a connection needs no closing, belongs to no thread and survives a fork, and
    opening it takes little time compared with a request.
    """

    def __init__(self, path: str | os.PathLike[str], max_entries: int, now: Callable[[], float]) -> None:
        self._path = Path(path).absolute()
        self._max_entries = max_entries
        self._now = now
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"cannot create the cache: no directory {str(self._path.parent)!r}")

    def get(self, key: str) -> bytes | None:
        query = "SELECT value FROM replies WHERE key = ? AND expires > ?", (key, self._now())
        row = self._run(lambda db: db.execute(*query).fetchone())
        return None if row is None else bytes(row[0])

    def set(self, key: str, value: bytes, expires: float) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, value, expires))
            db.execute("DELETE FROM replies WHERE expires <= ?", (self._now(),))
            db.execute(_DELETE_EXCESS, (self._max_entries,))
            db.execute("COMMIT")

        self._run(write)

    def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation on the file; repeat it while another process holds a lock that SQLite does not wait for."""
        import sqlite3

        deadline = time.monotonic() + _BUSY_TIMEOUT
        while True:
            try:
                with closing_connection(self._connect()) as db:
                    return operation(db)
            except sqlite3.Error as exc:
                is_busy = getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > deadline:
                    raise StoreError(f"{str(self._path)!r}: {exc}") from exc
            time.sleep(_BUSY_PAUSE)

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        # A process that closes a file loses all its POSIX locks on it, also those of its other connections. So the file is
        # opened here only to create it, before this process can have a connection.
        with _CREATE_LOCK, suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        db = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
                db.execute(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db


class _Entry(msgspec.Struct, frozen=True):
    """A stored value with its expiry time, which a store may ignore."""

    expires: float
    response: msgspec.Raw


@handles("chat", "embed")
class Cache:
    """Answer a chat or an embedding that was requested less than `ttl` seconds ago with the same reply.

    The replies are in memory; in a SQLite file if `store` is a path, which several processes may share; or in any
    `CacheStore`. Memory and file hold at most `max_entries`. Two requests are the same if all their fields are, streamed or
    not; a cached reply has the usage of the original one.

    Chats with tools are never answered from the cache; errors and incomplete replies are never stored. If a store fails or
    has an unreadable value, a warning is logged and the request is sent.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | CacheStore | None = None,
        *,
        ttl: float = 300.0,
        max_entries: int = 1024,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not ttl > 0 or max_entries < 1:
            raise ValueError("cache takes a ttl above 0 and a max_entries of at least 1")
        if store is None:
            store = MemoryCache(max_entries, now)
        elif isinstance(store, str | os.PathLike):
            store = FileCache(store, max_entries, now)
        elif not (callable(getattr(store, "get", None)) and callable(getattr(store, "set", None))):
            raise TypeError(f"store: expected a path or an object with get and set, got {type(store)}")
        self._store = store
        self._ttl = ttl
        self._now = now

    async def __call__(self, request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        has_tools = not isinstance(request, OperationCall) and bool(request.tools)
        key = None if has_tools else cache_key(request)
        response = None if key is None else await self._load(key, request)
        if response is not None:
            _log.debug("%s answered from the cache", request.model)
            for event in replay_events(response) if isinstance(response, ChatResponse) else (OperationDone(response),):
                yield event
            return
        async with closing(next(request)) as events:
            async for event in events:
                if key is not None and isinstance(event, MessageDone | OperationDone):
                    await self._save(key, event)  # before the yield: the caller need not read on
                yield event

    async def _load(self, key: str, request: AnyRequest) -> ChatResponse | EmbedResponse | None:
        try:
            value = await self._in_thread(lambda: self._store.get(key))
            entry = None if value is None else jsonio.decode_as(value, _Entry)
            if entry is None or entry.expires <= self._now():
                return None
            if isinstance(request, OperationCall):
                return jsonio.decode_as(entry.response, EmbedResponse)
            return load_response(entry.response)
        except _STORE_ERRORS as exc:
            _log.warning("cannot read the cache, so the request is sent: %s", exc)
            return None

    async def _save(self, key: str, event: MessageDone | OperationDone) -> None:
        if isinstance(event, MessageDone):
            messages = [choice.message for choice in event.response.choices]
            if not messages or any(message.incomplete or message.stop_reason == "error" for message in messages):
                return
        expires = self._now() + self._ttl
        try:
            body = dump_response(event.response) if isinstance(event, MessageDone) else jsonio.encode(event.result)
            value = jsonio.encode(_Entry(expires, msgspec.Raw(body)))
            await self._in_thread(lambda: self._store.set(key, value, expires))
        except _STORE_ERRORS as exc:  # the reply exists and is paid for
            _log.warning("cannot write a reply to the cache: %s", exc)

    async def _in_thread(self, operation: Callable[[], T]) -> T:
        """Run an operation of the store in a worker thread, because it may block; memory does not."""
        return operation() if isinstance(self._store, MemoryCache) else await asyncio.to_thread(operation)


cache = Cache
"""The name for use in a list of middleware: `cache()`, `cache("replies.db")`."""


def cache_key(request: AnyRequest) -> str | None:
    """Return the hash of a request, whatever its form; None if it cannot be encoded: sending it raises the error."""
    fields: msgspec.Struct = request
    messages: list[bytes] = []
    try:
        if not isinstance(request, OperationCall):
            fields = msgspec.structs.replace(request, messages=(), stream=False)
            messages = [dump_message(message) for message in request.transcript]
        text = json.dumps(msgspec.to_builtins(fields, str_keys=True), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    digest = hashlib.sha256(_VERSION + text.encode())
    for message in messages:
        digest.update(b"\n%d:" % len(message) + message)
    return digest.hexdigest()
