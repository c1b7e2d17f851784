"""Decode replies, and write them back."""

from __future__ import annotations

import json

from tenuto.core import jsonio
from tenuto.core.provider import Provider, Target
from tenuto.core.response import ChatResponse
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.responses.decode import ResponsesDecoder
from tenuto.wire.responses.encode import verbatim
from wire.responses.cases import body, sse

TARGET = Target(Provider("here", "openai-responses", ""), "gpt-5.6-sol", "openai-responses")


def decoder() -> ResponsesDecoder:
    return ResponsesDecoder(TARGET, seed="s")


def stream(*events: dict) -> ChatResponse:
    return decode_stream(decoder(), [sse(*events)])


def decode_items(*items: dict, **fields: object) -> ChatResponse:
    return decode_body(decoder(), body(*items, **fields))


def decode_events(data: bytes) -> list:
    reader = decoder()
    return [*reader.feed(data), *reader.finish()]


def write_items(response: ChatResponse) -> list:
    return json.loads(jsonio.encode(verbatim(response.message)))


def loss_kinds(response: ChatResponse) -> list[str]:
    return [loss.kind for loss in response.losses]
