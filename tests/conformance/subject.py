"""The functions of the package under test: the runner uses the codecs only through this module."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from conformance.corpus import Exchange
from conformance.jsontext import load
from tenuto.core import stored
from tenuto.core.events import MessageDone, StreamEvent
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Dialect, Target
from tenuto.core.response import ChatResponse
from tenuto.errors import LLMError
from tenuto.oneshot import target_of
from tenuto.wire import codec as codecs
from tenuto.wire.decoder import Decoder
from tenuto.wire.write import write_request

__all__ = [
    "Outcome",
    "decode",
    "decode_pieces",
    "requested_model",
    "response_only",
    "sendable",
    "store_and_load",
    "target_for",
    "verbatim",
    "write",
]


@dataclasses.dataclass
class Outcome:
    """The result of decoding: the response, or the error with the content before it; and the events."""

    response: ChatResponse | None
    error: LLMError | None
    events: list[StreamEvent]

    @property
    def reply(self) -> ChatResponse | None:
        """The response, whole or partial."""
        return self.response if self.error is None else self.error.partial

    @property
    def sign(self) -> tuple[Any, ...]:
        """The comparable form of an outcome."""
        return (self.response, type(self.error), str(self.error) if self.error else "", self.reply)


def requested_model(exchange: Exchange) -> str:
    """The model of the recorded request; without a request, the one of the description."""
    try:
        request = json.loads(exchange.request or b"{}")
    except ValueError:
        request = {}
    named = request.get("model") if isinstance(request, dict) else None
    return str(named or exchange.about.get("model") or "")


def target_for(exchange: Exchange) -> Target:
    """Return the target of the request."""
    return target_of(cast(Dialect, exchange.dialect), requested_model(exchange), exchange.provider)


def decode(exchange: Exchange, target: Target) -> Outcome:
    """Read a reply with the codec under test."""
    decoder = codecs.codec_for(target.dialect).decoder(target, seed=exchange.name)
    return _finished(decoder, (decoder.feed if exchange.streamed else decoder.feed_body)(exchange.body))


def decode_pieces(exchange: Exchange, target: Target, pieces: Iterable[bytes]) -> Outcome:
    """Read a stream in chunks; its events are dropped, because there may be millions."""
    decoder = codecs.codec_for(target.dialect).decoder(target, seed=exchange.name)
    feed = decoder.feed
    for piece in pieces:
        feed(piece)
    return _finished(decoder, [])


def _finished(decoder: Decoder, events: list[StreamEvent]) -> Outcome:
    events += decoder.drain()  # the events of a last frame without an end, which `finish` drops when it raises
    try:
        last = decoder.finish()
    except LLMError as exc:
        return Outcome(None, exc, events)
    events += last
    assert isinstance(last[-1], MessageDone)
    return Outcome(last[-1].response, None, events)


def store_and_load(response: ChatResponse) -> ChatResponse:
    """Store a response and load it again."""
    return stored.load_response(stored.dump_response(response))


def verbatim(dialect: str, message: AssistantMessage) -> list[Any]:
    """Return an assistant's turn in its wire form, parsed with plain `json`."""
    from tenuto.core import jsonio

    written = load(jsonio.encode(codecs.codec_for(cast(Dialect, dialect)).verbatim(message)))
    assert isinstance(written, list)
    return written


def write(request: Any, target: Target) -> Any:
    """Encode a request as the client does: adapt, fit, encode.

    Plain text reasoning is sent back on every turn: the policy of a row or model has its own tests and does not depend
    on a recorded client.
    """
    traits = msgspec.structs.replace(target.traits, passback="always")
    return write_request(request, msgspec.structs.replace(target, traits=traits))


def response_only(dialect: str) -> dict[str, str]:
    """Return the dialect's table of received fields that are not sent, with reasons."""
    return dict(codecs.codec_for(dialect).response_only)


def sendable(dialect: str, block: Any) -> Any:
    """Return wire blocks without the fields that are received and never sent."""
    return _without(block, response_only(dialect), "")


def _without(block: Any, only: dict[str, str], path: str) -> Any:
    if isinstance(block, list):
        return [_without(item, only, path) for item in block]
    if not isinstance(block, dict):
        return block
    kind = block.get("type") if isinstance(block.get("type"), str) else None
    return {
        name: _without(value, only, name)
        for name, value in block.items()
        if name not in only and f"{path}.{name}" not in only and f"{kind}.{name}" not in only
    }
