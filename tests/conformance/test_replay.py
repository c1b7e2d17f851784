"""Replays: which replies a recorded request sends back, and what our request must contain."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conformance.checks import Judged
from conformance.faults import MUTANTS
from conformance.judge import judge
from conformance.mutants import on_bytes
from conformance.replay import NOTHING_HELD
from conformance.run import conversations

OWN = Path(__file__).parent / "own"
COPIED = "openai-chat/openrouter/copied-02"
TWICE = "anthropic-messages/anthropic/twice-03"
REFERENCE = "openai-responses/openai/reference-02"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A copy of our own cases that a test may change."""
    return Path(shutil.copytree(OWN, tmp_path / "corpus"))


def change(corpus: Path, case: str, file: str, **changed: Any) -> None:
    path = corpus / case / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def replay(corpus: Path, case: str) -> Judged:
    groups = [folders for folders in conversations(corpus) if corpus / case in folders]
    return next(one for one in judge(groups[0]) if one.name == case).judged["replayed"]


def mutate(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    mutant.patch(monkeypatch, mutant.dialect)


@pytest.mark.parametrize("fields", [("reasoning", "reasoning_details"), ("reasoning",), ("reasoning_details",)])
def test_replay_needs_details_whichever_copy_was_sent(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, fields: tuple[str, ...]
) -> None:
    """`reasoning` next to `reasoning_details` is a copy; we send the details, which also have the signature."""
    messages = json.loads((corpus / COPIED / "request.json").read_text())["messages"]
    fields_sent = ("role", "tool_calls", *fields)
    messages[1] = {name: value for name, value in messages[1].items() if name in fields_sent}
    change(corpus, COPIED, "request.json", messages=messages)

    assert replay(corpus, COPIED) == Judged()
    mutate(monkeypatch, "reasoning_details left out on the way out")
    assert "not sent back: Leaf(path=('reasoning.text', 'signature')" in "".join(replay(corpus, COPIED).faults)


def test_replay_accepts_text_that_the_client_sent_twice(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client wrote one of the two turns itself; a codec that repeats a text still fails."""
    assert replay(corpus, TWICE) == Judged()
    mutate(monkeypatch, "a text sent twice")
    assert "sent back too often" in replay(corpus, TWICE).faults[0]


def test_replay_finds_the_parent_by_its_bytes(corpus: Path) -> None:
    """The case names step 1 as its parent, but only the reply of step 2 is in the request."""
    assert json.loads((corpus / TWICE / "exchange.json").read_text())["parent_step"] == 1
    assert replay(corpus, TWICE).excluded == ""

    change(corpus, TWICE, "exchange.json", parent_step=9)
    assert replay(corpus, TWICE).excluded == ""


def test_replay_is_empty_when_no_reply_is_in_the_request(corpus: Path) -> None:
    """A parent that the corpus names is not enough."""
    change(corpus, TWICE, "request.json", messages=[{"role": "user", "content": "Hello."}])

    assert replay(corpus, TWICE).excluded == NOTHING_HELD


@pytest.mark.parametrize(
    ("pattern", "put", "fault"),
    [
        (rb"Let me see\.", b"Let us see.", "'output_text', 'text')"),
        (rb'"arguments":"\{\\"n\\": 1\.0\}"', b'"arguments":"{}"', "CallLeaf(id='call_own_q1'"),
        (rb'"call_id":"call_own_q2"', b'"call_id":"fc_own_q2"', "CallLeaf(id='call_own_q2'"),
    ],
)
def test_replay_resolves_references_and_item_ids(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, pattern: bytes, put: bytes, fault: str
) -> None:
    """An `item_reference` stands for its item, and a call may be named by its item id."""
    assert replay(corpus, REFERENCE) == Judged()
    on_bytes(pattern, put)(monkeypatch, "openai-responses")
    assert fault in replay(corpus, REFERENCE).faults[0]


def test_replay_takes_absent_arguments_as_empty_object(corpus: Path) -> None:
    """A request cannot send null for the arguments of a call."""
    before = COPIED.replace("02", "01")
    body = (corpus / before / "response.json").read_text()
    (corpus / before / "response.json").write_text(body.replace(json.dumps('{"a": 2.0}'), "null"))
    messages = json.loads((corpus / COPIED / "request.json").read_text())["messages"]
    messages[1]["tool_calls"][0]["function"]["arguments"] = "{}"
    change(corpus, COPIED, "request.json", messages=messages)

    assert replay(corpus, COPIED) == Judged()
