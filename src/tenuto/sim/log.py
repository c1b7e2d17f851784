"""The exchanges of a simulator, and how often each request was made.

The log is bounded: `MAX_RECORDS` exchanges with at most `MAX_BYTES` of requests and replies. The rules that had something
to check stay after their exchange is dropped, and so do the last `MAX_REFUSALS` refusals, without request and reply.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.rules.book import Judgement, all_rules
from tenuto.rules.issued_tokens import StoredReply
from tenuto.sim.prompt_cache import PromptCache

MAX_RECORDS = 10_000
MAX_BYTES = 64_000_000
MAX_REFUSALS = 1_000
MAX_COUNTED = 100_000
_MAX_LINE = 120


class RefusedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a request was refused."""

    message: str
    rule: str = ""
    """The id of the rule; empty: another reason."""
    pointer: str = ""
    remedy: str = ""
    script_exhausted: bool = False
    """Whether the script had no turn for the request."""

    def __str__(self) -> str:
        parts = (self.rule or ("script" if self.script_exhausted else "request"), self.pointer, self.message)
        text = ": ".join(part for part in parts if part)
        return f"{text} ({self.remedy})" if self.remedy else text


class ExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange. A status that a script asked for is not a refusal."""

    method: str
    path: str
    status: int
    provider: str = ""
    """The imitated provider."""
    model: str = ""
    stream: bool = False
    body: Any = None
    """The request as JSON values; None if it is not JSON."""
    judgement: Judgement | None = None
    refused: RefusedRequest | None = None
    data: bytes = b""
    """The bytes of the response."""
    size: int = 0
    account: str = ""
    digest: str = ""

    @property
    def reply(self) -> str:
        """The text of the response: one document, or the frames of a stream."""
        return self.data.decode("utf-8", "replace")

    @property
    def rule(self) -> str:
        """The id of the broken rule; empty if no rule was broken."""
        return self.refused.rule if self.refused else ""

    def summary(self) -> str:
        """Return the exchange as one line."""
        reason = [self.rule or self.refused.message.partition("\n")[0]] if self.refused else []
        parts = [self.method, self.path, self.provider or "-", self.model or "-", str(self.status), *reason]
        return " ".join(map(_printable, parts))

    def explain(self) -> str:
        """Return the exchange in a few lines, with the meaning of the broken rule."""
        target = "/".join(part for part in (self.provider, self.model) if part)
        head = _printable(f"{self.method} {self.path} ({target}) got {self.status}")
        refused = self.refused
        if refused is None or not self.rule:
            return f"{head}\n   {refused}" if refused else head
        parts = {"rule": f"{self.rule}: {all_rules()[self.rule].summary}", "pointer": refused.pointer}
        parts |= {"message": refused.message, "remedy": refused.remedy}
        return "\n   ".join([head, *(f"{name}: {part}" for name, part in parts.items() if part)])

    def to_dict(self) -> dict[str, Any]:
        """Return the exchange as JSON values."""
        warnings = self.judgement.warnings if self.judgement else ()
        return {
            "method": self.method, "path": self.path, "provider": self.provider, "model": self.model,
            "stream": self.stream, "status": self.status,
            "refused": None if self.refused is None else msgspec.to_builtins(self.refused),
            "exercised": sorted(self.judgement.exercised) if self.judgement else [],
            "warnings": [{"rule": finding.rule.id, "pointer": finding.pointer} for finding in warnings],
            "body": self.body, "reply": self.reply,
        }  # fmt: skip


class ExchangeLog:
    """The exchanges of one simulator. Thread-safe. `on_exchange` receives each exchange."""

    def __init__(self, on_exchange: Callable[[ExchangeRecord], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._records: deque[ExchangeRecord] = deque()
        self._dropped: deque[ExchangeRecord] = deque(maxlen=MAX_REFUSALS)
        self._exercised: set[str] = set()
        self._attempts: dict[str, int] = {}  # the request that was counted last is the last key
        self._stored: dict[tuple[str, str], tuple[ExchangeRecord, StoredReply | None]] = {}
        self._size = 0
        self._on_exchange = on_exchange
        self.prompt_cache = PromptCache()

    def add(self, record: ExchangeRecord) -> None:
        stored = _stored_reply(record)
        with self._lock:
            self._records.append(record)
            self._size += record.size + len(record.data)
            if record.judgement is not None:
                self._exercised.update(record.judgement.exercised)
            for id in _ids(stored):
                self._stored[record.account, id] = (record, stored)
            while len(self._records) > MAX_RECORDS or (self._size > MAX_BYTES and len(self._records) > 1):
                self._drop(self._records.popleft())
        if self._on_exchange is not None:
            self._on_exchange(record)

    def _drop(self, oldest: ExchangeRecord) -> None:
        self._size -= oldest.size + len(oldest.data)
        for id in _ids(_stored_reply(oldest)):
            if self._stored.get((oldest.account, id), (None,))[0] is oldest:
                del self._stored[oldest.account, id]
        if oldest.refused is not None:
            self._dropped.append(msgspec.structs.replace(oldest, body=None, data=b"", judgement=None))

    def count_attempt(self, digest: str) -> int:
        """Count a request; return how often it was made before."""
        with self._lock:
            before = self._attempts.pop(digest, 0)
            self._attempts[digest] = before + 1
            if len(self._attempts) > MAX_COUNTED:
                del self._attempts[next(iter(self._attempts))]
            return before

    def clear(self) -> None:
        with self._lock:
            for part in (self._records, self._dropped, self._exercised, self._attempts, self._stored):
                part.clear()
            self._size = 0

    @property
    def records(self) -> list[ExchangeRecord]:
        """The exchanges, oldest first."""
        with self._lock:
            return list(self._records)

    @property
    def refusals(self) -> list[ExchangeRecord]:
        with self._lock:
            return [*self._dropped, *(record for record in self._records if record.refused)]

    @property
    def exercised_rules(self) -> set[str]:
        """The ids of the rules that had something to check."""
        with self._lock:
            return set(self._exercised)

    def stored(self, id: str, account: str) -> StoredReply | None:
        """Find a reply of the Responses dialect by its id or the id of one of its items; None if it was not stored."""
        with self._lock:
            _, stored = self._stored.get((account, id), (None, None))
        return stored if stored is not None and stored.request.get("store") is not False else None


def _printable(text: str) -> str:
    """Return the start of a text without line breaks and control characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text[:_MAX_LINE])


def _stored_reply(record: ExchangeRecord) -> StoredReply | None:
    """Return request and response if this is a response object, whole or in the last event of a stream."""
    data = record.data
    if record.status != 200 or b'"response"' not in data or not isinstance(record.body, dict):
        return None
    if record.stream:
        data = data[data.rfind(b"\ndata: {") + 7 :].partition(b"\n")[0]
    try:
        document = jsonio.parse(data)
    except jsonio.JsonError:
        return None
    response = document.get("response") if record.stream and isinstance(document, dict) else document
    if isinstance(response, dict) and response.get("object") == "response":
        return StoredReply(record.body, response)
    return None


def _ids(stored: StoredReply | None) -> set[str]:
    return {stored.response["id"], *(item["id"] for item in stored.response["output"])} if stored else set()
