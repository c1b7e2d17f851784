"""What the simulator remembers: the exchanges, and how often a request was made. Nothing else lives in it.

The log is bounded: it keeps the last `MOST` exchanges, and of those no more than `ROOM` bytes of requests and replies.
The rules that were put to the test, and the last `MOST_REFUSALS` refusals, are kept even if their exchange is not.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Made
from tenuto.sim.judging import Verdict

__all__ = ["MOST", "MOST_REFUSALS", "ROOM", "Log", "Record", "Refused"]

MOST = 10_000
ROOM = 64_000_000
MOST_REFUSALS = 1_000


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not answered: the rule of the book (empty if it is none), the place, the words, the remedy."""

    message: str
    rule: str = ""
    place: str = ""
    remedy: str = ""
    overrun: bool = False
    """Whether the script had no turn for it."""

    def __str__(self) -> str:
        parts = [self.rule or ("script" if self.overrun else "request"), self.place, self.message]
        told = ": ".join(part for part in parts if part)
        return f"{told} ({self.remedy})" if self.remedy else told


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange.

    `style` and `model` say whose part was played, `body` is the request as read from JSON (None if it is none), `data`
    the bytes of the reply; `refused` says why there was no answer. `digest` stands for the request, `account` for who
    asked. A status that a script asked for is no refusal.
    """

    method: str
    path: str
    status: int
    style: str = ""
    model: str = ""
    stream: bool = False
    body: Any = None
    verdict: Verdict | None = None
    refused: Refused | None = None
    data: bytes = b""
    size: int = 0
    account: str = ""
    digest: str = ""

    @property
    def reply(self) -> str:
        """The text of the reply: one document, or the frames of a stream."""
        return self.data.decode("utf-8", "replace")

    @property
    def rule(self) -> str:
        """The rule that was broken, if one was."""
        return self.refused.rule if self.refused else ""

    def line(self) -> str:
        """Return the exchange in one line."""
        refused = [self.rule or self.refused.message.partition("\n")[0][:120]] if self.refused else []
        return " ".join([self.method, self.path, self.style or "-", self.model or "-", str(self.status), *refused])

    def told(self) -> dict[str, Any]:
        """Return the exchange as JSON values."""
        tried = self.verdict.tried if self.verdict else ()
        noted = [(broken.rule, broken.place) for broken in self.verdict.noted] if self.verdict else []
        return {
            "method": self.method, "path": self.path, "style": self.style, "model": self.model, "stream": self.stream,
            "status": self.status, "refused": None if self.refused is None else msgspec.to_builtins(self.refused),
            "tried": list(tried), "noted": [{"rule": rule, "place": place} for rule, place in noted],
            "body": self.body, "reply": self.reply,
        }  # fmt: skip


class Log:
    """The exchanges of one simulator. Any thread may read it. `heard` is told of each exchange."""

    def __init__(self, heard: Callable[[Record], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._records: deque[Record] = deque()
        self._refusals: deque[Record] = deque(maxlen=MOST_REFUSALS)
        self._tried: set[str] = set()
        self._made: Counter[str] = Counter()
        self._size = 0
        self._heard = heard

    def write(self, record: Record) -> None:
        """Write an exchange down."""
        with self._lock:
            self._records.append(record)
            self._size += record.size + len(record.data)
            if record.verdict is not None:
                self._tried.update(record.verdict.tried)
            if record.refused is not None:
                self._refusals.append(record)
            while len(self._records) > MOST or (self._size > ROOM and len(self._records) > 1):
                oldest = self._records.popleft()
                self._size -= oldest.size + len(oldest.data)
        if self._heard is not None:
            self._heard(record)

    def again(self, digest: str) -> int:
        """Return how often this very request was counted before, and count it."""
        with self._lock:
            self._made[digest] += 1
            return self._made[digest] - 1

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._records.clear()
            self._refusals.clear()
            self._tried.clear()
            self._made.clear()
            self._size = 0

    @property
    def records(self) -> list[Record]:
        """The exchanges, oldest first."""
        with self._lock:
            return list(self._records)

    @property
    def refusals(self) -> list[Record]:
        """The exchanges that were refused."""
        with self._lock:
            return list(self._refusals)

    @property
    def tried(self) -> set[str]:
        """The rules that were put to the test."""
        with self._lock:
            return set(self._tried)

    def stored(self, id: str, account: str) -> Made | None:
        """Find the reply of the Responses dialect that has an id, or an item with it; None if it was not to be kept."""
        wanted = id.encode()
        for record in reversed(self.records):
            if record.account == account and record.status == 200 and wanted in record.data:
                reply = _responses_reply(record)
                if reply is not None and _has(reply, id):
                    kept = isinstance(record.body, dict) and record.body.get("store") is not False
                    return Made(record.body, reply) if kept else None
        return None


def _responses_reply(record: Record) -> dict[str, Any] | None:
    """Return the response that a body, or the last event of a stream, holds; None if this is another kind of reply."""
    data = record.data
    if record.stream:
        data = data[data.rfind(b"\ndata: {") + 7 :].partition(b"\n")[0]  # no text holds a bare line break
    try:
        found = jsonio.parse(data)
    except jsonio.JsonError:
        return None
    found = found.get("response") if record.stream and isinstance(found, dict) else found
    return found if isinstance(found, dict) and found.get("object") == "response" else None


def _has(reply: dict[str, Any], id: str) -> bool:
    items = reply.get("output")
    held = [item.get("id") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return reply.get("id") == id or id in held
