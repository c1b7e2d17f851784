"""Think tags in text: chunks of any size, text that only looks like a tag, restoring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.wire.chat.content_parts import CLOSE, OPEN, ThinkTags, restore_tags

WHOLE = {
    "thought and answer": ("<think>Look.</think>It rains.", "Look.", "It rains."),
    "blanks stay": (" \n<think>\nLook.\n</think>\n\nIt rains.", "\nLook.\n", "\n\nIt rains."),
    "empty thought": ("<think></think>It rains.", "", "It rains."),
    "never closed": ("<think>Look", "Look", ""),
    "almost closed": ("<think>Look</thin", "Look</thin", ""),
    "no tag": ("It rains.", None, "It rains."),
    "a tag in prose": ("Write <think> first, then </think>.", None, "Write <think> first, then </think>."),
    "a tag after the thought": ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
    "another tag": ("<thinking>a</thinking>", None, "<thinking>a</thinking>"),
    "the start of a tag": ("<thi", None, "<thi"),
    "blanks only": ("  \n", None, "  \n"),
    "angle in thought": ("<think>a < b </ c</think>d", "a < b </ c", "d"),
    "twice opened": ("<think><think>a</think>b", "<think>a", "b"),
}


def split(pieces: list[str]) -> tuple[ThinkTags, str | None, str]:
    tags = ThinkTags()
    pairs = [*map(tags.feed, pieces), tags.flush()]
    thought = "".join(pair[0] for pair in pairs)
    return tags, thought if tags.has_open_tag else None, "".join(pair[1] for pair in pairs)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_tags_are_found_at_any_chunk_size(name, size):
    text, thought, answer = WHOLE[name]
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    assert split(pieces)[1:] == (thought, answer)


def test_reasoning_is_returned_as_early_as_possible():
    tags = ThinkTags()

    assert tags.feed("<th") == ("", "")
    assert tags.feed("ink>Look at </thi") == ("Look at ", "")
    assert tags.feed("s: ") == ("</this: ", "")
    assert tags.feed("ok</think>Yes") == ("ok", "Yes")
    assert tags.feed("<think>") == ("", "<think>")


def test_pending_is_false_before_text_and_after_decision():
    tags = ThinkTags()
    assert not tags.is_pending
    tags.feed(" ")
    assert tags.is_pending
    tags.feed("x")
    assert not tags.is_pending
    assert tags.flush() == ("", "")


@given(
    st.lists(
        st.sampled_from([OPEN, CLOSE, "<", "</", "thi", "nk>", " ", "\n", "word", "é"]) | st.text(max_size=5),
        max_size=12,
    )
)
def test_original_text_can_be_restored(pieces):
    tags, thought, answer = split(pieces)

    back = answer if thought is None else restore_tags(thought, tags.extra()) + answer

    assert back == "".join(pieces)


def test_extra_field_of_wrong_type_is_ignored():
    assert restore_tags("a", '{"before":5}') == "<think>a</think>"
