"""The losses of a session, and their summary."""

from __future__ import annotations

import pytest

from tenuto.core.blocks import Text
from tenuto.core.journal import Entry, HandedOver, LossRecorded, MessageAdded, ReplyReceived, payload_kind
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, user
from tenuto.wire.loss_report import recorded_losses, summarize_losses
from tenuto.wire.translate import LOSS_EFFECTS

SPEED = Loss("unsupported-parameter", Location(), "speed is not supported")


def loss(kind, message=0, block=0, remedy=""):
    return Loss(kind, Location(message, block), "x", remedy)


def test_losses_of_replies_handovers_and_refusals_are_recorded():
    first, second, third = loss("left-out"), loss("item-id"), loss("foreign-token")
    payloads = [
        MessageAdded(user("Hi.")),
        ReplyReceived(AssistantMessage((Text("Hi."),)), losses=(first, second)),
        HandedOver("sim/openai"),
        LossRecorded(third),
        HandedOver("sim/gemini", losses=(second,)),
    ]
    entries = [Entry(n, str(n), 0, 1, payload_kind(one), b"", "", one) for n, one in enumerate(payloads, 1)]

    assert list(recorded_losses(entries)) == [first, second, third, second]


@pytest.mark.parametrize(
    "losses, summary",
    [
        ([], ""),
        ([loss("foreign-reasoning")], "not sent: 1 reasoning block"),
        ([loss("foreign-reasoning"), loss("left-out", 1)], "not sent: 2 blocks"),
        ([loss("item-id"), loss("item-id")], "not sent: the signature or ID of 1 block"),
        ([loss("left-out"), loss("item-id"), loss("call-id-mapped")], "not sent: 1 block"),
        ([loss("custom-tool"), loss("stand-in", 0, 1)], "in another form: 2 blocks"),
        ([SPEED], f"{SPEED.location}: speed is not supported"),
        (
            [loss("left-out", 0, 0, "it is sent when the session returns to its issuer")],
            "not sent: 1 block; restored if you switch back",
        ),
    ],
)
def test_summary_counts_each_block_once(losses, summary):
    assert summarize_losses(losses) == summary


@pytest.mark.parametrize("kind", [*LOSS_EFFECTS, "unknown-kind"])
def test_every_kind_of_loss_has_a_summary(kind):
    assert summarize_losses([loss(kind)])
