"""Reasoning that is sent back: whole, unaltered, in its place, and to whoever gave it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from tenuto.audit.anthropic_body import (
    THOUGHTS,
    Place,
    Turn,
    mode,
    natively,
    places,
    said,
    setting,
    started,
    text_of,
    turns,
)
from tenuto.audit.anthropic_given import (
    Gave,
    Token,
    broken_in,
    given_thoughts,
    lined,
    model_of,
    own,
    row_of,
    token_of,
)
from tenuto.audit.looking import Broken, Checks, Sent, once
from tenuto.audit.scope import of_each
from tenuto.core import jsonio
from tenuto.core.blocks import Reasoning
from tenuto.core.messages import Origin
from tenuto.wire.prefix_binding import stale_thoughts

__all__ = ["CHECKS"]

CHECKS = Checks()

_TAGS = ("<thinking>", "<think>")
_UNREAD = (
    ("*", "claude-haiku-5-5*"),
    ("claude-fable-5-[12]*", "claude-opus-5*"),
    ("claude-mythos-5-[12]*", "claude-opus-5*"),
)
"""Whose thoughts (first) are not read by whom (second), as far as that is documented."""


# --- seen in the body alone -------------------------------------------------------------------------------------------


@CHECKS.holds("ANT-THINK-01")
@natively
def signed(sent: Sent) -> Iterator[Broken]:
    """A thought has its signature."""
    for place in places(sent, "thinking"):
        if place.block.get("signature") is None:
            yield Broken("ANT-THINK-01", place.fields)


@CHECKS.holds("ANT-THINK-03")
@natively
def worded(sent: Sent) -> Iterator[Broken]:
    """A thought has its text, and be it empty."""
    for place in places(sent, "thinking"):
        if place.block.get("thinking") is None:
            yield Broken("ANT-THINK-03", place.fields)


@CHECKS.holds("ANT-THINK-05")
@natively
def calls_begin_with_a_thought(sent: Sent) -> Iterator[Broken]:
    """With a budget, a run of calls that is being answered began with a thought, unless it was given without."""
    modes = sent.target.traits.thinking
    first = _run(turns(sent)) if mode(sent) == "enabled" and (not modes or "budget" in modes) else None
    if first is None or first.parts[0].kind in THOUGHTS or _given_so(sent, first):
        return
    start = first.parts[0]
    yield Broken("ANT-THINK-05", {"i": start.i, "type": start.kind}, at=start.pointer)


@CHECKS.holds("ANT-THINK-06")
@natively
def no_thought_where_none_is_asked_for(sent: Sent) -> Iterator[Broken]:
    """With thinking off, the conversation does not end with a thought in the assistant's mouth."""
    off = mode(sent) == "disabled" or (not mode(sent) and sent.target.traits.thinking_default == "no")
    last = next(reversed(said(sent)), None)
    if not off or last is None or last.role != "assistant":
        return
    thought = next((part for part in turns(sent)[-1].parts if part.kind in THOUGHTS), None)
    if thought is not None:
        yield Broken("ANT-THINK-06", thought.fields)


@CHECKS.holds("ANT-THINK-07")
@natively
def no_thought_at_the_end(sent: Sent) -> Iterator[Broken]:
    """No turn ends with a thought."""
    for turn in turns(sent):
        if turn.role == "assistant" and turn.parts and turn.parts[-1].kind == "thinking":
            yield Broken("ANT-THINK-07", {"i": turn.parts[-1].i}, at=turn.parts[-1].pointer)


@CHECKS.holds("ANT-THINK-17")
@natively
def no_thoughts_said_aloud(sent: Sent) -> Iterator[Broken]:
    """No text of the assistant's is a thought in tags."""
    for place in places(sent, "text"):
        if text_of(place.block, "text").lstrip().startswith(_TAGS):
            yield Broken("ANT-THINK-17", place.fields)


@CHECKS.holds("ANT-THINK-19")
def every_answer_with_its_thought(sent: Sent) -> Iterator[Broken]:
    """Where the model thinks, no answer of the assistant's comes back without a thought."""
    if mode(sent) == "disabled" or sent.target.traits.thinking_default == "no":
        return
    for turn in turns(sent):
        if turn.role == "assistant" and turn.parts and not _has_thoughts(turn):
            yield Broken("ANT-THINK-19", {"i": turn.parts[0].i})


def _has_thoughts(turn: Turn) -> bool:
    return any(part.kind in THOUGHTS for part in turn.parts)


def _run(spoken: list[Turn]) -> Turn | None:
    """Return the turn with which the calls began that are being answered; None if none are."""
    first = None
    for at in range(len(spoken) - 1, 0, -2):
        results, calls = spoken[at], spoken[at - 1]
        if not results.results or not calls.parts:
            break
        if first is not None and started(results):
            break
        first = calls
    return first


