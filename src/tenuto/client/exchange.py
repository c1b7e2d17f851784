"""One HTTP exchange: send a request, check the status, read the body within its limits."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from tenuto import settings
from tenuto.client.http import HttpReply, HttpRequest, Secret, Transport, is_secret, safe_url
from tenuto.client.parameters import OnLoss, Timeouts
from tenuto.client.routing import Endpoint, Router
from tenuto.core.loss import Loss
from tenuto.core.provider import Target, WireRequest
from tenuto.errors import ConnectionFailed, LLMError, LossError, NotFound, ProtocolError, TimedOut
from tenuto.wire.provider_errors import classify_error

T = TypeVar("T")
MAX_REPLY = 64 * 1024 * 1024
MAX_STREAM = 256 * 1024 * 1024
MAX_ERROR = 256 * 1024
USER_AGENT = "tenuto/0.1"

_MAX_INFLATED = 256 * 1024  # the maximum number of bytes that are decompressed at a time
_MAX_MESSAGE = 2000  # the maximum number of characters of an error message: a server may respond with a whole page
_MAX_LOSSES = 5
_MAX_DETAIL = 100  # the number of characters of one loss in a message
_MAX_REMEMBERED = 1000  # the number of losses that are remembered in order to report them once
_END_WAIT = 0.25  # seconds to wait for the end of a complete stream, so that its connection can be used again
_SEPARATORS = str.maketrans(dict.fromkeys(';,="', " "))
"""Characters between the parts of a header's value, besides space."""
_MIN_SECRET = 8  # shorter parts are not redacted: they would match in any text

log = logging.getLogger("tenuto")


class StreamIdleAfterEnd(Exception):
    """The answer is complete, and the rest of the stream did not arrive in time."""


class Sender:
    """The parts of a client that all of its requests share."""

    def __init__(
        self, router: Router, transport: Transport, now: Callable[[], float], on_loss: OnLoss = "warn"
    ) -> None:
        self.router = router
        self.transport = transport
        self.now = now
        self.closed = False
        self._on_loss = on_loss
        self._reported: set[tuple[str, Loss]] = set()
        self.logs_bytes = settings.debug("wire")
        if self.logs_bytes:
            log.setLevel(logging.DEBUG)
            if not log.hasHandlers():
                log.addHandler(logging.StreamHandler(sys.stderr))

    async def ask(self, target: Target, wire: WireRequest, timeouts: Timeouts, total_at: float | None) -> bytes:
        """Send a request that is not a chat. Return the body of the response; raise the typed error of a refusal."""
        self.report_losses(target, wire.losses, once=True)
        endpoint = await self.router.endpoint(target, wire.headers)
        attempt = Attempt(self, target, timeouts, total_at)
        try:
            await attempt.send(endpoint, wire)
            await attempt.check_status()
            return attempt.redact_bytes(await attempt.read_all())
        except LLMError as error:
            attempt.annotate(error)
            raise
        finally:
            attempt.close()

    def report_losses(self, target: Target, losses: Sequence[Loss], *, once: bool) -> None:
        """Report what a request cannot carry: as one WARNING, as `LossError`, or not at all.

        With `once`, losses that were reported before are not reported again: an agent sends its conversation with
        every turn.
        """
        if not losses or self._on_loss == "keep":
            return
        model = f"{target.provider.name}/{target.model}"
        if self._on_loss == "raise":
            raise LossError(model, tuple(losses))
        new = [loss for loss in losses if not once or (model, loss) not in self._reported]
        if len(self._reported) > _MAX_REMEMBERED:
            self._reported.clear()
        self._reported.update((model, loss) for loss in losses)
        if new:
            details = [loss.detail[:_MAX_DETAIL] + ("..." if len(loss.detail) > _MAX_DETAIL else "") for loss in new]
            lines = [f"{loss.location}: {detail} ({loss.kind})" for loss, detail in zip(new, details, strict=True)]
            more = [f"and {len(new) - _MAX_LOSSES} more"] if len(new) > _MAX_LOSSES else []
            log.warning("%s cannot take all of the request: %s", model, "; ".join([*lines[:_MAX_LOSSES], *more]))


