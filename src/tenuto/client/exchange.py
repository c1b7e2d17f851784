"""One HTTP exchange: send a request, check the status, read the body within its limits."""

from __future__ import annotations

import logging
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from tenuto import settings
from tenuto.client.deadlines import Deadlines, StreamIdleAfterEnd
from tenuto.client.http import HttpReply, HttpRequest, Transport, safe_url, secrets_of, wrap_secrets
from tenuto.client.losses import LossReporter
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.routing import Endpoint, Router
from tenuto.core.provider import Target, WireRequest
from tenuto.errors import ConnectionFailed, LLMError, ProtocolError, TimedOut
from tenuto.wire.provider_errors import classify_error

MAX_REPLY = 64 * 1024 * 1024
MAX_STREAM = 256 * 1024 * 1024
MAX_ERROR = 256 * 1024
USER_AGENT = "tenuto/0.1"

_MAX_INFLATED = 256 * 1024
"""The maximum number of bytes that are decompressed at a time."""
_MAX_MESSAGE = 2000
"""The maximum number of characters of an error message: a server may respond with a whole page."""
_END_WAIT = 0.25
"""Seconds to wait for the end of a complete stream, so that its connection can be used again."""

log = logging.getLogger("tenuto")


class Sender:
    """The parts of a client that all of its requests share."""

    def __init__(
        self, router: Router, transport: Transport, now: Callable[[], float], on_loss: OnLoss = "warn"
    ) -> None:
        self.router = router
        self.transport = transport
        self.now = now
        self.losses = LossReporter(on_loss)
        self.closed = False
        self.logs_bytes = settings.debug("wire")
        if self.logs_bytes:
            log.setLevel(logging.DEBUG)
            if not log.hasHandlers():
                log.addHandler(logging.StreamHandler(sys.stderr))

    def close(self) -> None:
        """Send no more requests."""
        self.closed = True

    async def ask(self, target: Target, wire: WireRequest, timeouts: Timeouts, total_at: float | None) -> bytes:
        """Send a request that is not a chat. Return the body of the response; raise the typed error of a refusal."""
        endpoint = await self.router.endpoint(target, wire.headers)
        with Attempt(self, target.provider.name, timeouts, total_at) as attempt:
            await attempt.send(endpoint, wire)
            await attempt.check_status()
            return attempt.redact_bytes(await attempt.read_all())


