"""What becomes of each block in a request, and where it stands there."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import conformance
import strategies as say
import tenuto.wire
from conformance.corpus import exchanges
from conformance.subject import decode, target_for
from tenuto import catalog, oneshot
from tenuto.audit.fates import FATE_OF, fates, place_at
from tenuto.audit.fates_rules import NOT_OF_BLOCKS, UNACCOUNTED
from tenuto.audit.fates_slots import slots_of
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    ChatMeta,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import ChatRequest
from tenuto.core.rules import rules
from tenuto.wire.registry import dialect_names
from tenuto.wire.write import write_request

DIALECTS = dialect_names()
CASES = [exchange for exchange in exchanges(Path(conformance.__file__).parent / "own") if exchange.read.error is None]
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
MODELS = (
    "anthropic/claude-opus-4-6", "openai/gpt-5.2", "xai/grok-4.5", "mistral/mistral-large-4", "deepseek/deepseek-v4-pro",
    "perplexity/sonar", "google/gemini-3-pro-preview",
)  # fmt: skip
TARGETS = [
    *(pytest.param(oneshot.target_of(dialect, "m", "custom"), id=dialect) for dialect in DIALECTS),
    *(pytest.param(catalog.resolve(model), id=model) for model in MODELS),
]
OWN = {
    "anthropic-messages": AnthropicMeta("sig"),
    "openai-responses": OpenAiMeta("rs_1", "sealed"),
    "openai-chat": ChatMeta("reasoning", details='[{"type":"reasoning.text","text":"hm","signature":"s"}]'),
    "gemini": GeminiMeta("sig"),
}
CALL_META = {"openai-responses": OpenAiMeta("fc_1"), "gemini": GeminiMeta("sig2")}
TEXT_META = {"openai-responses": OpenAiMeta("msg_1")}


def sent(messages, dialect, model="m", row="custom"):
    """Write the messages; return the body, as it was parsed, and the fates."""
    target = oneshot.target_of(dialect, model, row)
    written = write_request(ChatRequest(model="m", messages=tuple(messages)), target)
    body = json.loads(written.body)
    return body, fates(tuple(messages), body, dialect, written.losses)


def at(body, pointer):
    """Return the value at a JSON pointer; none leads to nothing."""
    assert pointer
    for step in pointer.split("/")[1:]:
        body = body[int(step)] if isinstance(body, list) else body[step]
    return body


def turn(dialect, *blocks):
    return AssistantMessage(blocks, origin=Origin("custom", dialect, "m"))


def conversation(dialect):
    thought = Reasoning("hm", meta=OWN[dialect])
    call = ToolUse("call_1", "look", '{"at":1}', meta=CALL_META.get(dialect))
    return (
        SystemMessage("be kind"),
        UserMessage((Text("what is it?"), Image(data="aWNo", mime="image/png"))),
        turn(dialect, thought, Text("let me see", meta=TEXT_META.get(dialect)), call),
        ToolResults((ToolResult("call_1", "a cat"),)),
        turn(dialect, Text("a cat")),
        UserMessage("thanks"),
    )


# --- where things stand -----------------------------------------------------------------------------------------------

POINTERS = {
    "anthropic-messages": (
        "/system", "/messages/0/content/0", "/messages/0/content/1", "/messages/1/content/0", "/messages/1/content/1",
        "/messages/1/content/2", "/messages/2/content/0", "/messages/3/content/0", "/messages/4/content/0",
    ),
    "openai-responses": (
        "/input/0/content", "/input/1/content/0", "/input/1/content/1", "/input/2", "/input/3/content/0", "/input/4",
        "/input/5", "/input/6/content", "/input/7/content",
    ),
    "openai-chat": (
        "/messages/0/content", "/messages/1/content/0", "/messages/1/content/1", "/messages/2/reasoning_details/0",
        "/messages/2/content", "/messages/2/tool_calls/0", "/messages/3", "/messages/4/content", "/messages/5/content",
    ),
    "gemini": (
        "/systemInstruction/parts/0", "/contents/0/parts/0", "/contents/0/parts/1", "/contents/1/parts/0",
        "/contents/1/parts/1", "/contents/1/parts/2", "/contents/2/parts/0", "/contents/3/parts/0", "/contents/4/parts/0",
    ),
}  # fmt: skip
PLACES = (
    "messages[0].content[0]", "messages[1].content[0]", "messages[1].content[1]", "messages[2].blocks[0]",
    "messages[2].blocks[1]", "messages[2].blocks[2]", "messages[3].results[0]", "messages[4].blocks[0]",
    "messages[5].content[0]",
)  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_goes_as_it_is_is_kept_and_has_its_pointer(dialect):
    """Instructions, words, pictures, thoughts, calls and answers, each where it stands in the body."""
    _, found = sent(conversation(dialect), dialect)

    assert {"kept"} == {fate.fate for fate in found}
    assert tuple(fate.place for fate in found) == PLACES
    assert tuple(fate.pointer for fate in found) == POINTERS[dialect]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pointer_leads_back_to_the_block(dialect):
    """Exactly, from inside the block, from above it, and as errors spell it."""
    _, found = sent(conversation(dialect), dialect)

    for fate in found:
        assert place_at(found, fate.pointer) == fate.place
        assert place_at(found, f"{fate.pointer}/some/where") == fate.place
        assert place_at(found, fate.pointer[1:].replace("/", ".")) == fate.place
    assert place_at(found, "/nowhere/0") == ""


def test_a_pointer_to_a_message_leads_to_its_first_block():
    """Providers often name the message alone."""
    _, found = sent(conversation("anthropic-messages"), "anthropic-messages")

    assert place_at(found, "messages.1") == "messages[2].blocks[0]"
    assert place_at(found, "messages[1].content[2].input") == "messages[2].blocks[2]"
    assert place_at(found, "/messages/1/content/20") == "", "no block with that number"


def test_texts_that_are_joined_share_the_pointer_of_the_whole():
    """The chat dialect holds a turn's words in one string."""
    said = (UserMessage("?"), turn("openai-chat", Text("one, "), Text("two")), UserMessage("go on"))
    body, found = sent(said, "openai-chat")

    assert at(body, found[1].pointer) == "one, two"
    assert found[1].pointer == found[2].pointer == "/messages/1/content"


