"""What the simulator remembers: the exchanges, and how often a request was made. Nothing else lives in it.

The log is bounded: it keeps the last `MOST` exchanges, and of those no more than `ROOM` bytes of requests and replies.
The rules that were put to the test are kept even if their exchange is not, and so are the last `MOST_REFUSALS` refusals,
without the request and the reply. Requests are counted for scripts that deny or cut the first few: the last `MOST_COUNTED`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.rules import rule
from tenuto.sim.asked import Made
from tenuto.sim.judging import Verdict

__all__ = ["MOST", "MOST_COUNTED", "MOST_REFUSALS", "ROOM", "Log", "Record", "Refused"]

MOST = 10_000
ROOM = 64_000_000
MOST_REFUSALS = 1_000
MOST_COUNTED = 100_000
_LONGEST = 120


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
        refused = [self.rule or self.refused.message.partition("\n")[0]] if self.refused else []
        parts = [self.method, self.path, self.style or "-", self.model or "-", str(self.status), *refused]
        return " ".join(_shown(part[:_LONGEST]) for part in parts)

    def story(self) -> str:
        """Return the exchange in a few lines, for who never heard of its rule."""
        who = "/".join(part for part in (self.style, self.model) if part)
        head = _shown(f"{self.method} {self.path} ({who}) got {self.status}"[:_LONGEST])
        if self.refused is None or not self.rule:
            return f"{head}\n   {self.refused}" if self.refused else head
        parts = {
            "rule": f"{self.rule}: {rule(self.rule).when}",
            "where": self.refused.place,
            "answer": self.refused.message,
            "remedy": self.refused.remedy,
        }
        return "\n   ".join([head, *(f"{name}: {part}" for name, part in parts.items() if part)])

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
        self._made: dict[str, int] = {}  # the one that was counted last stands last
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
                self._forget(self._records.popleft())
        if self._heard is not None:
            self._heard(record)

    def _forget(self, oldest: Record) -> None:
        self._size -= oldest.size + len(oldest.data)
        if oldest.refused is None:
            return
        for at, kept in enumerate(self._refusals):
            if kept is oldest:
                self._refusals[at] = msgspec.structs.replace(oldest, body=None, data=b"", verdict=None)

    def again(self, digest: str) -> int:
        """Return how often this very request was counted before, and count it."""
        with self._lock:
            before = self._made.pop(digest, 0)
            self._made[digest] = before + 1
            if len(self._made) > MOST_COUNTED:
                del self._made[next(iter(self._made))]
            return before

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


def _shown(text: str) -> str:
    """Leave out what would break a line, or speak to a terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


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
