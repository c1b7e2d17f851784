from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import words
from tenuto.core.blocks import AnthropicMeta, Audio, GeminiMeta, Opaque, Reasoning, Refusal, Text, ToolUse
from tenuto.errors import (
    DuplicateToolStart,
    InvalidArgsJson,
    OrphanedReasoningDelta,
    OrphanedToolDelta,
    StreamAssemblyError,
    TenutoError,
    UnknownToolComplete,
    UnknownToolFinalize,
)
from tenuto.wire.assembler import GROWS, BlockAssembler, BlockKey


def call(assembler, id, name, *pieces, meta=None):
    """Stream a whole call."""
    assembler.on_tool_call_start(id)
    for index, piece in enumerate(pieces):
        assembler.on_tool_call_delta(id, name if index == 0 else None, piece)
    assembler.on_tool_call_complete(id, name, assembler.finalize_tool_args(id), meta)


# --- text -------------------------------------------------------------------------------------------------------------


def test_text_deltas_coalesce_into_one_block():
    assembler = BlockAssembler()
    for delta in ("Hello", " ", "World"):
        assembler.on_text_delta(delta)

    assert assembler.finalize() == [Text("Hello World")]


def test_signed_text_does_not_coalesce():
    """Signed text must not change: the text before and after it are other blocks."""
    assembler = BlockAssembler()
    assembler.on_text_delta("First")
    assembler.on_text_delta("Second", GeminiMeta("sig1"))
    assembler.on_text_delta("Third")

    assert assembler.finalize() == [Text("First"), Text("Second", meta=GeminiMeta("sig1")), Text("Third")]


# --- reasoning --------------------------------------------------------------------------------------------------------


def test_reasoning_is_started_extended_and_completed():
    assembler = BlockAssembler()
    assembler.on_reasoning_start()
    assembler.on_reasoning_delta("Let me think")
    assembler.on_reasoning_delta("...")
    assembler.on_reasoning_complete(AnthropicMeta("sig_abc"))

    assert assembler.finalize() == [Reasoning("Let me think...", meta=AnthropicMeta("sig_abc"))]


def test_completing_reasoning_without_start_does_nothing():
    assembler = BlockAssembler()
    assembler.on_reasoning_complete()

    assert assembler.finalize() == []


def test_reasoning_delta_without_start_is_an_error():
    with pytest.raises(OrphanedReasoningDelta) as caught:
        BlockAssembler().on_reasoning_delta("orphan")

    assert str(caught.value) == "delta for unknown reasoning block"


def test_reasoning_delta_after_completion_is_an_error():
    assembler = BlockAssembler()
    assembler.on_reasoning_start()
    assembler.on_reasoning_complete()

    with pytest.raises(OrphanedReasoningDelta):
        assembler.on_reasoning_delta("more")


def test_second_reasoning_start_finishes_the_first():
    assembler = BlockAssembler()
    first = assembler.on_reasoning_start()
    assembler.on_reasoning_delta("one")
    second = assembler.on_reasoning_start()
    assembler.on_reasoning_delta("two")
    assembler.on_reasoning_complete(AnthropicMeta("sig"))

    assert (first, second) == (BlockKey(0), BlockKey(1))
    assert assembler.finalize() == [Reasoning("one"), Reasoning("two", meta=AnthropicMeta("sig"))]


def test_current_reasoning_text_returns_open_reasoning():
    assembler = BlockAssembler()
    assert assembler.current_reasoning_text() == ""
    assembler.on_reasoning_start()
    assembler.on_reasoning_delta("Let me ")
    assembler.on_reasoning_delta("think")
    assert assembler.current_reasoning_text() == "Let me think"
    assembler.on_reasoning_complete()

    assert assembler.current_reasoning_text() == ""


# --- calls ------------------------------------------------------------------------------------------------------------


def test_call_is_started_extended_and_completed():
    assembler = BlockAssembler()
    call(assembler, "tc_1", "read_file", '{"pa', 'th":', '"/tmp/test"}')

    assert assembler.finalize() == [ToolUse("tc_1", "read_file", '{"path":"/tmp/test"}')]


def test_call_keeps_its_token():
    assembler = BlockAssembler()
    call(assembler, "tc_2", "search", '{"q":"test"}', meta=GeminiMeta("gemini_sig"))

    assert assembler.finalize() == [ToolUse("tc_2", "search", '{"q":"test"}', meta=GeminiMeta("gemini_sig"))]


def test_call_without_start_is_appended():
    assembler = BlockAssembler()
    assembler.on_text_delta("Hello")
    assembler.on_tool_call_complete("tc_orphan", "orphan_tool", '{"key":"value"}')

    assert assembler.finalize() == [Text("Hello"), ToolUse("tc_orphan", "orphan_tool", '{"key":"value"}')]


