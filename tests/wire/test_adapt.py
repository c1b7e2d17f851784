"""Tests of adapting a transcript to a target."""

from __future__ import annotations

import itertools
import json

import pytest
from msgspec.structs import replace

from tenuto.catalog import resolve
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    Block,
    ChatMeta,
    CodeExecution,
    CodeResult,
    Document,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import ChatSwitches, ModelTraits, Provider, Target
from tenuto.core.request import ChatRequest, JsonSchema
from tenuto.wire.adapt import adapt
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import decode_body
from tenuto.wire.result_pairs import UNANSWERED
from tenuto.wire.token_scope import issued_by
from tenuto.wire.translate import LOSS_EFFECTS
from tenuto.wire.write import is_fit, write_request

HI = UserMessage("Hi")
HERE = Target(Provider("here", "anthropic-messages", ""), "claude-opus-4-6", "anthropic-messages")
HOME = Origin("here", "anthropic-messages", "claude-opus-4-6-20260101")
AWAY = Origin("there", "gemini", "gemini-3-pro")
DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


def to(dialect: str, model: str = "m", **switches) -> Target:
    return Target(Provider("x", dialect, "", **switches), model, dialect, ModelTraits(known=True, pattern="m"))


def rules(adapted) -> list[str]:
    return [loss.kind for loss in adapted.losses]


def turn(*blocks, **fields) -> AssistantMessage:
    return AssistantMessage(blocks, **fields)


def results(*ids: str) -> ToolResults:
    return ToolResults(tuple(ToolResult(id, id) for id in ids))


def test_own_transcript_is_returned_as_same_object():
    thought = Reasoning("h", meta=AnthropicMeta("s"))
    own = turn(thought, ToolUse("t1", "f", "{}"), origin=HOME, extra='{"a":1}')
    messages = (SystemMessage("s"), HI, own, results("t1"))
    adapted = adapt(messages, HERE)

    assert adapted.messages is messages
    assert adapted.losses == ()


@pytest.mark.parametrize("alternate", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_fit_transcript_is_not_changed_by_adapt(dialect, alternate):
    """`write_request` sends a fit transcript without `adapt`: for all sequences of these messages, that is the same."""
    target = to(dialect, chat=ChatSwitches(alternate=alternate))
    own, away = Origin("x", dialect, "m"), Origin("y", dialect, "m")
    first, second = ToolUse("t1", "f", "{}"), ToolUse("t2", "f", "{}")
    token = Text("a", meta=GeminiMeta("s"))
    messages = (
        SystemMessage("s"),
        HI,
        UserMessage((token,)),
        turn(Text("a"), origin=own),
        turn(Text("a"), origin=away),
        turn(Text("a"), origin=own, incomplete=True),
        turn(first, origin=own),
        turn(first, second, origin=replace(own, prefix="p")),
        turn(second, second, origin=own),
        turn(replace(first, extra='{"async":true}'), origin=own),
        turn(replace(first, id=""), origin=own),
        results("t1"),
        results("t2"),
        results(""),
        results("t1", "t2"),
        ToolResults((ToolResult("t1", (token,)),)),
    )
    fit_count = 0
    for length in range(5):
        for later in itertools.product(messages, repeat=length):
            transcript = (HI, *later) if length == 4 else later
            if is_fit(transcript, target):
                fit_count += 1
                adapted = adapt(transcript, target)
                assert adapted.messages is transcript
                assert adapted.losses == ()
    assert fit_count > (0 if alternate else 50)


def test_long_own_transcript_is_fit():
    calls = [ToolUse(f"t{number}", "f", "{}") for number in range(3)]
    replies = [(turn(call, origin=HOME), results(call.id)) for call in calls]

    assert is_fit((SystemMessage("s"), HI, *itertools.chain(*replies)), HERE)


def test_original_transcript_keeps_its_signatures():
    """The first provider later gets its signatures again."""
    transcript = (HI, turn(Reasoning("hm", meta=GeminiMeta("sig")), origin=AWAY), HI)
    adapt(transcript, HERE)
    back = Target(Provider("there", "gemini", ""), "gemini-3-pro", "gemini")

    assert adapt(transcript, back).messages is transcript


# --- translation of blocks -------------------------------------------------------------------------------------------

SEARCH = ServerToolUse("s", "web_search", '{"query":"Oslo"}', "server_tool_use")
FOUND = ServerToolResult("s", '[{"type":"web_search_result","url":"https://a","title":"A","encrypted_content":"SEALED"}]', "web_search_tool_result")  # fmt: skip
RUN = ServerToolUse("c", "code_execution", '{"code":"print(1)"}', "server_tool_use")
RAN = ServerToolResult("c", '{"type":"code_execution_result","stdout":"1","stderr":"","return_code":0}', "code_execution_tool_result")  # fmt: skip
INTERPRETED = ServerToolUse("ci", "code_interpreter", "print(1)", "code_interpreter_call", meta=OpenAiMeta("ci"), extra='{"outputs":[{"type":"logs","logs":"1"}]}')  # fmt: skip
CITED = Text("Rain.", (UrlCitation("https://a", "A", raw='{"type":"web_search_result_location"}'),))
NOTE = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 5}


