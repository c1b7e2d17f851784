"""Past requests of a journal are compared with the bytes that were sent; a growing conversation is written once."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from tenuto.audit import journal as audit_journal
from tenuto.audit.journal import compare_requests
from tenuto.catalog import resolve
from tenuto.core.blocks import AnthropicMeta, Reasoning, Text, ToolUse
from tenuto.core.journal import (
    CallFinished,
    Compacted,
    Configured,
    Entry,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestStarted,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, ToolResult, UserMessage
from tenuto.core.next_request import NextRequest
from tenuto.core.stored import make_draft
from tenuto.wire.prefix_binding import prefix_of
from tenuto.wire.write import ENCODER_VERSION, write_request

HERE, THERE = "sim/anthropic/claude-opus-5-5", "sim/openai/gpt-5.2"
"""The first binds its thinking to the messages before it."""
LEFT = Loss("refused-item", Location(2, 0), "x")


class Journal:
    """A journal whose requests have the digests of real bodies."""

    def __init__(self, model: str = HERE) -> None:
        self.entries: list[Entry] = []
        self._asking = NextRequest()
        self.add(Configured(model, system="Be brief."))

    def add(self, *acts) -> None:
        for act in acts:
            at = len(self.entries) + 1
            draft = make_draft(act, id=f"e{at}", time_ms=at)
            self.entries.append(Entry(at, draft.id, at, 1, draft.kind, draft.body, draft.digest, draft.payload))
            self._asking.apply(self.entries[-1])

    def asks(self, *, upto: int | None = None, answered: bool = True) -> None:
        """Add a request and its reply; with `upto`, the request has only the first messages."""
        request = self._asking.request()
        target = resolve(request.model)
        body = write_request(msgspec.structs.replace(request, messages=request.transcript[:upto]), target).body
        count = len(self.entries)
        self.add(RequestStarted(f"sim/{target.model}", sha256(body).hexdigest(), ENCODER_VERSION))
        if not answered:
            return
        origin = Origin("sim", target.dialect, target.model, prefix=prefix_of(body, target))
        thought = Reasoning("Hm.", meta=AnthropicMeta(f"sig{count}")) if "claude" in target.model else Reasoning("Hm.")
        self.add(
            ReplyReceived(AssistantMessage((thought, ToolUse(f"t{count}", "add", "{}"), Text("So.")), origin=origin))
        )
        self.add(CallFinished(ToolResult(f"t{count}", "3"), 0))

    def says(self) -> None:
        self.add(MessageAdded(UserMessage("And?")))


def written(monkeypatch) -> list[str]:
    """Return the models for which requests are written from now on."""
    found = []

    def writing(request, target, *, trace):
        found.append(request.model)
        return write_request(request, target, trace=trace)

    monkeypatch.setattr(audit_journal, "write_request", writing)
    return found


@pytest.mark.parametrize("model", [HERE, THERE, "sim/mistral", "sim/deepseek"])
def test_growing_conversation_is_written_once(monkeypatch, model):
    journal = Journal(model)
    for _ in range(5):
        journal.says()
        journal.asks()
        journal.asks()
    made = written(monkeypatch)

    assert compare_requests(journal.entries, resolve) == [None] * 10
    assert len(made) == 1


def test_each_stretch_with_one_model_is_written_once(monkeypatch):
    """Handover and back, with a loss and a compaction on the way."""
    journal = Journal()
    for act in (
        HandedOver(THERE),
        HandedOver(HERE),
        LossRecorded(LEFT, 4, 0),
        Compacted(6, (UserMessage("They added."),)),
    ):
        journal.says()
        journal.asks()
        journal.asks()
        journal.add(act)
    journal.says()
    journal.asks()
    made = written(monkeypatch)

    assert compare_requests(journal.entries, resolve) == [None] * 9
    assert len(made) == 4


def test_request_with_fewer_messages_is_reported():
    """It is a prefix of a later request, but not of its own number of messages."""
    journal = Journal()
    for upto in (None, None, 2, None, None):
        journal.says()
        journal.asks(upto=upto)
    places = [finding.entry if finding else None for finding in compare_requests(journal.entries, resolve)]

    assert places == [None, None, 11, None, None]


def test_request_that_is_not_a_prefix_is_written_again(monkeypatch):
    """A user message after tool results joins their message: the earlier request ended in its middle."""
    journal = Journal()
    journal.says()
    journal.asks()
    journal.asks(answered=False)
    journal.says()
    journal.asks()
    made = written(monkeypatch)

    assert compare_requests(journal.entries, resolve) == [None] * 3
    assert len(made) == 2