def test_strict_refuses_call_without_start():
    assembler = BlockAssembler(strict=True)
    with pytest.raises(UnknownToolComplete) as caught:
        assembler.on_tool_call_complete("tc_orphan", "orphan_tool", "{}")

    assert str(caught.value) == "complete event for unknown tool: tc_orphan"
    assert caught.value.id == "tc_orphan"
    assert assembler.finalize() == []


def test_second_start_of_an_open_call_is_an_error():
    assembler = BlockAssembler()
    assembler.on_tool_call_start("tc_dup")
    with pytest.raises(DuplicateToolStart) as caught:
        assembler.on_tool_call_start("tc_dup")

    assert caught.value.id == "tc_dup"
    assert str(caught.value) == "duplicate tool call start: tc_dup"


def test_delta_of_an_unknown_call_is_an_error():
    with pytest.raises(OrphanedToolDelta) as caught:
        BlockAssembler().on_tool_call_delta("unknown", "tool", "{}")

    assert caught.value.id == "unknown"
    assert str(caught.value) == "delta for unknown tool call: unknown"


def test_arguments_of_an_unknown_call_are_an_error():
    with pytest.raises(UnknownToolFinalize) as caught:
        BlockAssembler().finalize_tool_args("unknown")

    assert caught.value.id == "unknown"
    assert str(caught.value) == "finalize args for unknown tool: unknown"


@pytest.mark.parametrize("args", ['{"invalid', " ", "}", "nope"])
def test_invalid_arguments_are_an_error_and_stay(args):
    assembler = BlockAssembler()
    assembler.on_tool_call_start("tc_bad")
    assembler.on_tool_call_delta("tc_bad", "bad_tool", args)
    with pytest.raises(InvalidArgsJson) as caught:
        assembler.finalize_tool_args("tc_bad")

    assert caught.value.id == "tc_bad"
    assert caught.value.source == caught.value.reason
    assert str(caught.value) == f"invalid args JSON for tool tc_bad: {caught.value.reason}"
    assembler.on_tool_call_complete("tc_bad", "bad_tool", args)
    assert assembler.finalize() == [ToolUse("tc_bad", "bad_tool", args)]


def test_missing_arguments_are_an_empty_object():
    assembler = BlockAssembler()
    assembler.on_tool_call_start("tc_empty")

    assert assembler.finalize_tool_args("tc_empty") == "{}"
    assert assembler.finalize_tool_args("tc_empty") == "{}"


def test_completed_call_id_can_start_again():
    assembler = BlockAssembler()
    call(assembler, "a", "f", "{}")
    call(assembler, "a", "f", "[]")

    assert assembler.finalize() == [ToolUse("a", "f", "{}"), ToolUse("a", "f", "[]")]


@pytest.mark.parametrize("kind", StreamAssemblyError.__subclasses__())
def test_every_assembly_error_has_one_base_class(kind):
    assert issubclass(kind, TenutoError)


# --- order ------------------------------------------------------------------------------------------------------------


def test_blocks_are_in_the_order_of_their_starts():
    assembler = BlockAssembler()
    assembler.on_text_delta("Let me help. ")
    assembler.on_reasoning_start()
    assembler.on_tool_call_start("tc_1")
    assembler.on_reasoning_delta("thinking...")
    assembler.on_tool_call_delta("tc_1", "search", '{"q":"x"}')
    assembler.on_text_delta("Done!")
    assembler.on_reasoning_complete(AnthropicMeta("sig"))
    assembler.on_tool_call_complete("tc_1", "search", assembler.finalize_tool_args("tc_1"))

    assert assembler.finalize() == [
        Text("Let me help. "),
        Reasoning("thinking...", meta=AnthropicMeta("sig")),
        ToolUse("tc_1", "search", '{"q":"x"}'),
        Text("Done!"),
    ]


def test_calls_completed_in_reverse_keep_start_order():
    assembler = BlockAssembler()
    first = assembler.on_tool_call_start("tc_first")
    second = assembler.on_tool_call_start("tc_second")
    for id, name in (("tc_second", "tool_b"), ("tc_first", "tool_a")):
        assembler.on_tool_call_delta(id, name, "{}")
        assembler.on_tool_call_complete(id, name, assembler.finalize_tool_args(id))

    assert (first, second) == (BlockKey(0), BlockKey(1))
    assert assembler.finalize() == [ToolUse("tc_first", "tool_a", "{}"), ToolUse("tc_second", "tool_b", "{}")]


def test_finalize_omits_open_blocks():
    assembler = BlockAssembler()
    assembler.on_text_delta("Complete text")
    assembler.on_reasoning_start()
    assembler.on_tool_call_start("tc_incomplete")

    assert assembler.finalize() == [Text("Complete text")]


