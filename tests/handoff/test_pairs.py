"""Handovers between all pairs of providers and back, with signed tokens."""

from __future__ import annotations

import json

import pytest

from handoff.conversations import TURNS, continue_conversation, conversation, paused_conversation, reply
from handoff.targets import MODELS, SIM_PROVIDERS, accept, accept_and_judge, target
from tenuto.core import jsonio
from tenuto.core.messages import AssistantMessage, ToolResults, UserMessage
from tenuto.sim.script import CallTool, Say, Think
from tenuto.wire.adapt import adapt
from tenuto.wire.token_scope import issued_by
from tenuto.wire.translate import LOSS_EFFECTS

EVERYBODY = (*SIM_PROVIDERS, *MODELS)
HEADS = ("anthropic", "openai", "gemini", "chat", "openrouter")
"""One provider for each form of token: their conversations are handed over to the models, too."""
HOLDERS = {
    "anthropic-messages": "messages",
    "openai-responses": "input",
    "openai-chat": "messages",
    "gemini": "contents",
}
FIELDS = ("signature", "data", "encrypted_content", "thought_signature")
SIGNED = {"ANT-THINK-02", "OAR-REAS-05", "OAR-REAS-03", "GEM-SIG-02", "GEM-SIG-01", "OAC-DS-01", "OAC-KIMI-01", "OAC-OR-04"}  # fmt: skip
"""Rules that check tokens."""


def turns(transcript):
    """Yield each block of the assistant with its location."""
    for at, message in enumerate(transcript):
        for location, block in enumerate(message.blocks if isinstance(message, AssistantMessage) else ()):
            yield f"messages[{at}].blocks[{location}]", block, message


def tokens(block) -> list[str]:
    """Return the tokens of a block."""
    found = [value for name in FIELDS if (value := getattr(block.meta, name, None))]
    details = json.loads(getattr(block.meta, "details", "") or "[]")
    return found + [token for one in details for name in ("signature", "data") if (token := one.get(name))]


@pytest.mark.parametrize("home", SIM_PROVIDERS)
def test_every_block_is_handed_over_or_a_loss(home):
    """Each block and each token is in the adapted transcript, or a loss has its location."""
    messages = conversation(home)
    for named in EVERYBODY if home in HEADS else SIM_PROVIDERS:
        to = target(named)
        wire = accept(messages, to)
        adapted = adapt(messages, to)
        body = wire.body.decode()
        adapted_blocks = {id(block) for _, block, _ in turns(adapted.messages)}
        lost = {str(loss.location): loss.kind for loss in adapted.losses}
        stripped = {str(loss.location) for loss in adapted.losses if loss.kind == "foreign-token"}
        for location, block, message in turns(messages):
            assert id(block) in adapted_blocks or location in lost or _is_rebuilt(block, adapted), (
                named,
                location,
                block,
            )
            foreign = not issued_by(message.origin, to)
            assert (location in stripped) is (foreign and block.meta is not None), (named, location)
            assert not foreign or not any(token in body for token in tokens(block)), (named, location)
        assert {*lost.values()} <= LOSS_EFFECTS.keys()
        again = adapt(adapted.messages, to)
        assert again.messages is adapted.messages
        assert again.losses == ()


def _is_rebuilt(block, adapted) -> bool:
    """Return whether an adapted block has the same content; its id and empty lists may differ."""
    texts = [new for _, new, _ in turns(adapted.messages) if type(new) is type(block)]
    names = ("text", "args", "data", "code", "output")
    content = [(name, getattr(block, name)) for name in names if hasattr(block, name)]
    return any([(name, getattr(new, name)) for name in names if hasattr(new, name)] == content for new in texts)


@pytest.mark.parametrize("home", EVERYBODY)
def test_own_conversation_is_sent_unchanged(home):
    """Nothing is foreign: the messages are the same object, and every token is in the body."""
    messages, to = conversation(home), target(home)
    adapted = adapt(messages, to)
    body = accept(messages, to).body.decode()

    assert adapted.messages is messages
    assert adapted.losses == ()
    assert all(token in body for _, block, _ in turns(messages) for token in tokens(block))


BOUND = ("anthropic/claude-opus-5-5", "anthropic/claude-sonnet-4-5", "openai/gpt-5.2", "gemini/gemini-3.5-flash")
"""Models with stricter rules than their simulated provider."""
BACK = (Think("Now I."), Say("Rain, says another."), CallTool("weather", {"city": "Oslo"}))


@pytest.mark.parametrize("home", (*SIM_PROVIDERS, *BOUND))
def test_handover_and_return_restores_the_conversation(home):
    """The body has the same bytes up to the other provider's first turn, and its own tokens are accepted."""
    messages, to = conversation(home), target(home)
    before, verdict = accept_and_judge(messages, to)
    member = HOLDERS[to.dialect]
    opening = bytes(jsonio.members(before.body)[member])[:-1]
    signed = [token for _, block, _ in turns(messages) for token in tokens(block) if token in before.body.decode()]
    tried = {*verdict.exercised} & SIGNED
    for named in SIM_PROVIDERS:
        other = target(named)
        if issued_by(messages[1].origin, other):
            continue
        onward = continue_conversation(messages, reply(messages, other, BACK))
        after, verdict = accept_and_judge(onward, to)
        assert bytes(jsonio.members(after.body)[member]).startswith(opening), named
        assert all(token in after.body.decode() for token in signed), named
        assert {*verdict.exercised} >= tried, named


def test_conversations_exercise_all_token_rules():
    """In each dialect, and for the chat providers that require reasoning in later requests."""
    tried = set()
    for named in EVERYBODY:
        tried |= {*accept_and_judge(conversation(named), target(named))[1].exercised} & SIGNED
    assert tried == SIGNED


@pytest.mark.parametrize("home", ["anthropic", "anthropic/claude-opus-4-6"])
def test_paused_turn_is_handed_over(home):
    """Only the provider that paused it continues the turn."""
    for named in EVERYBODY:
        accept(paused_conversation(home), target(named))
        accept((*paused_conversation(home), UserMessage("And now?")), target(named))


@pytest.mark.parametrize("home", EVERYBODY)
def test_any_block_of_own_conversation_can_be_omitted(home):
    """The request is accepted, and the loss has the location of the block."""
    messages, to = conversation(home), target(home)
    for at, message in enumerate(messages):
        for location in range(len(message.blocks) if isinstance(message, AssistantMessage) else 0):
            wire = accept(messages, to, omit_blocks=((at, location),))
            lost = {str(loss.location) for loss in wire.losses if loss.kind in ("left-out", "stale-prefix")}
            assert f"messages[{at}].blocks[{location}]" in lost, (at, location)


def test_conversation_with_all_providers_is_accepted_by_all():
    """Each turn is from another provider, with open calls."""
    messages = (UserMessage("What is the weather like in Oslo?"),)
    for at, named in enumerate(SIM_PROVIDERS):
        messages = continue_conversation(messages, reply(messages, target(named), TURNS[at % 2]))
    assert sum(isinstance(message, ToolResults) for message in messages) == len(SIM_PROVIDERS)
    for named in EVERYBODY:
        accept(messages, target(named))
