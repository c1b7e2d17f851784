"""What the requests of one client share: the way to a provider, the transport, and how an answer's head is read.

The key is in the request and nowhere else: what a server quotes of it is covered before anyone sees it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping

import msgspec

from tenuto import settings
from tenuto.client.body import MAX_ERROR, MAX_REPLY, Body
from tenuto.client.clock import Clock
from tenuto.client.door import Door, Way
from tenuto.client.http import HttpReply, HttpRequest, Secret, Transport, secrets_of, shown, with_secrets
from tenuto.client.losses import LossReporter
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.reply import Exchange
from tenuto.client.watch import Watch
from tenuto.core.provider import Target, WireRequest
from tenuto.errors import ConnectionFailed, LLMError, ProtocolError, TimedOut
from tenuto.wire.provider_errors import classify_error

__all__ = ["Line", "Opened"]

log = logging.getLogger("tenuto")
USER_AGENT = "tenuto/0.1"
_COVER = "***"
_LONGEST = 2000
"""How many characters of an error's text are its message; a server may answer with a whole page."""


class Line:
    """Sends a client's requests."""

    def __init__(self, door: Door, transport: Transport, now: Callable[[], float], on_loss: OnLoss = "warn") -> None:
        self.losses = LossReporter(on_loss)
        self._door = door
        self._transport = transport
        self.now = now
        self.closed = False
        self._clock: Clock | None = None
        self.tapped = settings.debug("wire")
        if self.tapped:
            _show_debugging()

    @property
    def clock(self) -> Clock:
        """The clock of the loop that runs."""
        loop = asyncio.get_running_loop()
        if self._clock is None or self._clock.loop is not loop:
            self._clock = Clock(loop)
        return self._clock

    def close(self) -> None:
        """Send nothing more, and let no deadline pass any more."""
        self.closed = True
        if self._clock is not None:
            self._clock.close()

    def target(self, model: str) -> Target:
        """Find whom a model is asked of."""
        return self._door.target(model)

    def waits(self, target: Target) -> bool:
        """Tell whether the way to a target takes time: a function gives the key, or a simulator is to be started."""
        return self._door.waits(target)

    async def way_to(self, target: Target, headers: Mapping[str, str]) -> tuple[Target, Way]:
        """Find how to get to a target; the target comes back with the account that is asked. `headers` are the caller's."""
        way = await self._door.way(target, {name.lower() for name in headers})
        way = msgspec.structs.replace(way, auth=with_secrets(way.auth), secret=Secret(way.secret))
        return msgspec.structs.replace(target, account=way.account, platform=way.platform), way

    async def open(self, target: Target, way: Way, wire: WireRequest, watch: Watch) -> Opened:
        """Send a request; return the answer once its head is there, whatever it says. `watch` guards it from now on.

        Raise what a transport raises, and `TimedOut` if no answer begins in time.
        """
        headers = {
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            **({"content-type": "application/json"} if wire.body else {}),
            **way.auth,
            **with_secrets({name.lower(): value for name, value in wire.headers.items()}),
        }
        request = HttpRequest(wire.method, way.url(wire.path), headers, wire.body, watch.waits.connect)
        secrets = secrets_of(headers)
        if self.closed:
            raise ConnectionFailed("the client was closed", provider=target.provider.name, retryable=False)
        if self.tapped:
            log.debug("-> %r %s", request, covered(wire.body, secrets))
        try:
            reply = await watch.head(self._transport.send(request))
        except BaseException as exc:
            watch.close()
            if not isinstance(exc, LLMError):
                raise
            exc.provider = exc.provider or target.provider.name
            raise _clean(exc, secrets) from exc.__cause__
        watch.begun(reply.abort)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s answered %d", wire.method, shown(request.url), reply.status)
        return Opened(self, target, secrets, reply, watch)

    async def ask(self, target: Target, wire: WireRequest, waits: Timeouts, total_at: float | None) -> bytes:
        """Send a request whose answer does not stream; return its body, or raise the typed error it came to."""
        target, way = await self.way_to(target, wire.headers)
        opened = await self.open(target, way, wire, Watch(self.clock, waits, total_at))
        try:
            await opened.check()
            body = await opened.body(MAX_REPLY).whole()
            opened.tap(body)
            return opened.covered(body)
        except LLMError as exc:
            raise opened.known(exc) from exc.__cause__
        finally:
            opened.close()


