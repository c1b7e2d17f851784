"""The audit as a whole: what can be audited, what a report says, and that a journal is compared with itself."""

from __future__ import annotations

import json
from hashlib import sha256

import msgspec
import pytest

from tenuto import Transcript, resolve, user
from tenuto.audit import Report, audit, audit_body
from tenuto.core.blocks import AnthropicMeta, Reasoning, Text, ToolUse
from tenuto.core.journal import (
    Configured,
    Entry,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestStarted,
    UnknownPayload,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, ToolResult, ToolResults, UserMessage
from tenuto.core.request import ChatRequest, ToolDefinition
from tenuto.core.stored import make_draft
from tenuto.errors import StoreError, TranscriptError, UnknownProvider
from tenuto.wire.prefix_binding import prefix_of
from tenuto.wire.write import ENCODER_VERSION, write_request

CLAUDE, BOUND, GPT = "anthropic/claude-opus-4-6", "anthropic/claude-opus-5-5", "openai/gpt-5.2"
REPLY = AssistantMessage(
    (Reasoning("Hm.", meta=AnthropicMeta("c2lnbmVk")), Text("Let me add."), ToolUse("toolu_1", "add", '{"a": 1}')),
    origin=Origin("anthropic", "anthropic-messages", "claude-opus-4-6"),
)
TALK = (UserMessage("One?"), REPLY, ToolResults((ToolResult("toolu_1", "1"),)))


def journal(*acts) -> list[Entry]:
    found = []
    for seq, act in enumerate(acts, 1):
        draft = make_draft(act, id=f"e{seq}", time_ms=seq)
        found.append(Entry(seq, draft.id, draft.time_ms, 1, draft.kind, draft.body, draft.digest, draft.payload))
    return found


def outcomes(report: Report) -> dict[str, str]:
    return {str(block.location): block.outcome for block in report.blocks}


@pytest.mark.parametrize(
    "said",
    [
        Transcript(TALK),
        list(TALK),
        ChatRequest(model=CLAUDE, messages=TALK),
        journal(Configured(CLAUDE), MessageAdded(TALK[0]), ReplyReceived(REPLY)),
    ],
    ids=["transcript", "messages", "request", "journal"],
)
def test_what_can_be_audited(said):
    report = audit(said, CLAUDE)

    assert report.clean
    assert (report.target, report.dialect) == (CLAUDE, "anthropic-messages")
    assert outcomes(report)["messages[1].blocks[0]"] == "kept"


def test_where_everything_stands():
    """Each block has the pointer under which it is found in the request."""
    report = audit(Transcript(TALK), CLAUDE)
    body = json.loads(write_request(ChatRequest(model=CLAUDE, messages=TALK), resolve(CLAUDE)).body)

    for block in report.blocks:
        found = body
        for step in block.pointer.split("/")[1:]:
            found = found[int(step)] if isinstance(found, list) else found[step]
    assert [block.pointer for block in report.blocks][1:4] == [f"/messages/1/content/{at}" for at in range(3)]
    assert {block.outcome for block in report.blocks} == {"kept"}


def test_for_somebody_else():
    """Nothing is refused, and what does not go along is told with its reason."""
    report = audit(Transcript(TALK), GPT)

    assert report.clean
    assert outcomes(report)["messages[1].blocks[0]"] == "dropped"
    assert outcomes(report)["messages[1].blocks[1]"] == "kept"
    dropped = next(block for block in report.blocks if block.outcome == "dropped")
    assert (dropped.loss, dropped.rule) == ("foreign-reasoning", "XP-02")
    assert dropped.reason
    assert dropped.remedy
    assert "dropped  messages[1].blocks[0]  reasoning: " in str(report)


def test_what_would_be_refused():
    """With its rule, its place in the request and in the transcript, the provider's words, the source and the remedy."""
    bad = ToolDefinition("no spaces, please", "x", {"type": "object"})
    report = audit(ChatRequest(model=CLAUDE, messages=TALK, tools=(bad,)))

    assert not report.clean
    [finding] = report.refused
    assert (finding.rule, finding.pointer) == ("ANT-TOOL-07", "/tools/0/name")
    assert finding.says
    assert finding.remedy
    assert finding.source
    told = str(report)
    assert told.startswith(f"{CLAUDE} (anthropic-messages): refused; ")
    assert "refused  ANT-TOOL-07  /tools/0/name" in told
    assert f"    remedy: {finding.remedy}" in told
    document = report.as_dict()
    assert document["clean"] is False
    assert document["findings"][0]["rule"] == "ANT-TOOL-07"
    assert json.loads(json.dumps(document)) == document


def test_what_was_said_makes_no_lines_of_the_report():
    """And halves of characters are told like everything else."""
    cut = AssistantMessage((Text("cut \ud800\nrefused  ANT-TOOL-01  /messages/1"),), incomplete=True)
    report = audit([UserMessage("One?"), cut, UserMessage("And?")], CLAUDE)

    assert [line.split()[0] for line in str(report).splitlines()] == [CLAUDE, "dropped"]
    assert "\ud800" in report.as_dict()["blocks"][1]["reason"]


def test_a_block_that_would_be_refused_says_so():
    """A picture that the model's provider does not take is found at its block."""
    from tenuto import Image

    report = audit([user("Look:", Image("aGk=", "image/bmp"))], CLAUDE)
    refused = [block for block in report.blocks if block.outcome == "refused"]

    assert [block.location for block in refused] == [finding.location for finding in report.refused] != []
    assert refused[0].rule == report.refused[0].rule


def test_thoughts_behind_a_change_are_told():
    """Where the model binds its thoughts, another system prompt costs them, and the audit says so beforehand."""
    target = resolve(BOUND)
    first = ChatRequest(model=BOUND, messages=TALK[:1])
    origin = Origin(
        "anthropic",
        "anthropic-messages",
        "claude-opus-5-5",
        prefix=prefix_of(write_request(first, target).body, target),
    )
    talk = (TALK[0], msgspec.structs.replace(REPLY, origin=origin), TALK[2])
    same, other = audit(talk, BOUND), audit((UserMessage("Two?"), *talk[1:]), BOUND)

    assert outcomes(same)["messages[1].blocks[0]"] == "kept"
    assert outcomes(other)["messages[1].blocks[0]"] == "dropped"
    gone = next(block for block in other.blocks if block.outcome == "dropped")
    assert (gone.loss, gone.rule) == ("stale-prefix", "ANT-THINK-08")
    assert other.clean


# --- a journal ---


def asked(model: str, *messages, digest: str | None = None, **more) -> RequestStarted:
    body = write_request(ChatRequest(model=model, messages=messages, stream=True), resolve(model)).body
    return RequestStarted(
        model, digest=sha256(body).hexdigest() if digest is None else digest, encoder_version=ENCODER_VERSION, **more
    )


def test_questions_are_made_again():
    entries = journal(
        Configured(CLAUDE), MessageAdded(TALK[0]), asked(CLAUDE, TALK[0]), ReplyReceived(REPLY),
        HandedOver(GPT, CLAUDE), asked(GPT, TALK[0], REPLY),
    )  # fmt: skip
    report = audit(entries)

    assert (report.target, report.compared, report.clean) == (GPT, 2, True)


@pytest.mark.parametrize("model", [CLAUDE, "nobody/x"])
def test_one_that_comes_out_differently_is_found(model):
    """Also if nobody knows the provider any more."""
    request = RequestStarted(model, digest="0" * 64, encoder_version=ENCODER_VERSION)
    report = audit(journal(Configured(CLAUDE), MessageAdded(TALK[0]), request))

    assert (report.compared, report.clean) == (1, False)
    [finding] = report.findings
    assert (finding.rule, finding.severity, finding.entry) == ("request-changed", "changed", 3)
    assert report.refused == ()


def test_what_cannot_be_compared_is_not():
    """Another version of the encoder, and what never went out as bytes."""
    entries = journal(
        Configured(CLAUDE), MessageAdded(TALK[0]),
        RequestStarted(CLAUDE, digest="0" * 64, encoder_version=ENCODER_VERSION + 1), RequestStarted(CLAUDE), asked(CLAUDE, TALK[0]),
    )  # fmt: skip

    assert audit(entries).compared == 1


def test_a_name_that_nails_down_a_dialect_is_whom_it_names():
    """The journal has the row that was asked; the session's own name for it says in which dialect."""
    named, said = "sim/openai-chat", MessageAdded(TALK[0])
    request = ChatRequest(model=named, messages=(TALK[0],), stream=True)
    asked = RequestStarted(
        "sim/openai", sha256(write_request(request, resolve(named)).body).hexdigest(), ENCODER_VERSION
    )
    report = audit(journal(Configured(named), said, asked))

    assert (report.clean, report.compared) == (True, 1)
    other = audit(journal(Configured("openai-chat/gpt-5.2"), said, asked), named)  # by another name: it was not they
    assert (other.clean, other.compared) == (False, 1)


def test_what_was_left_out_stays_out():
    """A block that the provider refused is in no question after that."""
    entries = journal(
        Configured(CLAUDE), MessageAdded(TALK[0]), ReplyReceived(REPLY), LossRecorded(Loss("refused-item", Location(1, 0), "x"), 3, 0)
    )  # fmt: skip
    report = audit(entries)

    assert outcomes(report)["messages[1].blocks[0]"] == "dropped"


@pytest.mark.parametrize(
    "said, target, error",
    [
        (list(TALK), None, ValueError),
        (list(TALK), "nobody/x", UnknownProvider),
        (journal(MessageAdded(TALK[0])), CLAUDE, StoreError),
        (
            journal(Configured(CLAUDE), MessageAdded(TALK[0]), UnknownPayload("later", '{"entry":"later"}')),
            CLAUDE,
            StoreError,
        ),
    ],
)
def test_what_cannot_be_audited(said, target, error):
    with pytest.raises(error):
        audit(said, target)


def test_a_body_is_an_object():
    with pytest.raises(TranscriptError):
        audit_body(b"[]", resolve(CLAUDE))