class Attempt:
    """One HTTP exchange within its deadlines. Close it at the end.

    Time passes only while the exchange waits for the network: deadlines are paused while the caller is not reading. Only
    `total_at` is a fixed time.
    """

    def __init__(self, sender: Sender, target: Target, timeouts: Timeouts, total_at: float | None) -> None:
        self._sender = sender
        self._target = target
        self._url = ""
        self._timeouts = timeouts
        self._total_at = total_at
        self._secrets: tuple[str, ...] = ()
        self._reply: HttpReply | None = None
        self._inflater: _Inflater | None = None
        self._size = 0
        self._unlogged = b""
        self.event_left = timeouts.event
        """Seconds to wait for the head of the response, then for the next event. The reader of the events resets it:
        events come from the model, other bytes may come from its server alone."""
        self.end_left: float | None = None
        """Seconds to wait for the rest of the stream, whatever arrives, after the answer is complete."""
        self.max_size = MAX_REPLY
        self.status = 0  # the status of the response; 0 before it arrives
        self.headers: Mapping[str, str] = {}  # the headers of the response without the keys that it quotes
        self.request_id: str | None = None  # the provider's id of the request
        self.raw: bytes | None = None  # the body of a response that was not streamed

    async def wait(self, operation: Awaitable[T]) -> T:
        """Await an operation. If a deadline passes, cancel it and raise `TimedOut` or `StreamIdleAfterEnd`."""
        now = asyncio.get_running_loop().time
        start = now()
        limits = (
            ("end", self.end_left),
            ("total", None if self._total_at is None else self._total_at - start),
            ("read", self._timeouts.read if self.status else None),
            ("event", self.event_left),
        )
        name, seconds = min(limits, key=lambda limit: math.inf if limit[1] is None else limit[1])
        try:
            async with asyncio.timeout(seconds) as timeout:
                return await operation
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._timed_out(name) from None
        finally:
            elapsed = now() - start
            if self.event_left is not None:
                self.event_left -= elapsed
            if self.end_left is not None:
                self.end_left -= elapsed

    def _timed_out(self, limit: str) -> Exception:
        timeouts = self._timeouts
        if limit == "end":
            return StreamIdleAfterEnd()
        if limit == "total":
            return out_of_time(timeouts)
        if limit == "read":
            return TimedOut(f"no data for {timeouts.read:g} s")
        return TimedOut(f"no {'event' if self.status else 'response'} within {timeouts.event:g} s")

    async def send(self, endpoint: Endpoint, wire: WireRequest) -> None:
        """Send a request and wait for the head of the response."""
        content_type = {"content-type": "application/json"} if wire.body else {}
        common = {"user-agent": USER_AGENT, "accept-encoding": "identity", **content_type}
        headers, self._secrets = protect_headers({**common, **endpoint.auth, **wire.headers})
        request = HttpRequest(wire.method, endpoint.url(wire.path), headers, wire.body, self._timeouts.connect)
        if self._sender.closed:
            raise ConnectionFailed("the client was closed", retryable=False)
        if self._sender.logs_bytes:
            log.debug("-> %r %s", request, self._redact(_to_text(request.body)))
        self._reply = reply = await self.wait(self._sender.transport.send(request))
        self.event_left = self._timeouts.event
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s: HTTP %d", request.method, safe_url(request.url), reply.status)
        self.status, self._url = reply.status, request.url
        self.headers = {name: self._redact(value) for name, value in reply.headers.items()}
        self.request_id = self.headers.get("request-id") or self.headers.get("x-request-id")

    async def check_status(self) -> None:
        """Raise the typed error of a refusal, and `ProtocolError` for a web page."""
        status, headers = self.status, self.headers
        if 200 <= status < 300:
            content_type = headers.get("content-type", "")
            if "html" in content_type.lower():
                raise ProtocolError(f"the response is a web page ({content_type}): check that base_url is an API")
            return
        if status < 200:
            raise LLMError(f"HTTP {status}: unexpected {'upgrade' if status == 101 else 'status'}", status=status)
        body = b""
        try:
            while len(body) < MAX_ERROR and (chunk := await self.read()):
                body += chunk
        except (ConnectionFailed, TimedOut, ProtocolError) as exc:
            log.debug("cannot read the body of the error: %s", exc)
            body = b""  # the status says enough
        text = self._redact(_to_text(body[:MAX_ERROR]))
        if status < 400 and "location" in headers:
            message = f"redirected to {safe_url(headers['location'])}: set this URL as base_url to send your key there"
            raise LLMError(message, status=status, raw=text)
        error = classify_error(text, provider=self._target.provider.name, status=status, headers=headers)
        if len(error.message) > _MAX_MESSAGE:
            error.message = f"{error.message[:_MAX_MESSAGE]}... ({len(error.message)} characters; raw has them)"
            error.args = (error.message,)
        if error.retry_after is None:
            error.retry_after = _seconds_until(headers.get("retry-after", ""), self._sender.now())
        if len(body) >= MAX_ERROR:
            error.add_note(f"the body of the error is longer than {MAX_ERROR} bytes; the rest was not read")
        raise error

    async def read(self) -> bytes:
        """Return the next bytes of the body; empty at the end. Raise `ProtocolError` beyond `max_size`."""
        reply = self._reply
        if reply is None:
            raise ConnectionFailed("the connection was closed")
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            chunk = await self.wait(reply.read())
        else:
            self._inflater = self._inflater or _Inflater(encoding)
            chunk = await self._inflater.read(lambda: self.wait(reply.read()))
        self._size += len(chunk)
        if self._size > self.max_size:
            raise ProtocolError(f"the response is larger than {self.max_size} bytes; the rest was not read")
        if self._sender.logs_bytes:
            self._log_bytes(chunk)
        return chunk

    async def read_all(self) -> bytes:
        chunks = []
        while chunk := await self.read():
            self.event_left = self._timeouts.event  # this body has no events: each chunk shows that the model responds
            chunks.append(chunk)
        return b"".join(chunks)

    async def read_rest(self) -> None:
        """Read to the end of a complete stream, so that the connection can be used again. Give up soon."""
        self.end_left = _END_WAIT if self.end_left is None else min(self.end_left, _END_WAIT)
        with suppress(StreamIdleAfterEnd, LLMError):
            while await self.read():
                pass

    def close(self) -> None:
        """Release the connection. A second call has no effect."""
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.close()
            if self._unlogged:
                self._log_bytes(b"")

    def annotate(self, error: LLMError) -> None:
        """Add provider, model and request id to an error, and redact the keys that it quotes."""
        error.provider = error.provider or self._target.provider.name
        error.model = error.model or self._target.model
        if isinstance(error, NotFound):
            error.url = safe_url(self._url)
        error.request_id = error.request_id or self.request_id
        if any(secret in error.raw or secret in str(error) for secret in self._secrets):
            error.raw, error.message = self._redact(error.raw), self._redact(error.message)
            error.args = (error.message,)
            if isinstance(error, ProtocolError):
                error.frame = self.redact_bytes(error.frame)

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def redact_bytes(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret.encode(), b"***")
        return data

    def _log_bytes(self, chunk: bytes) -> None:
        """Log received bytes; empty is the end. Less than a secret is held back: its rest may follow."""
        data = self.redact_bytes(self._unlogged + chunk)
        end = len(data) - (len(self._secrets[0].encode()) - 1 if self._secrets and chunk else 0)
        while 0 < end < len(data) and data[end] & 0xC0 == 0x80:  # do not split a character
            end -= 1
        self._unlogged = data[max(end, 0) :]
        if end > 0:
            log.debug("<- %s", _to_text(data[:end]))


