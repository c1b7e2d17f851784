"""Helpers to decode chunks."""

from __future__ import annotations

from tenuto.core.blocks import GeminiMeta
from tenuto.core.provider import GeminiSwitches, Provider, Target
from tenuto.wire.decoder import decode_body, decode_stream
from tenuto.wire.gemini.decode import GeminiDecoder
from wire.gemini.cases import sse, to_json

TARGET = Target(Provider("here", "gemini", ""), "gemini-3-pro", "gemini")
VERTEX = Target(Provider("there", "gemini", "", gemini=GeminiSwitches(vertex=True)), "gemini-3-pro", "gemini")
SIGNED = GeminiMeta("c2ln")


def make_decoder(target: Target = TARGET, seed: str = "") -> GeminiDecoder:
    return GeminiDecoder(target, seed=seed)


def stream(*chunks: dict, target: Target = TARGET):
    return decode_stream(make_decoder(target), [sse(*chunks)])


def whole(body: dict, target: Target = TARGET):
    return decode_body(make_decoder(target), to_json(body))


def decode_blocks(*chunks: dict):
    return stream(*chunks).message.blocks


def decode_events(body: bytes) -> list:
    decoder = make_decoder()
    return [*decoder.feed(body), *decoder.finish()]
