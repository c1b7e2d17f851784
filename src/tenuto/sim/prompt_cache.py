"""The prompt cache of a simulator: which part of a prompt it has read before.

A prompt is a list of blocks. A mark stores the prompt up to its block for a time; a later prompt reads the longest stored
prefix that ends at one of its own marks or shortly before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tenuto.rules.issued_tokens import content_digest

MIN_TOKENS = 1024
"""The length of the shortest prefix that is stored."""
LOOKBACK = 20
"""The number of blocks before a mark at which a stored prefix may end."""
_MAX_PREFIXES = 100_000


class CachedBlock(NamedTuple):
    """A part of a prompt."""

    form: bytes
    tokens: int
    seconds: int = 0
    """How long its mark stores the prompt up to here; 0: it has no mark."""


class CacheUse(NamedTuple):
    """The tokens of a prompt that were read from the cache and written to it."""

    read: int = 0
    written: int = 0


class PromptCache:
    """Stores prefixes until their time is over. Thread-safe. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, tuple[float, int]] = {}
        """When a prefix is forgotten, and for how many seconds a use stores it again, by its digest."""

    def use(self, scope: str, blocks: Sequence[CachedBlock], *, lookback: int = LOOKBACK) -> CacheUse:
        """Read the longest stored prefix, and store those that end at a mark. `scope` is the account and the model."""
        digest, tokens = content_digest(scope), 0
        prefixes: list[tuple[str, int]] = []
        for block in blocks:
            digest, tokens = content_digest(digest, block.form), tokens + block.tokens
            prefixes.append((digest, tokens))
        marks = [index for index, block in enumerate(blocks) if block.seconds]
        with self._lock:
            now, read = self._clock(), 0
            for mark in marks:
                for digest, tokens in reversed(prefixes[max(mark - lookback, 0) : mark + 1]):
                    end, seconds = self._ends.get(digest, (0.0, 0))
                    if end > now:
                        read = max(read, tokens)
                        self._ends[digest] = now + seconds, seconds
                        break
            if len(self._ends) > _MAX_PREFIXES:
                self._ends = {digest: value for digest, value in self._ends.items() if value[0] > now}
            for mark in marks:
                digest, tokens = prefixes[mark]
                if tokens >= MIN_TOKENS:
                    seconds = max(blocks[mark].seconds, self._ends.get(digest, (0.0, 0))[1])
                    self._ends[digest] = now + seconds, seconds
        end = prefixes[marks[-1]][1] if marks else 0
        return CacheUse(read, end - read if end >= MIN_TOKENS else 0)
