"""The prompt cache of a simulator: which part of a prompt it has read before, and why it has not read more.

A prompt is a list of blocks. A mark stores the prompt up to its block for a time; a later prompt reads the longest stored
prefix that ends at one of its own marks or shortly before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

from tenuto.rules.issued_tokens import content_digest

MIN_TOKENS = 1024
"""The length of the shortest prefix that is stored."""
LOOKBACK = 20
"""The number of blocks before a mark at which a stored prefix may end."""
_MAX_PREFIXES = 100_000
_MAX_REQUESTS = 10_000


class CachedBlock(NamedTuple):
    """A part of a prompt."""

    form: bytes
    tokens: int
    seconds: int = 0
    """How long its mark stores the prompt up to here; 0: it has no mark."""
    is_boundary: bool = False
    """Whether a stored prefix that ends here is read without a mark, too."""


class CacheUse(NamedTuple):
    """The tokens of a prompt that were read from the cache and written to it."""

    read: int = 0
    written: int = 0


class RequestParts(NamedTuple):
    """What a provider compares to explain a cache miss."""

    settings: dict[str, str]
    """The digests of everything but the conversation, by the reason for a miss if one changes, in the order of comparison."""
    blocks: tuple[CachedBlock, ...]
    """The conversation."""
    tokens: int
    """The tokens of the whole prompt."""

    def changed_setting(self, earlier: RequestParts) -> str:
        """Return the reason that belongs to the first setting that has changed; empty if all are the same."""
        return next((name for name, digest in self.settings.items() if earlier.settings.get(name) != digest), "")

    def changed_tokens(self, earlier: RequestParts) -> int:
        """Return the tokens of the earlier conversation from the first block on that is not at its place any more."""
        pairs = zip(earlier.blocks, [*self.blocks, *[None] * len(earlier.blocks)], strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[1] is not None and pair[0].form == pair[1].form, pairs))
        return sum(block.tokens for block in earlier.blocks[same:])


class PromptCache:
    """Stores prefixes until their time is over. Thread-safe. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, tuple[float, int]] = {}
        """When a prefix is forgotten, and for how many seconds a use stores it again, by its digest."""
        self._requests: dict[tuple[str, str], RequestParts] = {}
        """The parts of past requests, by account and id of the response."""

    def store_request(self, account: str, id: str, parts: RequestParts) -> None:
        with self._lock:
            self._requests[account, id] = parts
            if len(self._requests) > _MAX_REQUESTS:
                del self._requests[next(iter(self._requests))]

    def find_request(self, account: str, id: str) -> RequestParts | None:
        """Find the request that got the response with this id; None if it is not stored."""
        with self._lock:
            return self._requests.get((account, id))

    def use(self, scope: str, blocks: Sequence[CachedBlock], *, lookback: int = LOOKBACK) -> CacheUse:
        """Read the longest stored prefix, and store those that end at a mark. `scope` is the account and the model."""
        digest, tokens = content_digest(scope), 0
        prefixes: list[tuple[str, int]] = []
        for block in blocks:
            digest, tokens = content_digest(digest, block.form), tokens + block.tokens
            prefixes.append((digest, tokens))
        marks = [index for index, block in enumerate(blocks) if block.seconds]
        ends = [index for index, block in enumerate(blocks) if block.seconds or block.is_boundary]
        with self._lock:
            now, read = self._clock(), 0
            for last in ends:
                for digest, tokens in reversed(prefixes[max(last - lookback, 0) : last + 1]):
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
