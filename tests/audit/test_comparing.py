"""A journal compared with itself: what grew at its end is not written again question by question, and nothing is missed."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from tenuto.audit import comparing
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
"""The first binds its thoughts to what stood before them."""
LEFT = Loss("refused-item", Location(2, 0), "x")


class Journal:
    """A journal in the making: what it asks is asked as it would be."""

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
        """Ask, and be answered; with `upto`, somebody in between sends only the first messages."""
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
    """Whom questions are written for, from now on."""
    found = []

    def writing(request, target):
        found.append(request.model)
        return write_request(request, target)

    monkeypatch.setattr(comparing, "write_request", writing)
    return found


@pytest.mark.parametrize("model", [HERE, THERE, "sim/mistral", "sim/deepseek"])
def test_a_conversation_that_grows_is_written_once(monkeypatch, model):
    journal = Journal(model)
    for _ in range(5):
        journal.says()
        journal.asks()
        journal.asks()
    made = written(monkeypatch)

    assert comparing.compared(journal.entries, resolve) == [None] * 10
    assert len(made) == 1


def test_through_many_hands(monkeypatch):
    """There and back, with something left out and something summed up on the way: each stretch is written once."""
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

    assert comparing.compared(journal.entries, resolve) == [None] * 9
    assert len(made) == 4


def test_what_was_sent_with_fewer_messages_is_found():
    """It is how a later question begins, and not what was to be asked then."""
    journal = Journal()
    for upto in (None, None, 2, None, None):
        journal.says()
        journal.asks(upto=upto)
    places = [finding.place if finding else "" for finding in comparing.compared(journal.entries, resolve)]

    assert places == ["", "", "entry 11", "", ""]


def test_what_a_later_question_shows_otherwise_is_written_by_itself(monkeypatch):
    """What is said behind results comes to stand in one message with them: a question before that ended in its midst."""
    journal = Journal()
    journal.says()
    journal.asks()
    journal.asks(answered=False)
    journal.says()
    journal.asks()
    made = written(monkeypatch)

    assert comparing.compared(journal.entries, resolve) == [None] * 3
    assert len(made) == 2