@pytest.mark.parametrize("block, dialect, made, losses", [
    (Text("a", meta=GeminiMeta("s")), "anthropic-messages", [Text("a")], ["foreign-token"]),
    (Text("a", extra='{"x":1,"y":null}'), "gemini", [Text("a")], ["foreign-fields"]),
    (Refusal("no", meta=OpenAiMeta("msg_1")), "gemini", [Refusal("no")], ["foreign-token"]),
    (CITED, "gemini", [Text("Rain."), Text("\n[Sources: A https://a]")], ["foreign-citations"]),
    (CITED, "openai-chat", [Text("Rain."), Text("\n[Sources: A https://a]")], ["foreign-citations"]),
    (Reasoning("hm", meta=GeminiMeta("s")), "anthropic-messages", [], ["foreign-token", "foreign-reasoning"]),
    (Reasoning("hm"), "openai-chat", [], ["foreign-reasoning"]),
    (Marker("compaction", "all of it"), "gemini", [], ["foreign-block"]),
    (Opaque("openai-chat", "{}"), "gemini", [], ["foreign-block"]),
    (Image(data="x", mime="image/png", meta=OpenAiMeta("ig_1")), "gemini", [Image(data="x", mime="image/png")], ["foreign-token"]),
    (Image(data="x", mime="image/png"), "anthropic-messages", [Text("[A picture: image/png]")], ["stand-in"]),
    (Image(file_id="f"), "gemini", [Text("[A picture: of an unknown kind]")], ["stand-in"]),
    (Audio(id="a", transcript="Hello"), "anthropic-messages", [Text("Hello")], ["stand-in"]),
    (Document(title="Report"), "openai-responses", [Text("[A document: Report]")], ["stand-in"]),
    (CodeExecution("1", "PYTHON", "i"), "gemini", [CodeExecution("1", "PYTHON")], ["foreign-fields"]),
    (CodeExecution("1"), "gemini", [CodeExecution("1", "PYTHON")], []),
    (CodeExecution("1"), "anthropic-messages", [Text("[Ran: 1]")], ["stand-in"]),
    (CodeResult("odd", "2"), "gemini", [CodeResult("OUTCOME_OK", "2")], ["code-translated"]),
    (CodeResult("OUTCOME_OK", "2"), "openai-chat", [Text("[Gave: 2]")], ["stand-in"]),
    (SEARCH, "openai-chat", [Text('[web_search: {"query":"Oslo"}]')], ["stand-in"]),
    (FOUND, "gemini", [Text("[Gave: https://a; A]")], ["stand-in"]),
    (RUN, "gemini", [CodeExecution("print(1)", "PYTHON")], ["code-translated"]),
    (RAN, "gemini", [CodeResult("OUTCOME_OK", "1")], ["code-translated"]),
    (replace(RAN, content=RAN.content.replace('"return_code":0', '"return_code":2')), "gemini", [CodeResult("OUTCOME_FAILED", "")], ["code-translated"]),
    (INTERPRETED, "gemini", [CodeExecution("print(1)", "PYTHON"), CodeResult("OUTCOME_OK", "1")], ["foreign-token", "code-translated"]),
    (INTERPRETED, "anthropic-messages", [Text("[code_interpreter: print(1)] [Gave: 1]")], ["foreign-token", "stand-in"]),
    (ServerToolUse("b", "bash_code_execution", '{"command":"ls"}', "server_tool_use"), "gemini", [Text('[bash_code_execution: {"command":"ls"}]')], ["stand-in"]),
])  # fmt: skip
def test_foreign_block_is_translated(block, dialect, made, losses):
    """It is sent, stripped, translated or dropped; the loss has its location in the original transcript."""
    adapted = adapt((HI, turn(block, origin=Origin("there", "elsewhere", "m")), HI), to(dialect))

    assert list(adapted.messages[1].blocks) == made
    assert rules(adapted) == losses
    assert {str(loss.location) for loss in adapted.losses} <= {"messages[1].blocks[0]"}
    assert "SEALED" not in repr(adapted.losses)


def test_citations_become_annotations_in_responses():
    adapted = adapt((HI, turn(CITED, origin=AWAY), HI), to("openai-responses"))
    (text,) = adapted.messages[1].blocks

    assert [json.loads(citation.raw) for citation in text.citations] == [NOTE]
    assert rules(adapted) == ["citations-translated"]