def _given_so(sent: Sent, turn: Turn) -> bool:
    """Tell whether a turn was given with its thoughts elsewhere than at its start."""
    for line in lined(sent):
        if line.turn.parts and line.turn.parts[0].pointer == turn.parts[0].pointer and line.replies:
            held = sent.given[line.replies[0]].blocks
            return any(isinstance(block, Reasoning) for block in held[1:]) and not isinstance(held[0], Reasoning)
    return False


# --- compared with what was given -------------------------------------------------------------------------------------


@CHECKS.holds("ANT-THINK-02")
@natively
def signatures(sent: Sent) -> Iterator[Broken]:
    """A signature was given here, for this text."""
    for place, gave in _thoughts(sent):
        signature = place.block.get("signature")
        if place.kind != "thinking" or not isinstance(signature, str):
            continue
        if gave is None and signature and not sent.given:
            continue
        if gave is None or (_not_this(sent, place, gave) and _here(sent, gave)):
            yield Broken("ANT-THINK-02", place.fields)


@CHECKS.holds("ANT-THINK-04")
@natively
def latest_thoughts(sent: Sent) -> Iterator[Broken]:
    """In the latest turn, thoughts are what they were and stand where they stood. Of bound ones, the binding says where."""
    lines = lined(sent) if sent.given else []
    if not lines:
        return
    known = given_thoughts(sent)
    moved = {broke.place.pointer for broke in broken_in(sent, lines[-1])[0]}
    for place in lines[-1].turn.parts:
        gave = _gave(known, place)
        if gave is None or not _here(sent, gave):
            continue
        binding = sent.target.traits.prefix_bound and own(sent, gave.reply)
        if _reworded(place, gave) or (place.pointer in moved and not binding):
            yield Broken("ANT-THINK-04", place.fields)


@CHECKS.holds("ANT-THINK-13")
@natively
def platforms(sent: Sent) -> Iterator[Broken]:
    """A thought goes back to the platform that signed it."""
    for place, gave in _thoughts(sent):
        if gave is not None and not _here(sent, gave):
            yield Broken("ANT-THINK-13", place.fields)


@CHECKS.holds("ANT-THINK-14")
@natively
def hidden(sent: Sent) -> Iterator[Broken]:
    """Hidden reasoning has its data, as given."""
    known = given_thoughts(sent)
    for place in places(sent, "redacted_thinking"):
        data = place.block.get("data")
        if data is None or (sent.given and isinstance(data, str) and ("redacted_thinking", data) not in known):
            yield Broken("ANT-THINK-14", place.fields, variant=int(data is not None))


@CHECKS.holds("ANT-THINK-15")
@natively
def left_out(sent: Sent) -> Iterator[Broken]:
    """A turn comes back with its reasoning."""
    for line in lined(sent) if sent.given else ():
        if _has_thoughts(line.turn):
            continue
        given = [sent.given[at] for at in line.replies if own(sent, at)]
        if any(isinstance(block, Reasoning) and block.meta for message in given for block in message.blocks):
            yield Broken("ANT-THINK-15", {"i": line.turn.parts[0].i})


@CHECKS.holds("ANT-THINK-16")
@natively
def one_thought_one_signature(sent: Sent) -> Iterator[Broken]:
    """No thought was made of two, and none was cut in two."""
    for place, gave in _thoughts(sent):
        if gave is None or not _reworded(place, gave) or _is_latest(sent, place):
            continue
        if _regrouped(sent, place, gave) and _here(sent, gave):
            yield Broken("ANT-THINK-16", place.fields)


def _gave(known: dict[Token, Gave], place: Place) -> Gave | None:
    token = token_of(place)
    return known.get(token) if token is not None else None


@once
def _thoughts(sent: Sent) -> list[tuple[Place, Gave | None]]:
    """Return the thoughts in the body, each with the one that was given with its token."""
    known = given_thoughts(sent)
    return [(place, _gave(known, place)) for place in places(sent, *THOUGHTS)]


@once
def _latest(sent: Sent) -> set[str]:
    turn = next((turn for turn in reversed(turns(sent)) if turn.role == "assistant"), None)
    return {part.pointer for part in turn.parts} if turn is not None else set()


def _is_latest(sent: Sent, place: Place) -> bool:
    """Tell whether a block stands in the latest turn of the assistant's."""
    return place.pointer in _latest(sent)


def _here(sent: Sent, gave: Gave) -> bool:
    """Tell whether it was this platform that gave it, as far as anyone knows."""
    return not _hosted_elsewhere(sent)[gave.reply]


@once
def _hosted_elsewhere(sent: Sent) -> list[bool]:
    """Tell of each reply whether it is known that another platform gave it."""
    known = ("", sent.row, sent.target.provider.name)

    def strange(origin: Origin) -> bool:
        hosts = {origin.platform, sent.target.platform} - {""}
        return row_of(sent, origin) not in known or len(hosts) > 1

    return of_each(sent, strange)


def _not_this(sent: Sent, place: Place, gave: Gave) -> bool:
    """Tell whether a signature was given to another account (which only spoils bound thoughts), or for another text."""
    if _elsewhere(sent, gave) and not sent.target.traits.prefix_bound:
        return True
    return _reworded(place, gave) and not _is_latest(sent, place) and not _regrouped(sent, place, gave)


