"""Codecs with a fault that the runner must find.

A mutant changes a finished block, the assembled message, the request, the written bytes, the frames, the events, or the
stored form. `caught_by` is the check that must find it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from conformance.jsontext import load, plain
from tenuto.core import stored
from tenuto.core.blocks import Block
from tenuto.core.events import ContentDelta, StreamEvent
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import WireRequest
from tenuto.core.response import ChatResponse
from tenuto.wire import assembler, decoder, framing
from tenuto.wire import codec as codecs

__all__ = [
    "Mutant",
    "fields",
    "on_block",
    "on_bytes",
    "on_events",
    "on_fields",
    "on_frames",
    "on_lines",
    "on_message",
    "on_request",
    "on_response",
    "on_store",
    "on_verbatim",
    "respelt",
]

Patch = Callable[[pytest.MonkeyPatch, Any], None]


def _change(monkeypatch: pytest.MonkeyPatch, dialect: Any, **parts: Any) -> None:
    """Replace parts of a codec."""
    monkeypatch.setitem(codecs._codecs, dialect, msgspec.structs.replace(codecs.codec_for(dialect), **parts))


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault: its dialect, its effect, and the check that must find it."""

    name: str
    dialect: str
    caught_by: str
    patch: Patch

    def __str__(self) -> str:
        return f"{self.dialect}: {self.name}"


def respelt(text: str) -> str:
    """Write JSON again, as a careless encoder would."""
    return json.dumps(plain(load(text)), ensure_ascii=False, separators=(",", ":"))


def fields(extra: str, *, without: tuple[str, ...] = (), **changed: Any) -> str:
    """Return the text of an object without some fields, and with others changed."""
    merged = {**plain(load(extra or "{}")), **changed}
    kept = {name: value for name, value in merged.items() if name not in without}
    return json.dumps(kept, ensure_ascii=False) if kept else ""


# --- places of a fault -----------------------------------------------------------------------------------------------


def on_block(kind: type[Block], change: Callable[[Any], Block]) -> Patch:
    """Change every block of a kind as it is finished."""

    def patch(monkeypatch: pytest.MonkeyPatch, _: Any) -> None:
        done = assembler.ChoiceBuilder.finish

        def mutated(self: assembler.ChoiceBuilder, slot: Any, block: Block | None = None) -> Block:
            joined = block if block is not None else slot.joined()
            return done(self, slot, change(joined) if isinstance(joined, kind) else joined)

        monkeypatch.setattr(assembler.ChoiceBuilder, "finish", mutated)

    return patch


def on_response(change: Callable[[ChatResponse], ChatResponse]) -> Patch:
    """Change the assembled response."""

    def patch(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
        decoder = codecs.codec_for(dialect).decoder
        assembled = decoder.response

        def mutated(self: Any, *, partial: bool) -> ChatResponse:
            return change(assembled(self, partial=partial))

        monkeypatch.setattr(decoder, "response", mutated)

    return patch


def on_message(change: Callable[[AssistantMessage], AssistantMessage]) -> Patch:
    """Change the message of every choice."""

    def changed(response: ChatResponse) -> ChatResponse:
        choices = (msgspec.structs.replace(c, message=change(c.message)) for c in response.choices)
        return msgspec.structs.replace(response, choices=tuple(choices))

    return on_response(changed)


def on_request(change: Callable[[AssistantMessage], AssistantMessage]) -> Patch:
    """Change the assistant's turns before they are encoded."""

    def patch(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
        encode = codecs.codec_for(dialect).encode

        def mutated(builder: Any) -> WireRequest:
            turns = tuple(change(m) if isinstance(m, AssistantMessage) else m for m in builder.request.transcript)
            builder.request = msgspec.structs.replace(builder.request, messages=turns)
            return encode(builder)

        _change(monkeypatch, dialect, encode=mutated)

    return patch


def on_bytes(pattern: bytes, put: bytes) -> Patch:
    """Change the bytes of a request after they were written."""

    def patch(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
        encode = codecs.codec_for(dialect).encode

        def mutated(builder: Any) -> WireRequest:
            written = encode(builder)
            return msgspec.structs.replace(written, body=re.sub(pattern, put, written.body))

        _change(monkeypatch, dialect, encode=mutated)

    return patch


def on_verbatim(change: Callable[[list[Any]], list[Any]]) -> Patch:
    """Change the wire form of a turn."""

    def patch(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
        write = codecs.codec_for(dialect).verbatim
        _change(monkeypatch, dialect, verbatim=lambda message: change(write(message)))

    return patch


def on_store(change: Callable[[bytes], bytes]) -> Patch:
    """Change what is stored."""

    def patch(monkeypatch: pytest.MonkeyPatch, _: Any) -> None:
        dump = stored.dump_response
        monkeypatch.setattr(stored, "dump_response", lambda response: change(dump(response)))

    return patch


def on_frames(change: Callable[[bytes, bytes], list[tuple[bytes, bytes]]]) -> Patch:
    """Change the frames before the dialect reads them."""

    def patch(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
        decoder = codecs.codec_for(dialect).decoder
        read = decoder.frame

        def mutated(self: Any, name: bytes, data: bytes) -> None:
            for frame in change(name, data):
                read(self, *frame)

        monkeypatch.setattr(decoder, "frame", mutated)

    return patch


def on_lines(change: Callable[[bytes], bytes]) -> Patch:
    """Change each chunk of a stream as it arrives."""

    def patch(monkeypatch: pytest.MonkeyPatch, _: Any) -> None:
        read = framing.SseDecoder._read
        monkeypatch.setattr(framing.SseDecoder, "_read", lambda self, piece, frames: read(self, change(piece), frames))

    return patch


def on_events(change: Callable[[StreamEvent], list[StreamEvent]], kind: type[StreamEvent] = ContentDelta) -> Patch:
    """Change the events of a kind on their way to the caller."""

    def patch(monkeypatch: pytest.MonkeyPatch, _: Any) -> None:
        feed = decoder.Decoder.feed

        def mutated(self: decoder.Decoder, piece: bytes) -> list[StreamEvent]:
            events = feed(self, piece)
            return [other for event in events for other in (change(event) if isinstance(event, kind) else [event])]

        monkeypatch.setattr(decoder.Decoder, "feed", mutated)

    return patch


def on_fields(put: Callable[..., None]) -> Patch:
    """Replace the rule that merges unknown fields, in every dialect."""

    def patch(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
        module = __import__(codecs.codec_for(dialect).decoder.__module__, fromlist=["merge_fields"])
        monkeypatch.setattr(module, "merge_fields", put)

    return patch