def test_placeholder_of_result_is_short():
    long = ServerToolResult("s", json.dumps({"text": "word " * 9999}), "mcp_tool_result")
    (text,) = adapt((HI, turn(long, origin=HOME), HI), to("openai-chat")).messages[1].blocks

    assert len(text.text) < 230


def test_placeholders_are_on_separate_lines():
    """Some dialects join adjacent texts."""
    made = adapt((HI, turn(Text("a"), CodeExecution("1"), CodeResult("OK", "2"), Text("b"), origin=AWAY), HI), HERE)

    assert str(made.messages[1]) == "a\n[Ran: 1]\n[Gave: 2]\nb"


@pytest.mark.parametrize("dialect, own", [
    ("anthropic-messages", AnthropicMeta("s")), ("openai-responses", OpenAiMeta("rs_1")),
    ("openai-chat", ChatMeta("reasoning")), ("gemini", GeminiMeta("s")),
])  # fmt: skip
def test_message_without_origin_keeps_tokens_of_dialect(dialect, own):
    """Without an origin, the type of the token decides."""
    metas = (AnthropicMeta("s"), OpenAiMeta("rs_1"), ChatMeta("reasoning"), GeminiMeta("s"))
    adapted = adapt((HI, turn(*(Reasoning("x", meta=meta) for meta in metas)), HI), to(dialect))

    assert adapted.messages[1].blocks == (Reasoning("x", meta=own),)
    assert rules(adapted) == ["foreign-token", "foreign-reasoning"] * 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_block_without_origin_stays_if_dialect_has_it(dialect):
    plain = (Text("a"), Refusal("no"), ToolUse("a", "f", "{}"))
    odd = {
        "anthropic-messages": SEARCH, "gemini": CodeExecution("1"), "openai-chat": Audio(id="a"),
        "openai-responses": Image(data="x", meta=OpenAiMeta("ig_1")),
    }  # fmt: skip
    transcript = (HI, turn(*plain, odd[dialect]), results("a"), HI)

    assert adapt(transcript, to(dialect)).messages is transcript
    for other in odd.values():
        if other is not odd[dialect]:
            assert "stand-in" in rules(adapt((HI, turn(other), HI), to(dialect))) or dialect == "gemini"


def test_foreign_and_unreadable_fields_are_losses():
    message = turn(Text("a", extra="no object"), origin=AWAY, extra='{"groundingMetadata":{}}')
    adapted = adapt((HI, message, HI), HERE)

    assert adapted.messages[1] == turn(Text("a"))
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [
        ("foreign-fields", "messages[1].blocks[0]"),
        ("foreign-fields", "messages[1]"),
    ]


def test_custom_and_built_in_calls_become_functions():
    """Free text becomes a field; a built-in call keeps its arguments."""
    custom, shell = ToolUse("a", "sh", "ls", kind="custom"), ToolUse("b", "shell", "{}", kind="shell_call")
    adapted = adapt((HI, turn(custom, shell, origin=AWAY), results("a", "b")), HERE)

    assert adapted.messages[1].blocks == (ToolUse("a", "sh", '{"input":"ls"}'), ToolUse("b", "shell", "{}"))
    assert rules(adapted) == ["custom-tool", "foreign-call"]


def test_tokens_of_users_and_tools_are_removed():
    image = Image(data="x", meta=GeminiMeta("s"), extra='{"a":1}')
    answers = ToolResults((ToolResult("a", (image,)),))
    adapted = adapt((UserMessage((image,)), turn(ToolUse("a", "f", "{}")), answers), to("gemini"))

    assert adapted.messages[0] == UserMessage((Image(data="x"),))
    assert adapted.messages[2].results[0].content == (Image(data="x"),)
    assert [str(loss.location) for loss in adapted.losses] == ["messages[2].blocks[0]", "messages[0].blocks[0]"]


# --- notes ------------------------------------------------------------------------------------------------------------


def test_foreign_reasoning_is_noted_in_user_message():
    """The note is in the next user message, after the results of the calls."""
    thinks = turn(Reasoning("hm", meta=GeminiMeta("s")), ToolUse("a", "f", "{}"), origin=AWAY)
    transcript = (HI, thinks, results("a"), turn(Reasoning("so"), Text("b"), origin=AWAY), UserMessage("And?"), HI)
    adapted = adapt(transcript, HERE, notes=True)

    assert [type(message).__name__ for message in adapted.messages] == [
        type(message).__name__ for message in transcript
    ]
    assert adapted.messages[1].blocks == (ToolUse("a", "f", "{}"),)
    note, question = adapted.messages[4].content
    assert note.text.endswith("hm\n\nso")
    assert question == Text("And?")
    assert adapted.messages[5] is HI
    assert rules(adapted) == ["foreign-token", "reasoning-noted", "reasoning-noted"]
    assert adapt(adapted.messages, HERE, notes=True).messages is adapted.messages