def protect_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the headers in lower case with a masked `repr`, and the parts of their secrets, the longest first."""
    protected = {name.lower(): Secret(value) if is_secret(name) else value for name, value in headers.items()}
    secrets = [value.translate(_SEPARATORS) for value in protected.values() if isinstance(value, Secret)]
    parts = {Secret(part) for secret in secrets for part in secret.split() if len(part) >= _MIN_SECRET}
    return protected, tuple(sorted(parts, key=len, reverse=True))


class _Inflater:
    """Decompress a body chunk by chunk, with bounded memory. Some servers compress without being asked to."""

    def __init__(self, encoding: str) -> None:
        self._format = encoding.removeprefix("x-")
        if self._format not in ("gzip", "deflate"):
            raise ProtocolError(f"the response is compressed with {encoding!r}, which is not supported")
        self._has_header = True
        self._z = zlib.decompressobj(zlib.MAX_WBITS + (16 if self._format == "gzip" else 0))

    async def read(self, read_chunk: Callable[[], Awaitable[bytes]]) -> bytes:
        while not self._z.eof:
            data = self._z.unconsumed_tail or await read_chunk()
            if not data:
                raise ConnectionFailed(f"the response ended in the middle of its {self._format} data")
            if chunk := self._decompress(data):
                return chunk
        while await read_chunk():  # ignore bytes after the end of the compressed data
            pass
        return b""

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._z.decompress(data, _MAX_INFLATED)
        except zlib.error as exc:
            if self._format == "deflate" and self._has_header:  # some servers omit the zlib header
                self._has_header, self._z = False, zlib.decompressobj(-zlib.MAX_WBITS)
                return self._decompress(data)
            raise ProtocolError(f"cannot decompress the {self._format} data of the response: {exc}") from exc


def out_of_time(timeouts: Timeouts) -> TimedOut:
    """Return the error of a call that took longer than its total timeout. It is not retryable: no time is left."""
    return TimedOut(f"the call took longer than {timeouts.total:g} s", retryable=False)


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _seconds_until(date: str, now: float) -> float | None:
    """Return the seconds until an HTTP date, 0 if it has passed; None if it is not a date."""
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
