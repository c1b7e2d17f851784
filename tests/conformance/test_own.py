"""Our own cases, in the layout of a corpus, pass every check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.corpus import DIALECTS, Exchange, exchanges
from conformance.judge import CHECKS, judge
from conformance.neutral_wire import neutral_blocks
from conformance.oracle import coalesce, faults
from conformance.report import Report
from conformance.run import conversations

OWN = Path(__file__).parent / "own"
CASES = list(exchanges(OWN))


@pytest.mark.parametrize("folders", conversations(OWN), ids=lambda folders: "/".join(folders[0].parts[-3:]))
def test_own_cases_pass_every_check(folders: list[Path]) -> None:
    """Runs without a corpus."""
    assert Report(judge(folders)).faults == []


@pytest.mark.parametrize("exchange", CASES, ids=lambda exchange: exchange.name)
def test_readers_agree_with_handwritten_results(exchange: Exchange) -> None:
    """A wrong reader would judge the codecs by its own mistakes."""
    answers = exchange.read.answers
    found = [neutral_blocks(exchange.dialect, answer.blocks, answer.order) for answer in answers] or [[]]
    if exchange.dialect == "gemini":
        found = [coalesce(blocks) for blocks in found]
    choices = exchange.expected.get("choices") or [exchange.expected["blocks"]]

    if exchange.read.error is None:
        assert [[], *([] for _ in choices[1:])] == [
            faults(want, have) for want, have in zip(choices, found, strict=True)
        ]


def test_own_cases_reach_every_dialect_transport_and_check() -> None:
    cases = [case for folders in conversations(OWN) for case in judge(folders)]

    assert set(DIALECTS) == {case.dialect for case in cases}
    assert {"sse", "json", "json-array"} == {exchange.transport for exchange in CASES}
    for dialect in DIALECTS:
        reached = {"audited"}  # only accepted requests are audited
        assert set(CHECKS) == reached | {check for case in cases if case.dialect == dialect for check in case.judged}


def test_own_cases_are_not_copied() -> None:
    """Recorded traffic is test data of others and is not copied."""
    sources = {json.loads(path.read_bytes())["source"] for path in OWN.glob("*/*/*/exchange.json")}

    assert sources == {"written for this project"}