def test_note_is_a_loss_without_user_message_or_text():
    adapted = adapt((HI, turn(Reasoning("hm"), ToolUse("a", "f", "{}"), origin=AWAY), results("a")), HERE, notes=True)
    silent = adapt((HI, turn(Reasoning(" "), Text("b"), origin=AWAY), HI), HERE, notes=True)

    assert rules(adapted) == rules(silent) == ["foreign-reasoning"]


# --- scope ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin, target, same", [
    (Origin("a", "gemini", "m"), ("a", "gemini", "m", "", ""), True),
    (Origin("a", "gemini", "m"), ("b", "gemini", "m", "", ""), False),
    (Origin("a", "openai-chat", "m"), ("a", "openai-responses", "m", "", ""), False),
    (Origin("a", "gemini", "m", "1"), ("a", "gemini", "m", "2", ""), False),
    (Origin("a", "gemini", "m", "1"), ("a", "gemini", "m", "", ""), True),
    (Origin("a", "gemini", "m", "", "h1"), ("a", "gemini", "m", "", "h2"), False),
    (Origin("a", "gemini", "m", "", "h1"), ("a", "gemini", "m", "", "h1"), True),
    (Origin("a", "gemini", "m", "", "h1"), ("a", "gemini", "m", "", ""), True),
    (Origin("a", "gemini", "m"), ("a", "gemini", "n", "", ""), False),
    (Origin("a", "gemini", ""), ("a", "gemini", "n", "", ""), True),
    (Origin("a", "gemini", "m-20260101"), ("a", "gemini", "m", "", ""), True),
    (Origin("a", "gemini", "m-2026-01-01"), ("a", "gemini", "m-latest", "", ""), True),
    (Origin("a", "gemini", "models/m"), ("a", "gemini", "m", "", ""), True),
])  # fmt: skip
def test_issuer_scope(origin, target, same):
    """R6: provider, dialect, account, platform and model family."""
    name, dialect, model, account, platform = target
    whom = Target(Provider(name, dialect, ""), model, dialect, account=account, platform=platform)

    assert issued_by(origin, whom) is same


def test_simulator_is_the_provider_it_imitates():
    """One row imitates several providers: the same model of two of them has two issuers."""
    family = ModelTraits(known=True, pattern="v4")
    part = Target(Provider("sim", "openai-chat", "", plays=("deepseek",)), "deepseek/v4", "openai-chat", family)

    assert issued_by(Origin("sim", "openai-chat", "deepseek/v4"), part)
    assert not issued_by(Origin("sim", "openai-chat", "openrouter/deepseek/v4"), part)


def test_model_family_is_matched_by_pattern():
    family = ModelTraits(known=True, pattern=r"claude-(?:opus-4-6|opus-4\.6)")
    there = Target(Provider("r", "openai-chat", ""), "anthropic/claude-opus-4.6", "openai-chat", family)

    assert issued_by(Origin("r", "openai-chat", "anthropic/claude-opus-4-6"), there)
    assert not issued_by(Origin("r", "openai-chat", "anthropic/claude-opus-4-5"), there)


# --- incomplete turns, omitted blocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [HOME, AWAY, None])
def test_incomplete_turn_is_dropped(origin):
    """The results of its calls are dropped, too."""
    cut = turn(Text("Well."), ToolUse("a", "f", "{}"), origin=origin, incomplete=True)
    adapted = adapt((HI, cut, results("a"), HI), HERE)

    assert adapted.messages == (HI, HI)
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [
        ("incomplete-turn", "messages[1]"),
        ("incomplete-turn", "messages[2].blocks[0]"),
    ]


def without_blocks(dialect: str, blocks: tuple, *places: int):
    home = Origin("x", dialect, "m")
    calls = [block.id for block in blocks if isinstance(block, ToolUse)]
    transcript = (HI, turn(*blocks, origin=home), *((results(*calls),) if calls else ()), HI)
    return adapt(transcript, to(dialect), without=frozenset((1, place) for place in places))


def test_omitted_thinking_drops_later_thinking_of_turn():
    """Removing one signed thinking block invalidates the later ones."""
    thoughts = [Reasoning(str(at), meta=AnthropicMeta(str(at))) for at in range(3)]
    blocks = (thoughts[0], thoughts[1], Text("a"), thoughts[2], Text("b"))
    alone = without_blocks("anthropic-messages", blocks, 3)
    remaining = without_blocks("anthropic-messages", blocks, 1)

    assert alone.messages[1].blocks == (*blocks[:3], blocks[4])
    assert [(loss.kind, str(loss.location)) for loss in alone.losses] == [("left-out", "messages[1].blocks[3]")]
    assert remaining.messages[1].blocks == (thoughts[0], Text("a"), Text("b"))
    assert rules(remaining) == ["left-out"] * 2


