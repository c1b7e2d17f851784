from __future__ import annotations

import copy
import pickle
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from rich.pretty import pretty_repr

from strategies import blocks, blocks_of, broken_words, citations, metas
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    Citation,
    GeminiMeta,
    Image,
    Opaque,
    OpaqueMeta,
    OpenAiMeta,
    OtherCitation,
    ProviderMeta,
    Reasoning,
    ServerToolResult,
    Text,
    ToolUse,
    UrlCitation,
)

TOKEN = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"


@given(blocks_of(broken_words))
def test_block_equals_its_copies_and_hashes_alike(block):
    """A deep copy has the same text and tokens."""
    for twin in (copy.copy(block), copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert twin == block
        assert hash(twin) == hash(block)
        assert type(twin) is type(block)


@given(metas)
def test_token_equals_its_copies_and_hashes_alike(meta):
    assert copy.deepcopy(meta) == meta
    assert hash(copy.deepcopy(meta)) == hash(meta)


@given(citations)
def test_citation_equals_its_copies_and_hashes_alike(citation):
    assert copy.deepcopy(citation) == citation
    assert hash(copy.deepcopy(citation)) == hash(citation)


@given(blocks)
def test_block_is_immutable(block):
    with pytest.raises(AttributeError):
        block.extra = "{}"


def test_changed_copy_leaves_original_unchanged():
    thought = Reasoning("Hm.", meta=AnthropicMeta("sig"))
    other = msgspec.structs.replace(thought, meta=None)

    assert thought == Reasoning("Hm.", meta=AnthropicMeta("sig"))
    assert other == Reasoning("Hm.")


def test_blocks_of_different_kinds_are_never_equal():
    assert Text("a") != Reasoning("a")
    assert AnthropicMeta("a") != AnthropicRedactedMeta("a")


@pytest.mark.parametrize("kind", [*get_args(Block), *get_args(ProviderMeta), *get_args(Citation)])
def test_block_refuses_unknown_arguments(kind):
    """A struct that ignores unknown fields would lose data silently."""
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.frozen
    assert "unknown_fields" in kind.__struct_fields__


# --- repr -------------------------------------------------------------------------------------------------------------


def test_repr_shows_fields_without_defaults():
    call = ToolUse("call_1", "weather", '{"city": "Oslo"}', id_generated=True)

    assert repr(call) == """ToolUse(id='call_1', name='weather', args='{"city": "Oslo"}', id_generated=True)"""
    assert repr(Text("Hi", (UrlCitation("https://x"),))) == "Text(text='Hi', citations=(UrlCitation(url='https://x'),))"
    assert repr(Reasoning()) == "Reasoning(text='')"


@pytest.mark.parametrize(
    "value",
    [
        AnthropicMeta(TOKEN),
        AnthropicRedactedMeta(TOKEN),
        GeminiMeta(TOKEN),
        OpenAiMeta("rs_1", TOKEN),
        ChatMeta("reasoning", TOKEN),
        ChatMeta("reasoning_details", details=f'[{{"data":"{TOKEN}"}}]'),
        OpaqueMeta(f'{{"provider":"later","token":"{TOKEN}"}}'),
        Opaque("gemini", f'{{"thoughtSignature":"{TOKEN}"}}'),
        Image(TOKEN, "image/png"),
        Reasoning("Hm.", meta=AnthropicMeta(TOKEN)),
        Text("Hi", (OtherCitation(raw=f'{{"encrypted_index":"{TOKEN}"}}'),)),
        Text("Hi", extra=f'{{"signature":"{TOKEN}"}}', unknown_fields=f'{{"token":"{TOKEN}"}}'),
        ServerToolResult("srv_1", f'[{{"encrypted_content":"{TOKEN}"}}]'),
    ],
)
def test_repr_shortens_tokens(value):
    """The repr may be logged, and a log must not contain tokens."""
    assert TOKEN not in repr(value)
    assert TOKEN not in pretty_repr(value)


def test_shortened_tokens_differ():
    assert repr(GeminiMeta(TOKEN)) == "GeminiMeta(thought_signature='EqQBCgIY…OYds(53)')"
    assert repr(GeminiMeta("short")) == "GeminiMeta(thought_signature='short')"
    assert repr(GeminiMeta(TOKEN)) != repr(GeminiMeta(TOKEN[:-1] + "x"))