class Attempt:
    """One HTTP exchange. Leaving the `with` closes it and completes an error with provider and request id."""

    def __init__(self, sender: Sender, provider: str, timeouts: Timeouts, total_at: float | None) -> None:
        self._sender = sender
        self._provider = provider
        self._connect_timeout = timeouts.connect
        self._secrets: tuple[str, ...] = ()
        self._reply: HttpReply | None = None
        self._inflater: _Inflater | None = None
        self._size = 0
        self._unlogged = b""
        self.deadlines = Deadlines(timeouts, total_at)
        self.max_size = MAX_REPLY
        """The maximum number of bytes of the body."""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        """The headers of the response without the keys that it quotes."""
        self.raw: bytes | None = None
        """The body of a response that was not streamed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, LLMError):
            self.annotate(error)

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request."""
        return self.headers.get("request-id") or self.headers.get("x-request-id")

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream, even if none was requested."""
        return self.headers.get("content-type", "").lower().startswith("text/event-stream")

    # --- the head -----------------------------------------------------------------------------------------------------

    async def send(self, endpoint: Endpoint, wire: WireRequest) -> None:
        """Send a request and wait for the head of the response."""
        headers = {
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            **({"content-type": "application/json"} if wire.body else {}),
            **endpoint.auth,
            **wrap_secrets(wire.headers),
        }
        request = HttpRequest(wire.method, endpoint.url(wire.path), headers, wire.body, self._connect_timeout)
        self._secrets = secrets_of(headers)
        if self._sender.closed:
            raise ConnectionFailed("the client was closed", retryable=False)
        if self._sender.logs_bytes:
            log.debug("-> %r %s", request, redact(_to_text(request.body), self._secrets))
        self._reply = reply = await self.deadlines.wait(self._sender.transport.send(request))
        self.deadlines.start_body()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s: HTTP %d", request.method, safe_url(request.url), reply.status)
        self.status = reply.status
        self.headers = {name: redact(value, self._secrets) for name, value in reply.headers.items()}

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
        body = await self._read_error()
        text = redact(_to_text(body[:MAX_ERROR]), self._secrets)
        if status < 400 and "location" in headers:
            message = f"redirected to {safe_url(headers['location'])}: set this URL as base_url to send your key there"
            raise LLMError(message, status=status, raw=text)
        error = classify_error(text, provider=self._provider, status=status, headers=headers)
        if len(error.message) > _MAX_MESSAGE:
            error.message = f"{error.message[:_MAX_MESSAGE]}... ({len(error.message)} characters; raw has them)"
            error.args = (error.message,)
        if error.retry_after is None:
            error.retry_after = _seconds_until(headers.get("retry-after", ""), self._sender.now())
        if len(body) >= MAX_ERROR:
            error.add_note(f"the body of the error is longer than {MAX_ERROR} bytes; the rest was not read")
        raise error

    # --- the body -----------------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """Return the next bytes of the body; empty at the end. Raise `ProtocolError` beyond `max_size`."""
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            chunk = await self._read_chunk()
        else:
            self._inflater = self._inflater or _Inflater(encoding)
            chunk = await self._inflater.read(self._read_chunk)
        self._size += len(chunk)
        if self._size > self.max_size:
            raise ProtocolError(f"the response is larger than {self.max_size} bytes; the rest was not read")
        if self._sender.logs_bytes:
            self._log_bytes(chunk)
        return chunk

    async def read_all(self) -> bytes:
        """Return the whole body."""
        chunks = []
        while chunk := await self.read():
            self.deadlines.got_event()  # this body has no events: each chunk shows that the model responds
            chunks.append(chunk)
        return b"".join(chunks)

    async def read_rest(self) -> None:
        """Read to the end of a complete stream, so that the connection can be used again. Give up soon."""
        self.deadlines.limit_end(_END_WAIT)
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

    async def _read_chunk(self) -> bytes:
        if self._reply is None:
            raise ConnectionFailed("the connection was closed")
        return await self.deadlines.wait(self._reply.read())

    async def _read_error(self) -> bytes:
        """Return the first bytes of the body of a refusal; nothing if it cannot be read, since the status says enough."""
        body = b""
        try:
            while len(body) < MAX_ERROR and (chunk := await self.read()):
                body += chunk
        except (ConnectionFailed, TimedOut, ProtocolError) as exc:
            log.debug("cannot read the body of the error: %s", exc)
            return b""
        return body

    # --- secrets ------------------------------------------------------------------------------------------------------

    def annotate(self, error: LLMError) -> None:
        """Add provider and request id to an error, and redact the keys that it quotes."""
        error.provider = error.provider or self._provider
        error.request_id = error.request_id or self.request_id
        if any(secret in error.raw or secret in str(error) for secret in self._secrets):
            error.raw, error.message = redact(error.raw, self._secrets), redact(error.message, self._secrets)
            error.args = (error.message,)
            if isinstance(error, ProtocolError):
                error.frame = self.redact_bytes(error.frame)

    def redact_bytes(self, data: bytes) -> bytes:
        """Replace the keys that a body quotes."""
        for secret in self._secrets:
            data = data.replace(secret.encode(), b"***")
        return data

    def _log_bytes(self, chunk: bytes) -> None:
        """Log received bytes. An empty chunk is the end.

        One byte less than the longest secret has is held back: the next chunk may have the rest of the secret.
        """
        data = self.redact_bytes(self._unlogged + chunk)
        end = len(data) - (len(self._secrets[0].encode()) - 1 if self._secrets and chunk else 0)
        while 0 < end < len(data) and data[end] & 0xC0 == 0x80:  # do not split a character
            end -= 1
        self._unlogged = data[max(end, 0) :]
        if end > 0:
            log.debug("<- %s", _to_text(data[:end]))


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


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """Replace the keys that a text quotes."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _seconds_until(date: str, now: float) -> float | None:
    """Return the seconds until an HTTP date, 0 if it has passed; None if it is not a date."""
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