def test_omitted_call_drops_its_result():
    adapted = without_blocks("openai-chat", (ToolUse("a", "f", "{}"), ToolUse("b", "f", "{}")), 0)

    assert adapted.messages[1].blocks == (ToolUse("b", "f", "{}"),)
    assert adapted.messages[2] == results("b")
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [
        ("left-out", "messages[1].blocks[0]"),
        ("left-out", "messages[2].blocks[0]"),
    ]


def test_items_after_omitted_reasoning_lose_their_ids():
    """An id would require the omitted reasoning."""
    blocks = (Reasoning("r", meta=OpenAiMeta("rs_1", "gAAA")), Text("a", meta=OpenAiMeta("msg_1")), ToolUse("c", "f", "{}", meta=OpenAiMeta("fc_1")))  # fmt: skip
    adapted = without_blocks("openai-responses", blocks, 0)

    assert [block.meta for block in adapted.messages[1].blocks] == [OpenAiMeta(), OpenAiMeta()]
    assert rules(adapted) == ["left-out", "item-id", "item-id"]


def test_omitted_signed_part_loses_only_its_signature():
    """Its content is sent; the encoder writes a placeholder signature for a call."""
    signed = ToolUse("a", "f", "{}", meta=GeminiMeta("s"))
    adapted = without_blocks("gemini", (Reasoning("r", meta=GeminiMeta("t")), signed), 0, 1)

    assert adapted.messages[1].blocks == (replace(signed, meta=None),)
    assert rules(adapted) == ["left-out"] * 2


def test_omitted_item_with_content_loses_only_its_id():
    """The parts of a message share its id; an item without an id is omitted itself."""
    call = ToolUse("c", "f", "{}", meta=OpenAiMeta("fc_1"))
    parts = tuple(Text(text, meta=OpenAiMeta("msg_1")) for text in "ab")
    adapted = without_blocks("openai-responses", (*parts, call), 1)

    assert adapted.messages[1].blocks == (*(replace(part, meta=OpenAiMeta()) for part in parts), call)
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [
        ("item-id", "messages[1].blocks[0]"),
        ("left-out", "messages[1].blocks[1]"),
    ]
    assert without_blocks("openai-responses", (Text("a", meta=OpenAiMeta()), call), 0).messages[1].blocks == (
        replace(call, meta=OpenAiMeta()),
    )


def test_dependent_blocks_are_omitted_together():
    """A server tool call and its result; the details of one reply."""
    details = [Reasoning(str(at), meta=ChatMeta("reasoning_details", details="[{}]")) for at in range(2)]

    assert without_blocks("anthropic-messages", (SEARCH, FOUND, Text("a")), 1).messages[1].blocks == (Text("a"),)
    assert without_blocks("openai-chat", (*details, Text("a")), 1).messages[1].blocks == (Text("a"),)


def test_unknown_indexes_in_without_are_ignored():
    transcript = (HI, turn(Text("a"), origin=HOME), HI)

    assert adapt(transcript, HERE, without=frozenset(((0, 0), (1, 9), (7, 0), (1, -1)))).messages is transcript


# --- ids --------------------------------------------------------------------------------------------------------------


def ids_of(adapted) -> tuple[list[str], list[str]]:
    calls = [call.id for message in adapted.messages if isinstance(message, AssistantMessage) for call in message.tool_calls()]  # fmt: skip
    return calls, [r.tool_use_id for message in adapted.messages if isinstance(message, ToolResults) for r in message.results]  # fmt: skip


NINE = to("openai-chat", chat=ChatSwitches(call_id="nine"))
SHORT = to("openai-chat", chat=ChatSwitches(call_id_max=8))
EVERYBODY = [HERE, NINE, SHORT, to("openai-chat", chat=ChatSwitches(call_id_max=40)), to("openai-responses"), to("gemini")]  # fmt: skip
ODD = ("", "a.b:c", "x" * 65, "y" * 446, "é" * 50, "\ud800", "abcdefghi", "call|item", "abc")


@pytest.mark.parametrize("target", EVERYBODY, ids=lambda target: f"{target.dialect} {target.provider.chat.call_id_max}")
def test_call_ids_are_mapped_to_accepted_ids(target):
    """Calls and results match, ids are unique and repeatable, and later messages do not change them."""
    transcript = [HI]
    for _ in range(2):
        transcript += [turn(*(ToolUse(id, "f", "{}") for id in (*ODD, "abc"))), results(*ODD, "abc")]
    longer, part = adapt(tuple(transcript), target), adapt(tuple(transcript[:3]), target)
    calls, answers = ids_of(longer)

    assert calls == answers
    assert len(set(calls)) == 20
    assert all(calls)
    assert "\ud800" not in calls
    assert ids_of(part)[0] == calls[:10]
    assert adapt(tuple(transcript), target) == longer
    assert adapt(longer.messages, target).messages is longer.messages
    if target.dialect == "openai-chat":
        nine = target is NINE
        most = target.provider.chat.call_id_max
        assert all((len(id) == 9 and id.isalnum() and id.isascii()) if nine else len(id) <= most for id in calls)