def test_turns_that_share_a_message_are_told_apart():
    """Where users and assistants have to take turns, neighbours are joined; each text is found in its half."""
    said = (UserMessage("first"), UserMessage("second"), turn("openai-chat", Text("yes")), UserMessage("first"))
    target = catalog.resolve("perplexity/sonar")
    written = write_request(ChatRequest(model="m", messages=said), target)
    found = fates(said, json.loads(written.body), target.dialect, written.losses)

    assert [fate.pointer for fate in found] == [
        "/messages/0/content", "/messages/0/content", "/messages/1/content", "/messages/2/content",
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_instructions_that_are_moved_are_found_where_they_went(dialect):
    """Moving is a translation where the dialect has no place for them in the middle."""
    said = (SystemMessage("be kind"), UserMessage("hello"), SystemMessage("be brief"), UserMessage("well?"))
    body, found = sent(said, dialect)

    assert "be brief" in json.dumps(at(body, found[2].pointer))
    assert found[2].fate == ("translated" if dialect in ("anthropic-messages", "gemini") else "kept")


@pytest.mark.parametrize("dialect", ["anthropic-messages", "openai-responses", "openai-chat"])
def test_a_call_whose_id_is_changed_is_still_found_and_so_is_its_answer(dialect):
    """The fate names the change; with equal names, order decides."""
    calls = [ToolUse("x" * 100 + str(no), "look", "{}") for no in range(2)]
    said = (
        UserMessage("?"),
        AssistantMessage(tuple(calls)),
        ToolResults(tuple(ToolResult(call.id, f"answer {no}") for no, call in enumerate(calls))),
    )
    body, found = sent(said, dialect)

    assert [(fate.fate, fate.rule) for fate in found[1:3]] == [("translated", "call-id-mapped")] * 2
    assert found[1].pointer < found[2].pointer
    assert [f"answer {no}" in json.dumps(at(body, found[3 + no].pointer)) for no in range(2)] == [True, True]
    assert found[1].source.startswith("XP-01: ")


def test_answers_without_ids_are_found_by_the_names_of_their_calls():
    """Gemini's older models give no ids, and answers stand in the order of the calls."""
    calls = tuple(
        ToolUse(f"minted_{no}", name, "{}", id_generated=True) for no, name in enumerate(("look", "hear", "look"))
    )
    results = tuple(ToolResult(calls[no].id, f"answer {no}") for no in (2, 1, 0))
    said = (UserMessage("?"), turn("gemini", *calls), ToolResults(results))
    body, found = sent(said, "gemini")

    assert ["answer 2", "answer 1", "answer 0"] == [
        at(body, fate.pointer)["functionResponse"]["response"]["output"] for fate in found[-3:]
    ]


# --- what does not go as it is ----------------------------------------------------------------------------------------


def test_what_is_taken_off_and_left_out_says_why():
    """A foreign turn: its thought is dropped, its token stripped off the call, its words kept."""
    said = (
        UserMessage("?"),
        AssistantMessage(
            (
                Reasoning("hm", meta=AnthropicMeta("sig")),
                Text("let me see"),
                ToolUse("c1", "look", "{}", meta=OpenAiMeta("fc_1")),
            ),
            origin=Origin("other", "anthropic-messages", "n"),
        ),
        ToolResults((ToolResult("c1", "ok"),)),
    )
    _, found = sent(said, "openai-responses")
    by_place = {fate.place: fate for fate in found}

    thought = by_place["messages[1].blocks[0]"]
    assert (thought.fate, thought.pointer) == ("dropped", "")
    assert thought.why
    assert thought.source.startswith("XP-02: ")
    assert by_place["messages[1].blocks[1]"].fate == "kept"
    call = by_place["messages[1].blocks[2]"]
    assert (call.fate, call.rule, call.pointer) == ("stripped", "foreign-token", "/input/2")


def test_words_of_the_user_inside_a_reply_are_found_as_the_users():
    """A compacted history holds such messages, and they go back with their own role."""
    mark = Marker("input_text", "what is it?", meta=OpenAiMeta("msg_1"), extra='{"item":{"role":"user"}}')
    sealed = Marker("compaction", meta=OpenAiMeta("cmp_1", "sealed"))
    said = (turn("openai-responses", mark, sealed), UserMessage("what is it?"))
    _, found = sent(said, "openai-responses")

    assert [fate.pointer for fate in found] == ["/input/0/content/0", "/input/1", "/input/2/content"]
    assert {"kept"} == {fate.fate for fate in found}


def test_a_picture_that_the_dialect_refuses_is_dropped_with_its_reason():
    """The loss names only the message; the block is found by what it is."""
    _, found = sent((UserMessage((Text("hear"), Audio(data="AAAA", mime="audio/wav"))),), "anthropic-messages")

    assert [(fate.kind, fate.fate, fate.rule) for fate in found] == [
        ("text", "kept", ""),
        ("audio", "dropped", "unsupported-content"),
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_stands_for_a_block_is_found(dialect):
    """A translation has the pointer of the words that it became."""
    search = ServerToolUse("s1", "web_search", '{"q":"cats"}', "server_tool_use")
    other = AssistantMessage((Text("let me look"), search, Text("found")), origin=Origin("other", "none", "n"))
    body, found = sent((UserMessage("?"), other, UserMessage("go on")), dialect)

    assert (found[2].fate, found[2].rule) == ("translated", "stand-in")
    assert "cats" in json.dumps(at(body, found[2].pointer))
    assert [fate.fate for fate in found[:2]] == ["kept", "kept"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_thought_that_is_told_in_a_note_is_found_there(dialect):
    """Foreign reasoning goes into the user's next words, if that was asked for."""
    other = AssistantMessage((Reasoning("it may be a cat"), Text("a cat?")), origin=Origin("other", "none", "n"))
    said = (UserMessage("?"), other, UserMessage("yes"))
    target = oneshot.target_of(dialect, "m", "custom")
    written = write_request(ChatRequest(model="m", messages=said, foreign_reasoning="note"), target)
    body = json.loads(written.body)
    found = fates(said, body, dialect, written.losses)

    assert (found[1].fate, found[1].rule) == ("translated", "reasoning-noted")
    assert "it may be a cat" in json.dumps(at(body, found[1].pointer))
    assert found[3].fate == "kept"


def test_what_is_left_out_on_purpose_is_told():
    """A thought goes as a whole; of what Gemini signed, only the signature goes."""
    thinking = conversation("anthropic-messages")
    target = oneshot.target_of("anthropic-messages", "m", "custom")
    written = write_request(ChatRequest(model="m", messages=thinking, omit_blocks=((2, 0),)), target)
    found = fates(thinking, json.loads(written.body), target.dialect, written.losses)
    assert (found[3].fate, found[3].rule) == ("dropped", "left-out")

    signed = conversation("gemini")
    target = oneshot.target_of("gemini", "m", "custom")
    written = write_request(ChatRequest(model="m", messages=signed, omit_blocks=((2, 2),)), target)
    found = fates(signed, json.loads(written.body), target.dialect, written.losses)
    assert (found[5].fate, found[5].rule, found[5].pointer) == ("stripped", "left-out", "/contents/1/parts/2")


def test_a_result_that_loses_a_part_is_stripped():
    """What the tool said goes, what it showed does not."""
    shown = ToolResult("c1", (Text("look"), Image(data="aWNo", mime="image/png")))
    said = (UserMessage("?"), turn("openai-chat", ToolUse("c1", "look", "{}")), ToolResults((shown,)))
    _, found = sent(said, "openai-chat")

    assert (found[-1].kind, found[-1].fate, found[-1].rule) == ("tool_result", "stripped", "unsupported-content")
    assert found[-1].pointer == "/messages/2"


def test_an_empty_text_says_nothing():
    """It is left out, and that is no silent loss."""
    _, found = sent((UserMessage("?"), turn("gemini", Text(""), Text("yes")), UserMessage("!")), "gemini")

    assert (found[1].fate, found[1].rule) == ("dropped", "empty")


def test_a_block_that_is_in_neither_is_unaccounted():
    """A silent loss is told, not guessed away."""
    said = conversation("anthropic-messages")
    body, _ = sent(said, "anthropic-messages")
    del body["messages"][1]["content"][0]
    found = fates(said, body, "anthropic-messages", ())

    assert [fate.place for fate in found if fate.rule == UNACCOUNTED] == ["messages[2].blocks[0]"]
    assert found[3].fate == "dropped"
    assert found[4].pointer == "/messages/1/content/0"


def test_a_reason_whose_place_has_moved_still_finds_its_block():
    """Places are noted after blocks before them may have gone."""
    said = (UserMessage("?"), turn("gemini", Text("kept"), Opaque("other", "{}"), Text("also kept")))
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "?"}]},
            {"role": "model", "parts": [{"text": "kept"}, {"text": "also kept"}]},
        ]
    }
    found = fates(said, body, "gemini", (Loss("unreadable-block", Location(1, 0), "a block of another dialect"),))

    assert [fate.fate for fate in found] == ["kept", "kept", "dropped", "kept"]
    assert found[2].rule == "unreadable-block"


