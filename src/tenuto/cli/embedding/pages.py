"""Items, some at a time; and reading them in a thread, so that whoever waits for a pipe can still be stopped."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tenuto.cli.embedding.items import Found, Item

__all__ = ["MOST", "ROOM", "Aside", "Batch", "pages"]

T = TypeVar("T")
MOST = 256
"""How many items are looked up at a time."""
ROOM = 256 * 1024
"""How many characters of text are looked up, or asked for, at a time, unless one text alone has more."""


def pages(every: Iterable[Found]) -> Iterator[list[Found]]:
    """Yield what is found, some at a time."""
    page: list[Found] = []
    size = 0
    for found in every:
        page.append(found)
        size += len(found.text) if isinstance(found, Item) else 0
        if len(page) >= MOST or size >= ROOM:
            yield page
            page, size = [], 0
    if page:
        yield page


class Batch:
    """Items that are asked for together: at most so many, and not too long all together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: list[Item] = []
        self._size = 0

    def add(self, item: Item) -> list[Item]:
        """Add an item; return those that are to be asked for now, if any: the item may be among them or not."""
        full = self.rest() if self._items and self._size + len(item.text) > ROOM else []
        self._items.append(item)
        self._size += len(item.text)
        return full or (self.rest() if len(self._items) >= self._most else [])

    def rest(self) -> list[Item]:
        """Return what is left, and begin anew."""
        items, self._items, self._size = self._items, [], 0
        return items


class Aside(Generic[T]):
    """Goes through something in a thread of its own, step by step, as it is asked to.

    A thread that waits for what may never come is left behind: it does not keep the process from ending.
    """

    def __init__(self, every: Iterator[T]) -> None:
        self._every = every
        self._wanted: queue.SimpleQueue[asyncio.Future[T | None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._go, name="tenuto.embed", daemon=True).start()

    async def next(self) -> T | None:
        """Return the next one; None if there is none any more. Raise what going through it raised."""
        wanted: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._wanted.put(wanted)
        return await wanted

    def close(self) -> None:
        """Ask for nothing more."""
        self._wanted.put(None)

    def _go(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            with _Handed(wanted) as handed:
                handed.give(next(self._every, None))


class _Handed(Generic[T]):
    """Hands what a thread found, or what went wrong there, to who waits for it in a loop, if he still does."""

    def __init__(self, wanted: asyncio.Future[T | None]) -> None:
        self._wanted = wanted

    def give(self, found: T | None) -> None:
        self._tell(self._wanted.set_result, found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            self._tell(self._wanted.set_exception, error)
        return True

    def _tell(self, settle: Callable[[Any], None], what: object) -> None:
        def act() -> None:
            if not self._wanted.done():
                settle(what)

        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._wanted.get_loop().call_soon_threadsafe(act)