def test_generated_id_never_equals_another_id():
    """A later call that has the generated id gets another one; earlier ids do not change."""
    first = (HI, turn(ToolUse("a.b", "f", "{}")), results("a.b"))
    (made,), _ = ids_of(adapt(first, HERE))
    calls, answers = ids_of(adapt((*first, turn(ToolUse(made, "f", "{}")), results(made)), HERE))

    assert calls == answers
    assert calls[0] == made != calls[1]


def test_loss_of_mapped_id_is_located_at_its_call():
    adapted = adapt((HI, turn(Reasoning("x"), ToolUse("a.b", "f", "{}"), origin=AWAY), results("a.b")), HERE)

    assert ("call-id-mapped", "messages[1].blocks[1]") in [(loss.kind, str(loss.location)) for loss in adapted.losses]


def test_issued_and_accepted_ids_do_not_change():
    odd = "chatcmpl-tool-" + "9" * 90
    own = (HI, turn(ToolUse(odd, "f", "{}"), origin=Origin("x", "openai-chat", "m")), results(odd))
    free = (HI, turn(ToolUse("a.b:c" * 30, "f", "{}")), results("a.b:c" * 30))

    assert adapt(own, NINE).messages is own
    assert adapt(free, to("gemini")).messages is free


def test_id_of_an_earlier_turn_is_replaced():
    """P51: some providers refuse the second use; its result has the new id, too."""
    again = (turn(ToolUse("t", "f", "{}"), origin=HOME), results("t"))
    calls, answers = ids_of(adapt((HI, *again, *again), HERE))

    assert calls == answers
    assert calls[0] == "t" != calls[1]


def test_second_use_of_id_in_a_turn_is_replaced():
    """The n-th result belongs to the n-th call."""
    answers = ToolResults((ToolResult("t", "1"), ToolResult("t", "2")))
    adapted = adapt((HI, turn(ToolUse("t", "f", "{}"), ToolUse("t", "g", "{}")), answers), HERE)
    first, second = (block.id for block in adapted.messages[1].blocks)

    assert (first, rules(adapted)) == ("t", ["call-id-mapped"])
    assert [(r.tool_use_id, r.content) for r in adapted.messages[2].results] == [("t", "1"), (second, "2")]


# --- results ---------------------------------------------------------------------------------------------------------

A, B = ToolUse("a", "f", "{}"), ToolUse("b", "f", "{}")


def test_open_calls_get_error_results():
    """R15: each call has a result before the next user message, in the order of the calls."""
    adapted = adapt((HI, turn(A, B), ToolResults((ToolResult("b", "2"),)), UserMessage("?")), HERE)

    assert adapted.messages[2] == ToolResults((ToolResult("a", UNANSWERED, is_error=True), ToolResult("b", "2")))
    assert adapted.messages[3] == UserMessage("?")
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [("open-call", "messages[1].blocks[0]")]
    assert rules(adapt((HI, turn(A, B)), HERE)) == ["open-call"] * 2


def test_results_directly_follow_their_calls():
    """A message between them moves after the results."""
    adapted = adapt((HI, turn(A), UserMessage("wait"), results("a"), UserMessage("?")), HERE)

    assert adapted.messages[2:] == (results("a"), UserMessage("wait"), UserMessage("?"))
    assert adapted.losses == ()


def test_result_after_later_turn_moves_to_its_call():
    adapted = adapt((HI, turn(A), turn(B), results("a", "b")), HERE)

    assert adapted.messages == (HI, turn(A), results("a"), turn(B), results("b"))
    assert adapted.losses == ()


def test_orphan_results_are_dropped():
    """A result without a call, and a second result of a call."""
    mixed = ToolResults((ToolResult("a", "1"), ToolResult("a", "2"), ToolResult("zzz")))
    adapted = adapt((HI, results("early"), turn(A), mixed), HERE)

    assert adapted.messages == (HI, turn(A), ToolResults((ToolResult("a", "1"),)))
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [
        ("orphan-result", "messages[1].blocks[0]"),
        ("orphan-result", "messages[3].blocks[1]"),
        ("orphan-result", "messages[3].blocks[2]"),
    ]