# --- several open blocks ----------------------------------------------------------------------------------------------


def test_several_blocks_can_be_open():
    assembler = BlockAssembler()
    text, thought, refusal = (assembler.begin(block) for block in (Text("a"), Reasoning(), Refusal("")))
    for piece in "123":
        refusal.pieces.append(piece)
        text.pieces.append(piece)
        thought.pieces.append(piece)

    assert assembler.finish(refusal) == Refusal("123")
    assert assembler.finalize() == [Refusal("123")]
    assembler.finish(text)
    assembler.finish(thought)
    assert assembler.finalize() == [Text("a123"), Reasoning("123"), Refusal("123")]
    assert [slot.index for slot in (text, thought, refusal)] == [0, 1, 2]


def test_finished_block_of_provider_replaces_the_pieces():
    assembler = BlockAssembler()
    slot = assembler.begin(Text(""))
    slot.pieces.append("part")

    assert assembler.finish(slot, Text("whole", meta=GeminiMeta("s"))) == Text("whole", meta=GeminiMeta("s"))
    assert assembler.finalize() == [Text("whole", meta=GeminiMeta("s"))]


def test_unfinished_block_has_no_token():
    assembler = BlockAssembler()
    done = assembler.begin(Reasoning("a", meta=AnthropicMeta("s")))
    cut = assembler.begin(Reasoning("b", meta=AnthropicMeta("half")))
    cut.pieces.append("c")
    assembler.finish(done)

    assert assembler.unfinished() == [Reasoning("a", meta=AnthropicMeta("s")), Reasoning("bc")]
    assert assembler.unfinished() == assembler.unfinished()
    assert assembler.finalize() == [Reasoning("a", meta=AnthropicMeta("s"))]


def test_text_after_an_open_block_is_another_block():
    assembler = BlockAssembler()
    assembler.begin(Text("open"))
    assembler.on_text_delta("new")

    assert assembler.finalize() == [Text("new")]


@pytest.mark.parametrize("kind,field", GROWS.items())
def test_growing_field_is_a_str_of_its_block(kind, field):
    assert {info.name: info.type for info in msgspec.structs.fields(kind)}[field] is str


def test_surrogate_halves_in_two_deltas_are_joined():
    assembler = BlockAssembler()
    for delta in ("\ud83d", "\ude00"):
        assembler.on_text_delta(delta)
    assembler.on_tool_call_start("a")
    assembler.on_tool_call_delta("a", "f", '"\ud83d')
    assembler.on_tool_call_delta("a", None, '\ude00"')

    assert assembler.finalize() == [Text("😀")]
    assert assembler.finalize_tool_args("a") == '"😀"'


# --- cost -------------------------------------------------------------------------------------------------------------


def test_pieces_are_joined_once():
    """Joining with each delta would make the cost of a block quadratic in its length."""
    assembler = BlockAssembler()
    slot = assembler.begin(Audio())
    before = slot.block
    for _ in range(1000):
        slot.pieces.append("ab")

    assert slot.block is before
    assert len(slot.pieces) == 1000
    assert slot.joined() == Audio("ab" * 1000)
    assert len(slot.pieces) == 1
    assert assembler.finish(slot) == Audio("ab" * 1000)
    assert slot.pieces == []


@pytest.mark.parametrize("grow", ["text", "reasoning", "call"])
def test_deltas_are_not_joined_at_once(grow):
    assembler = BlockAssembler()
    assembler.on_reasoning_start()
    assembler.on_tool_call_start("a")
    assembler.on_text_delta("x")
    act = {
        "text": lambda: assembler.on_text_delta("x"),
        "reasoning": lambda: assembler.on_reasoning_delta("x"),
        "call": lambda: assembler.on_tool_call_delta("a", None, "x"),
    }[grow]
    for _ in range(500):
        act()

    assert max(len(slot.pieces) for slot in assembler.slots) == 500


@given(st.lists(words, max_size=8), st.integers(0, 7))
def test_finalize_between_deltas_changes_nothing(deltas, at):
    watched, unwatched = BlockAssembler(), BlockAssembler()
    for number, delta in enumerate(deltas):
        for assembler in (watched, unwatched):
            assembler.on_text_delta(delta)
        if number == at:
            watched.finalize()

    assert watched.finalize() == unwatched.finalize() == ([Text("".join(deltas))] if deltas else [])


def test_pieces_do_not_change_a_block_that_cannot_grow():
    assembler = BlockAssembler()
    block = Opaque("openai-responses", '{"type":"new"}')
    assembler.begin(block).pieces.append("x")

    assert assembler.unfinished() == [block]
