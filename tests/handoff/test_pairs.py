"""From everybody to everybody, with tokens that were really signed: there, and back."""

from __future__ import annotations

import json

import pytest

from handoff.facing import MODELS, STYLES, accepted, taken, target
from handoff.issued import TURNS, answered, conversation, paused, reply
from tenuto.core import jsonio
from tenuto.core.messages import AssistantMessage, ToolResults, UserMessage
from tenuto.sim.script import CallTool, Say, Think
from tenuto.wire.adapt import adapt
from tenuto.wire.token_scope import issued_by
from tenuto.wire.translate import LOSS_EFFECTS

EVERYBODY = (*STYLES, *MODELS)
HEADS = ("anthropic", "openai", "gemini", "chat", "openrouter")
"""One for each form of token: what they said is handed to the real models, too."""
HOLDERS = {
    "anthropic-messages": "messages",
    "openai-responses": "input",
    "openai-chat": "messages",
    "gemini": "contents",
}
FIELDS = ("signature", "data", "encrypted_content", "thought_signature")
SIGNED = {"ANT-THINK-02", "OAR-REAS-05", "OAR-REAS-03", "GEM-SIG-02", "GEM-SIG-01", "OAC-DS-01", "OAC-KIMI-01", "OAC-OR-04"}  # fmt: skip
"""Rules that look at what is sent back."""


def turns(messages):
    """Yield each block of the assistant's, with its place."""
    for at, message in enumerate(messages):
        for place, block in enumerate(message.blocks if isinstance(message, AssistantMessage) else ()):
            yield f"messages[{at}].blocks[{place}]", block, message


def tokens(block) -> list[str]:
    """The tokens that ride on a block."""
    found = [value for name in FIELDS if (value := getattr(block.meta, name, None))]
    details = json.loads(getattr(block.meta, "details", "") or "[]")
    return found + [token for one in details for name in ("signature", "data") if (token := one.get(name))]


@pytest.mark.parametrize("home", STYLES)
def test_everybody_takes_it_and_the_books_balance(home):
    """Each block is where it was, or a loss at its place says what became of it; so is each token."""
    said = conversation(home)
    for named in EVERYBODY if home in HEADS else STYLES:
        to = target(named)
        wire = accepted(said, to)
        adapted = adapt(said, to)
        body = wire.body.decode()
        kept = {id(block) for _, block, _ in turns(adapted.messages)}
        lost = {str(loss.location): loss.kind for loss in adapted.losses}
        stripped = {str(loss.location) for loss in adapted.losses if loss.kind == "foreign-token"}
        for place, block, message in turns(said):
            assert id(block) in kept or place in lost or _bare(block, adapted), (named, place, block)
            foreign = not issued_by(message.origin, to)
            assert (place in stripped) is (foreign and block.meta is not None), (named, place)
            assert not foreign or not any(token in body for token in tokens(block)), (named, place)
        assert {*lost.values()} <= LOSS_EFFECTS.keys()
        again = adapt(adapted.messages, to)
        assert again.messages is adapted.messages
        assert again.losses == ()


def _bare(block, adapted) -> bool:
    """Tell whether a block went on with nothing taken off but what says nothing: an empty list, an id of its own."""
    texts = [new for _, new, _ in turns(adapted.messages) if type(new) is type(block)]
    names = ("text", "args", "data", "code", "output")
    said = [(name, getattr(block, name)) for name in names if hasattr(block, name)]
    return any([(name, getattr(new, name)) for name in names if hasattr(new, name)] == said for new in texts)


@pytest.mark.parametrize("home", EVERYBODY)
def test_its_own_conversation_passes_as_it_is(home):
    """Nothing is foreign: the very same messages, and every token is in the body."""
    said, to = conversation(home), target(home)
    adapted = adapt(said, to)
    body = accepted(said, to).body.decode()

    assert adapted.messages is said
    assert adapted.losses == ()
    assert all(token in body for _, block, _ in turns(said) for token in tokens(block))


BOUND = ("anthropic/claude-opus-5-5", "anthropic/claude-sonnet-4-5", "openai/gpt-5.2", "gemini/gemini-3.5-flash")
"""Models that look at more than a style does."""
BACK = (Think("Now I."), Say("Rain, says another."), CallTool("weather", {"city": "Oslo"}))


@pytest.mark.parametrize("home", (*STYLES, *BOUND))
def test_there_and_back_finds_everything_in_place(home):
    """Up to the other's first turn, what goes out is byte for byte what went out before; it is accepted as its own."""
    said, to = conversation(home), target(home)
    before, verdict = taken(said, to)
    held = HOLDERS[to.dialect]
    opening = bytes(jsonio.members(before.body)[held])[:-1]
    signed = [token for _, block, _ in turns(said) for token in tokens(block) if token in before.body.decode()]
    tried = {*verdict.exercised} & SIGNED
    for named in STYLES:
        other = target(named)
        if issued_by(said[1].origin, other):
            continue
        onward = answered(said, reply(said, other, BACK))
        after, verdict = taken(onward, to)
        assert bytes(jsonio.members(after.body)[held]).startswith(opening), named
        assert all(token in after.body.decode() for token in signed), named
        assert {*verdict.exercised} >= tried, named


def test_rules_of_replay_are_put_to_the_test():
    """The tokens above are really looked at: by each dialect, and by the chat providers that want them back."""
    tried = set()
    for named in EVERYBODY:
        tried |= {*taken(conversation(named), target(named))[1].exercised} & SIGNED
    assert tried == SIGNED


@pytest.mark.parametrize("home", ["anthropic", "anthropic/claude-opus-4-6"])
def test_a_paused_turn_is_handed_over(home):
    """The one who paused it goes on with it; nobody else is asked to."""
    for named in EVERYBODY:
        accepted(paused(home), target(named))
        accepted((*paused(home), UserMessage("And now?")), target(named))


@pytest.mark.parametrize("home", EVERYBODY)
def test_any_one_block_may_be_left_out(home):
    """Of one's own conversation, block by block: it is accepted, and the loss is in its place."""
    said, to = conversation(home), target(home)
    for at, message in enumerate(said):
        for place in range(len(message.blocks) if isinstance(message, AssistantMessage) else 0):
            wire = accepted(said, to, omit_blocks=((at, place),))
            told = {str(loss.location) for loss in wire.losses if loss.kind in ("left-out", "stale-prefix")}
            assert f"messages[{at}].blocks[{place}]" in told, (at, place)


def test_a_conversation_through_all_hands():
    """Each turn by another provider, with calls under way: everybody takes what all the others said."""
    said = (UserMessage("What is the weather like in Oslo?"),)
    for at, named in enumerate(STYLES):
        said = answered(said, reply(said, target(named), TURNS[at % 2]))
    assert sum(isinstance(message, ToolResults) for message in said) == len(STYLES)
    for named in EVERYBODY:
        accepted(said, target(named))