def test_asynchronous_call_stays_open():
    adapted = adapt((HI, turn(replace(A, extra='{"async":true}'), replace(B, extra='{"x":1}'))), HERE)

    assert adapted.messages[2].results[0].tool_use_id == "b"
    assert rules(adapted) == ["open-call"]
    assert rules(adapt((HI, turn(replace(A, extra="no object"))), HERE)) == ["open-call"]


def test_late_result_of_asynchronous_call_stays():
    """It stays after its turn, with or without other calls; a second one is an orphan."""
    later = turn(replace(A, extra='{"async":true}'))
    plain = (HI, later, HI, turn(Text("x")), results("a"))
    mixed = (HI, later, HI, turn(B), results("b", "a"))

    assert adapt(plain, HERE).messages is plain
    assert adapt(mixed, HERE).messages is mixed
    assert rules(adapt((*plain, turn(Text("y")), results("a"), HI), HERE)) == ["orphan-result"]


# --- first and last message ------------------------------------------------------------------------------------------

ALTERNATING = to("openai-chat", chat=ChatSwitches(alternate=True))


@pytest.mark.parametrize("target, begins", [
    (HERE, True), (to("gemini"), True), (ALTERNATING, True), (to("openai-chat"), False), (to("openai-responses"), False),
], ids=lambda value: getattr(value, "dialect", ""))  # fmt: skip
def test_user_message_is_first_if_required(target, begins):
    transcript = (SystemMessage("s"), turn(Text("a")), HI)
    adapted = adapt(transcript, target)

    assert (adapted.messages is transcript) is not begins
    if begins:
        assert isinstance(adapted.messages[1], UserMessage)
        assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [("first-turn", "messages[1]")]
        assert adapt(adapted.messages, target).messages is adapted.messages


def test_compaction_may_be_first():
    transcript = (turn(Marker("compaction", "so far", meta=AnthropicMeta("s")), origin=HOME), HI)

    assert adapt(transcript, HERE).messages is transcript


def test_assistant_message_separates_results_from_user():
    transcript = (HI, turn(A), results("a"), turn(), SystemMessage("s"), HI)
    adapted = adapt(transcript, ALTERNATING)

    assert [type(message) for message in adapted.messages[4:]] == [SystemMessage, AssistantMessage, UserMessage]
    assert [(loss.kind, str(loss.location)) for loss in adapted.losses] == [("bridged-turn", "messages[5]")]
    assert adapt(transcript, to("openai-chat")).messages is transcript


def test_last_assistant_message_is_dropped_if_refused():
    """Several of them are dropped; a turn that the provider paused stays."""
    refusing = replace(HERE, traits=ModelTraits(known=True, prefill="rejected"))
    paused = (HI, turn(SEARCH, origin=HOME, raw_stop_reason="pause_turn"))
    adapted = adapt((HI, turn(Text("a")), turn(Text("b")), SystemMessage("s")), refusing)

    assert adapted.messages == (HI, SystemMessage("s"))
    assert [str(loss.location) for loss in adapted.losses] == ["messages[2]", "messages[1]"]
    assert rules(adapted) == ["prefill-refused"] * 2
    assert adapt(paused, refusing).messages is paused
    assert rules(adapt((HI, turn(Text("a"), raw_stop_reason="pause_turn")), refusing)) == ["prefill-refused"]


def test_loss_effects_have_three_values():
    assert set(LOSS_EFFECTS.values()) == {"stripped", "translated", "dropped"}


# --- locations of losses ---------------------------------------------------------------------------------------------


def test_loss_location_is_in_original_transcript():
    """The encoder counts in the adapted messages."""
    here = resolve("anthropic/claude-opus-4-6")
    away = Origin("google", "gemini", "gemini-3-flash-preview")
    messages = (
        AssistantMessage((Text("Cut"),), incomplete=True),
        UserMessage("?"),
        AssistantMessage((Reasoning("Hm."), Reasoning("Hm."), ToolUse("a", "add", "[1]")), origin=away),
        ToolResults((ToolResult("a", "1"),)),
        AssistantMessage(
            (Reasoning("So."), Text("x")), origin=Origin("anthropic", "anthropic-messages", "claude-opus-4-6")
        ),
        UserMessage("And?"),
    )
    losses = write_request(ChatRequest(model="m", messages=messages), here).losses
    locations = {loss.kind: str(loss.location) for loss in losses}

    assert locations["incomplete-turn"] == "messages[0]"
    assert locations["arguments-not-an-object"] == "messages[2].blocks[2]"
    assert locations["unsigned-reasoning"] == "messages[4].blocks[0]"


