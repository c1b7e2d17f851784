"""The simulator's replies pass the checks that recorded traffic passes: decoded, streamed, rechunked, stored, whole."""

from __future__ import annotations

import json

import pytest

from conformance.corpus import READERS
from conformance.jsontext import plain
from conformance.judge import judge
from conformance.neutral_wire import neutral_blocks
from conformance.oracle import coalesce
from conformance.report import Report
from sim.playing import TURNS, play
from tenuto.sim.providers import all_providers
from tenuto.sim.script import Refuse, Say, Stop, StreamError, join_text

MORE = {
    **TURNS,
    "refusal": (Refuse(),),
    "cut at a length": (Say("It is long"), Stop()),
    "broken off": (Say("It is"), StreamError()),
}
THOROUGH = ("anthropic", "openai", "gemini", "chat", "deepseek", "mistral", "minimax", "openrouter", "groq", "xai")
"""Providers with every turn: one for each way to write a dialect. The others have the turns that try the most."""
CASES = [
    (style, turn, stream)
    for style in all_providers()
    for turn in (MORE if style.name in THOROUGH else ("text between", "broken off"))
    for stream in ((True,) if turn == "broken off" else (True, False))
]
SPOKEN = {"text", "thought and text", "text between", "deep arguments", "parallel calls"}


def expected(dialect: str, body: bytes, *, stream: bool) -> dict:
    """What the bytes say, as the corpus writes it down: read by the readers that judge the codecs."""
    read = READERS[dialect].read(body, streamed=stream)
    blocks = [neutral_blocks(dialect, answer.blocks) for answer in read.answers] or [[]]
    blocks = [coalesce(found) for found in blocks] if dialect == "gemini" else blocks
    stop = None if read.error and dialect == "openai-responses" else read.first.stop
    return plain({"blocks": blocks[0], "stop": stop, "usage": read.usage})


@pytest.mark.parametrize(
    ("style", "turn", "stream"),
    CASES,
    ids=[f"{style.dialect}/{style.name}, {turn}, {'streamed' if stream else 'whole'}" for style, turn, stream in CASES],
)
def test_a_reply_passes_the_checks_of_recorded_traffic(style, turn, stream, tmp_path):
    body = play(style.dialect, style.name, MORE[turn], stream=stream)
    folder = tmp_path / style.dialect / style.name / "case"
    folder.mkdir(parents=True)
    suffix = "sse" if stream else "json"
    (folder / f"response.{suffix}").write_bytes(body)
    (folder / "expected.json").write_text(json.dumps(expected(style.dialect, body, stream=stream)))
    about = {
        "provider": style.name, "dialect": style.dialect, "model": style.name, "stream": stream, "transport": suffix,
        "status": 200, "response_file": f"response.{suffix}", "source": "simulated",
    }  # fmt: skip
    (folder / "exchange.json").write_text(json.dumps(about))

    report = Report(judge([folder]))

    assert report.faults == []
    if turn in SPOKEN:
        spoken = "".join(join_text(step.text) for step in MORE[turn] if isinstance(step, Say))
        assert spoken in _said(style.dialect, body, stream=stream)


def _said(dialect: str, body: bytes, *, stream: bool) -> str:
    read = READERS[dialect].read(body, streamed=stream)
    return "".join(str(block.get("text") or "") for block in neutral_blocks(dialect, read.first.blocks))