class Opened:
    """An answer whose head is there. It must be closed."""

    def __init__(self, line: Line, target: Target, secrets: tuple[str, ...], reply: HttpReply, watch: Watch) -> None:
        self._line = line
        self._secrets = secrets
        self._reply = reply
        self._provider = target.provider.name
        self._untapped = b""
        self.watch = watch
        headers = reply.headers
        if secrets and any(secret in value for secret in secrets for value in headers.values()):
            headers = {name: covered(value, secrets) for name, value in headers.items()}
        self.exchange = Exchange(target, reply.status, headers)

    @property
    def streams(self) -> bool:
        """Whether the server says that this is a stream, whatever was asked for."""
        return self._kind.startswith("text/event-stream")

    @property
    def _kind(self) -> str:
        return self.exchange.headers.get("content-type", "").lower()

    def body(self, limit: int) -> Body:
        """Begin to read; `ProtocolError` if the head already tells that this is no answer of an API."""
        if "html" in self._kind:
            raise ProtocolError(f"the answer is a web page ({self._kind}); is base_url the address of an API?")
        return Body(self._reply, limit, self.watch)

    async def check(self) -> None:
        """Raise the typed error if the answer is a refusal."""
        status, headers = self._reply.status, self.exchange.headers
        if 200 <= status < 300:
            return
        if status < 200:
            what = "upgrade" if status == 101 else "status"
            raise LLMError(f"HTTP {status}: unexpected {what}", provider=self._provider, status=status)
        raw, more = await self._refusal()
        text = covered(raw, self._secrets)
        if 300 <= status < 400 and "location" in headers:
            where = shown(headers["location"])
            message = f"redirected to {where}: not followed, because a key stays with its address; set it as base_url"
            raise LLMError(message, provider=self._provider, status=status, raw=text)
        error = classify_error(text, provider=self._provider, status=status, headers=headers)
        if len(error.message) > _LONGEST:
            error.message = f"{error.message[:_LONGEST]}... ({len(error.message)} characters; raw has them)"
            error.args = (error.message,)
        if error.retry_after is None:
            error.retry_after = _until(headers.get("retry-after", ""), self._line.now())
        if more:
            error.add_note(f"the body of the error is longer than {MAX_ERROR} bytes; the rest was not read")
        raise error

    async def _refusal(self) -> tuple[bytes, bool]:
        try:
            return await Body(self._reply, MAX_REPLY, self.watch).head(MAX_ERROR)
        except (ConnectionFailed, TimedOut, ProtocolError) as exc:  # the status alone says what it is
            log.debug("the body of the error could not be read: %s", exc)
            return b"", False

    def tap(self, piece: bytes) -> None:
        """Log what arrived, if asked for. An empty piece is the end.

        As many bytes as the longest secret has are held back: the rest of a secret may be in the next piece.
        """
        if not self._line.tapped:
            return
        held = self.covered(self._untapped + piece)
        cut = len(held) - (len(self._secrets[0].encode()) - 1 if self._secrets and piece else 0)
        while 0 < cut < len(held) and held[cut] & 0xC0 == 0x80:  # not inside a character
            cut -= 1
        self._untapped = held[max(cut, 0) :]
        if cut > 0:
            log.debug("<- %s", held[:cut].decode("utf-8", "replace"))

    def covered(self, body: bytes) -> bytes:
        """Cover the keys that a body quotes."""
        for secret in self._secrets:
            body = body.replace(secret.encode(), _COVER.encode())
        return body

    def known(self, error: LLMError) -> LLMError:
        """Write on an error where it comes from, and cover the key wherever the server quoted it."""
        error.provider = error.provider or self._provider
        error.request_id = error.request_id or self.exchange.request_id
        return _clean(error, self._secrets)

    def close(self) -> None:
        """Let the line go."""
        self.tap(b"")
        self.watch.close()
        self._reply.close()


def covered(data: bytes | str, secrets: tuple[str, ...]) -> str:
    """Return the text with the keys covered."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, _COVER)
    return text


def _clean(error: LLMError, secrets: tuple[str, ...]) -> LLMError:
    """Cover the keys wherever an error quotes them."""
    if any(secret in error.raw or secret in str(error) for secret in secrets):
        error.raw, error.message = covered(error.raw, secrets), covered(error.message, secrets)
        error.args = (error.message,)
        if isinstance(error, ProtocolError):
            error.frame = covered(error.frame, secrets).encode()
    return error


def _until(date: str, now: float) -> float | None:
    """Return the seconds to a date, 0 if it has passed; None if it is no date."""
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _show_debugging() -> None:
    """Where nobody set up logging, debugging goes to the terminal."""
    log.setLevel(logging.DEBUG)
    if not log.hasHandlers():
        log.addHandler(logging.StreamHandler(sys.stderr))