def _elsewhere(sent: Sent, gave: Gave) -> bool:
    origin, account = gave.message.origin, sent.target.account
    return origin is not None and bool(origin.account and account) and origin.account != account


def _reworded(place: Place, gave: Gave) -> bool:
    text = place.block.get("thinking")
    return text != gave.block.text and isinstance(text, str) and place.kind == "thinking"


@once
def _often(sent: Sent) -> Counter[Token]:
    """Count how often each signature stands in the body."""
    return Counter(token for place in places(sent, "thinking") if (token := token_of(place)))


def _regrouped(sent: Sent, place: Place, gave: Gave) -> bool:
    """Tell whether the text holds another thought of its reply beside its own, or is one of several pieces of its own."""
    text, token = text_of(place.block, "thinking"), token_of(place)
    others = [block.text for block in gave.message.blocks if isinstance(block, Reasoning) and block is not gave.block]
    if gave.block.text in text and any(other and other in text for other in others):
        return True
    return token is not None and _often(sent)[token] > 1 and text in gave.block.text


# --- bound to what stood before ---------------------------------------------------------------------------------------


@CHECKS.holds("ANT-THINK-08")
@natively
def bound(sent: Sent) -> Iterator[Broken]:
    """What stood before a bound thought still stands there."""
    if not _drops(sent):
        yield from (Broken("ANT-THINK-08", place.fields) for place, gone in _unbound(sent) if not gone)


@CHECKS.holds("ANT-THINK-09")
@natively
def all_or_none(sent: Sent) -> Iterator[Broken]:
    """Of several bound thoughts in a turn, all are there or none."""
    if not _drops(sent):
        yield from (Broken("ANT-THINK-09", place.fields) for place, gone in _unbound(sent) if gone)


@CHECKS.holds("ANT-THINK-12")
@natively
def dropped(sent: Sent) -> Iterator[Broken]:
    """A bound thought behind something that changed is dropped, where that was asked for."""
    if _drops(sent):
        yield from (Broken("ANT-THINK-12", place.fields) for place, _ in _unbound(sent))


@CHECKS.holds("ANT-THINK-10")
@natively
def readers(sent: Sent) -> Iterator[Broken]:
    """The thought is one that this model can read."""
    unread = [by for by, to in _UNREAD if fnmatchcase(sent.model, to)]
    for place, gave in _thoughts(sent) if unread else ():
        if gave is None or own(sent, gave.reply) or not _here(sent, gave):
            continue
        if any(fnmatchcase(model_of(gave.message), by) for by in unread):
            yield Broken("ANT-THINK-10", place.fields)


@CHECKS.holds("ANT-THINK-11")
@natively
def accounts(sent: Sent) -> Iterator[Broken]:
    """A bound thought goes back to the account it was given to."""
    for place, gave in _thoughts(sent) if sent.target.traits.prefix_bound else ():
        if gave is not None and _here(sent, gave) and _elsewhere(sent, gave):
            yield Broken("ANT-THINK-11", place.fields)


def _drops(sent: Sent) -> bool:
    binding = setting(sent, "thinking").get("block_binding")
    return text_of(binding, "prefix_mismatch_behavior") == "drop_block"


@once
def _unbound(sent: Sent) -> list[tuple[Place, bool]]:
    """Return the bound thoughts behind something that changed, and whether it is a thought of their turn that is gone.

    What a reply was bound to is known by its digest, where it has one. Elsewhere the target's earlier replies tell: one
    that is still there, and not as it was given, changed what stood before all later ones.
    """
    if not sent.target.traits.prefix_bound or not sent.given:
        return []
    known, gone_stale = given_thoughts(sent), _stale(sent)
    found, changed = [], False
    for line in lined(sent):
        broken, whole = broken_in(sent, line)
        inside = {broke.place.pointer: broke.gone for broke in broken}
        for place in line.turn.parts:
            gave = _gave(known, place)
            if gave is None or not own(sent, gave.reply):
                continue
            digest = gave.message.origin.prefix if gave.message.origin else ""
            behind = gave.reply in gone_stale if digest else changed
            if behind or place.pointer in inside:
                found.append((place, not behind and inside[place.pointer]))
        ours = bool(line.replies) and all(own(sent, at) and not sent.given[at].incomplete for at in line.replies)
        changed = changed or (ours and not whole)
    return found


def _stale(sent: Sent) -> set[int]:
    """Return the replies whose digest says that something else stood before them."""
    held = sent.body.get("messages")
    if not any(message.origin is not None and message.origin.prefix for message in sent.given):
        return set()
    if not isinstance(held, list) or not all(isinstance(message, dict) for message in held):
        return set()
    try:
        return {at for at, _ in stale_thoughts(sent.given, jsonio.encode(sent.body), sent.target)}
    except jsonio.JsonError:
        return set()