# --- for whatever is sent ---------------------------------------------------------------------------------------------


def lasting(block):
    """Return something of a block that must stand in the body where it is kept; None where nothing can be said."""
    if isinstance(block, ToolUse) and block.kind not in ("function", "custom"):
        return None  # a call of the client's own kind of tool is known by its type
    if isinstance(block, ToolUse | ServerToolUse):
        return block.name
    return block.text if isinstance(block, Text | Refusal) else None


@pytest.mark.parametrize("target", TARGETS)
@QUICK
@given(said=say.transcripts_of(say.words) | say.conversations())
def test_every_block_is_in_the_body_or_in_the_losses(target, said):
    """One fate for each block, no silent loss, and a pointer to what is kept."""
    written = write_request(ChatRequest(model="m", messages=said), target)
    body = json.loads(written.body)
    found = fates(said.messages, body, target.dialect, written.losses)
    blocks = [
        block
        for m in said
        for block in (
            m.blocks
            if isinstance(m, AssistantMessage)
            else m.results
            if isinstance(m, ToolResults)
            else (Text(m.content),)
            if isinstance(m.content, str)
            else m.content
        )
    ]

    assert [] == [fate for fate in found if fate.rule == UNACCOUNTED]
    assert len(found) == len(blocks)
    assert len({fate.place for fate in found}) == len(found)
    for fate, block in zip(found, blocks, strict=True):
        assert bool(fate.pointer) or fate.fate not in ("kept", "stripped")
        value = at(body, fate.pointer) if fate.pointer else None
        word = lasting(block)
        if fate.fate == "kept" and word:
            assert word in "\n".join(texts(value))