def test_inserted_instructions_do_not_move_locations():
    message = AssistantMessage(
        (Reasoning("So."), Text("x")), origin=Origin("anthropic", "anthropic-messages", "claude-3-haiku")
    )
    target = resolve("anthropic/claude-3-haiku-20240307")
    target = replace(target, traits=replace(target.traits, structured_output="prompt"))
    request = ChatRequest(
        model="m",
        messages=(UserMessage("?"), message, UserMessage("!")),
        response_format=JsonSchema({"type": "object"}),
    )
    locations = {loss.kind: str(loss.location) for loss in write_request(request, target).losses}

    assert locations["no-structured-output"] == "response_format"
    assert locations["unsigned-reasoning"] == "messages[1].blocks[0]"


# --- ids and outcomes of the issuer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block, made, kinds",
    [
        (Image("aGk=", "image/png", file_id="file-1"), Image("aGk=", "image/png"), {"foreign-fields"}),
        (CodeExecution("1", "PYTHON", id="c1"), CodeExecution("1", "PYTHON"), {"foreign-fields"}),
        (CodeResult("done", "1", id="c1"), CodeResult("OUTCOME_OK", "1"), {"foreign-fields", "code-translated"}),
        (CodeResult("OUTCOME_FAILED", "1"), CodeResult("OUTCOME_FAILED", "1"), set()),
    ],
)
def test_foreign_ids_and_outcomes_are_losses_in_gemini(block, made, kinds):
    message = AssistantMessage((block,), origin=Origin("there", "gemini", "gemini-3-pro"))
    adapted = adapt((HI, message, HI), to("gemini"))

    assert adapted.messages[1].blocks == (made,)
    assert set(rules(adapted)) == kinds


# --- generated call ids -----------------------------------------------------------------------------------------------


def test_generated_call_id_is_not_sent_to_another_gemini_model():
    """A reply of gemini-2.5 has no call ids; gemini-3 must not see the ids that the decoder made up."""
    old, new = resolve("google/gemini-2.5-flash"), resolve("google/gemini-3-pro-preview")
    body = {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}, "finishReason": "STOP"}]
    }
    reply = decode_body(codec_for("gemini").decoder(old, seed="x"), json.dumps(body).encode())
    (call,) = reply.message.tool_calls()
    messages = (HI, reply.message, ToolResults((ToolResult(call.id, "done"),)))

    contents = json.loads(write_request(ChatRequest(model=new.model, messages=messages), new).body)["contents"]

    assert contents[1]["parts"][0]["functionCall"] == {"name": "f", "args": {}}
    assert contents[2]["parts"][0]["functionResponse"] == {"name": "f", "response": {"output": "done"}}


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "gemini"])
def test_generated_call_id_is_sent_where_an_id_is_required(dialect: str):
    transcript = (HI, turn(ToolUse("tnt_1", "f", "{}", id_generated=True), origin=AWAY), results("tnt_1"))
    body = write_request(ChatRequest(model="m", messages=transcript), to(dialect)).body.decode()

    assert body.count("tnt_1") >= 2


# --- text after calls -------------------------------------------------------------------------------------------------

CHAT = Origin("there", "openai-chat", "m")
CALL = ToolUse("t1", "f", "{}")


@pytest.mark.parametrize("origin", [None, CHAT, Origin("elsewhere", "anthropic-messages", "claude-haiku-4-5")])
def test_text_after_calls_moves_before_them_for_anthropic(origin: Origin | None):
    other = ToolUse("t2", "g", "{}")
    transcript = (HI, turn(Text("one"), CALL, Text("two"), other, Refusal("three"), origin=origin), results("t1", "t2"))
    adapted = adapt(transcript, HERE)

    assert adapted.messages[1].blocks == (Text("one"), Text("two"), Refusal("three"), CALL, other)
    assert [loss for loss in adapted.losses if loss.kind == "calls-last"] == [
        Loss("calls-last", Location(1), "2 calls moved after the text of their turn")
    ]
    assert adapted.original(Location(1, 1)) == Location(1, 2)


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "anthropic-messages"])
def test_text_after_calls_stays_for_other_dialects(dialect: str):
    transcript = (HI, turn(CALL, Text("a"), origin=None), results("t1"))

    assert adapt(transcript, to(dialect)).messages[1].blocks == (CALL, Text("a"))


def test_text_after_calls_stays_in_replies_of_the_target():
    transcript = (HI, turn(CALL, Text("a"), origin=HOME), results("t1"))

    assert adapt(transcript, HERE).messages is transcript


@pytest.mark.parametrize("between", [(Reasoning("h", meta=AnthropicMeta("s")),), (SEARCH, FOUND)])
def test_thinking_and_server_tools_after_calls_stay_in_place(between: tuple[Block, ...]):
    transcript = (HI, turn(CALL, *between, Text("a"), ToolUse("t2", "f", "{}")), results("t1", "t2"))

    assert adapt(transcript, HERE).messages[1].blocks == transcript[1].blocks