def answered(message):
    """A conversation around a reply: its calls are answered, and something follows."""
    results = tuple(call.answer("ok") for call in message.tool_calls())
    return (UserMessage("?"), message, *((ToolResults(results),) if results else ()), UserMessage("go on"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("exchange", CASES, ids=lambda exchange: exchange.name)
def test_no_block_of_a_received_reply_is_lost_in_silence(exchange, dialect):
    """Replies as the decoders read them, sent back to where they came from and to others."""
    said = decode(exchange, target_for(exchange)).said
    home = target_for(exchange)
    target = home if home.dialect == dialect else oneshot.target_of(dialect, "m", "custom")
    for choice in said.choices if said is not None else ():
        messages = answered(choice.message)
        written = write_request(ChatRequest(model="m", messages=messages), target)
        found = fates(messages, json.loads(written.body), dialect, written.losses)
        assert [] == [fate for fate in found if fate.rule == UNACCOUNTED]


def texts(value):
    """Yield every string of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


@pytest.mark.parametrize("dialect", DIALECTS)
@QUICK
@given(body=say.json_values)
def test_any_body_can_be_read(dialect, body):
    """A caller may put anything into a body."""
    for field in ("messages", "input", "contents", "system", "systemInstruction"):
        assert isinstance(slots_of({field: body}, dialect, whole=True), list)
        wrapped = [body, {"role": "assistant", "content": body, "parts": body, "tool_calls": body}]
        assert isinstance(slots_of({field: wrapped}, dialect), list)


def test_every_reason_has_its_fate():
    """No loss that the wire can give to a request is missing from the table; what is about a reply has no place in it."""
    root = Path(tenuto.wire.__file__).parent
    given = {rule for path in sorted(root.rglob("*.py")) if not _reads(path) for rule in _rules(path)}

    assert [] == sorted(given - FATE_OF.keys() - NOT_OF_BLOCKS)
    assert set() == FATE_OF.keys() & NOT_OF_BLOCKS
    assert {book for _, book in FATE_OF.values() if book} <= rules().keys()


_READING = {
    *("decode", "decoder", "assembler", "usage", "choice", "tool_calls", "candidate", "item_builder"),
    *("content_parts", "embeddings", "partial_args"),
}


def _reads(path):
    return path.stem in _READING


def _rules(path):
    """Yield the reasons that a module names where it makes a loss."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
        first = node.args[0]
        if name in ("Loss", "lose", "_lose") and isinstance(first, ast.Constant):
            yield first.value
