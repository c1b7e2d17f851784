"""The checks of one exchange on its own. Each returns the faults it found."""

from __future__ import annotations

import dataclasses
from typing import Any

from conformance import stream_variants
from conformance.corpus import READERS, Exchange
from conformance.events import event_faults
from conformance.jsontext import ABSENT, Number, load, plain, pruned
from conformance.neutral_ours import neutral_message
from conformance.neutral_wire import neutral_blocks
from conformance.oracle import block_faults, coalesce, faults, shown
from conformance.reply_values import Answer, Read
from conformance.subject import Outcome, decode_pieces, requested_model, store_and_load, verbatim
from tenuto.core.response import ChatResponse

__all__ = ["Judged", "decoded", "difference", "rechunked", "stored", "streamed", "whole"]


@dataclasses.dataclass
class Judged:
    """The result of one check.

    `faults` fail it. `excluded` names the rule that excludes the case. `contradicted` says how the oracle differs from
    the bytes.
    """

    faults: list[str] = dataclasses.field(default_factory=list)
    excluded: str = ""
    contradicted: str = ""

    @property
    def passed(self) -> bool:
        """Whether the check was made and found no fault."""
        return not (self.faults or self.excluded)

    def settle(self, fault: str, *, bytes_agree: bool) -> None:
        """Record that we differ from the oracle: a fault, unless the bytes agree with us."""
        if bytes_agree:
            self.contradicted = fault
        else:
            self.faults.append(fault)


def difference(want: Any, have: Any, path: str = "") -> str:
    """Name the first path at which two JSON values differ, literals included; empty if they are equal."""
    if isinstance(want, dict) and isinstance(have, dict):
        for name in {**want, **have}:
            if found := difference(want.get(name, ABSENT), have.get(name, ABSENT), f"{path}.{name}"):
                return found
        return ""
    if isinstance(want, list) and isinstance(have, list):
        if len(want) != len(have):
            return f"{path or '.'}: {len(want)} elements expected, {len(have)} found"
        pairs = enumerate(zip(want, have, strict=True))
        return next((found for at, (w, h) in pairs if (found := difference(w, h, f"{path}[{at}]"))), "")
    if type(want) is type(have) and want == have:
        return ""
    return f"{path or '.'}: {shown(want)} expected, {shown(have)} found"


# --- decoded ----------------------------------------------------------------------------------------------------------


def decoded(exchange: Exchange, outcome: Outcome) -> Judged:
    """Blocks and their order, arguments, tokens, the raw stop reason and the raw usage equal the oracle's."""
    expected = exchange.expected
    judged = Judged()
    response = outcome.reply
    judged.faults += _error(exchange.read.error, outcome)
    answers = [neutral_message(exchange.dialect, choice.message) for choice in response.choices] if response else []
    choices = expected.get("choices") or [expected["blocks"]]
    answers = answers or [[]]
    if len(choices) != len(answers):
        fault = f"{len(choices)} choices expected, {len(answers)} found"
        judged.settle(fault, bytes_agree=len(exchange.read.answers) == len(answers))
    for at, (want, have) in enumerate(zip(choices, answers, strict=False)):
        if outcome.error is not None:  # the partial reply has no unconfirmed tokens
            want, have = _untokened(want), _untokened(have)
        _blocks(exchange, at, want, have, judged)
    if outcome.error is None or (response and response.choices and response.choices[0].message.raw_stop_reason):
        _stop(expected, exchange.read, response, judged)  # an error that was raised replaces the stop reason
    _usage(expected, exchange.read, response, judged)
    return judged


def _error(given: Any, outcome: Outcome) -> list[str]:
    """An error in the bytes is raised with the provider's text; no other error is."""
    error = outcome.error
    if given is None:
        return [f"raised {type(error).__name__}: {shown(str(error), 160)}"] if error is not None else []
    message = given.get("message") if isinstance(given, dict) else given
    if error is None or str(message) not in str(error):
        return [f"the bytes say {shown(message)}, and {shown(error)} was raised"]
    return []


def _untokened(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in block.items() if k not in ("signature", "field", "details")} for block in blocks]


def _blocks(exchange: Exchange, at: int, want: list[Any], have: list[Any], judged: Judged) -> None:
    """Compare one choice with the oracle; where the oracle and the bytes differ, the bytes decide.

    If the bytes contain two forms of a block, both are accepted.
    """
    if exchange.dialect == "gemini":
        have = coalesce(have)
    forms = [_read_blocks(exchange, at, other=other) for other in (False, True)]
    if odd := _order(forms[0], have):
        judged.faults.append(odd)
        return
    if not (found := faults(want, have)):
        return
    if len(want) != len(have) or not all(len(form) == len(want) for form in forms):
        judged.settle(found[0], bytes_agree=pruned(plain(have)) in map(pruned, forms))
        return
    for index, (expected_block, block) in enumerate(zip(want, have, strict=True)):
        if not (odd := block_faults(expected_block, block)):
            continue
        both = [form[index] for form in forms]
        if not any(pruned(plain(block)) == pruned(one) for one in both):
            judged.faults += [f"blocks[{index}].{fault}" for fault in odd]
        elif all(block_faults(expected_block, one) for one in both):
            judged.contradicted = f"blocks[{index}].{odd[0]}"


def _order(read: list[dict[str, Any]], have: list[dict[str, Any]]) -> str:
    """Return how the order of our blocks differs from the byte order, if they are otherwise the same."""
    want, actual = [block["type"] for block in read], [block["type"] for block in have]
    return (
        f"blocks: {want} in the order of the bytes, {actual} found"
        if want != actual and sorted(want) == sorted(actual)
        else ""
    )


def _read_blocks(exchange: Exchange, at: int, *, other: bool) -> list[dict[str, Any]]:
    """Return the neutral blocks of one choice in the order of the bytes, with the `other` form where there is one."""
    read = exchange.read
    answer = read.answers[at] if at < len(read.answers) else Answer()
    blocks = answer.blocks
    if other:
        blocks = [read.variants.get(index, block) for index, block in enumerate(blocks)]
    found = neutral_blocks(exchange.dialect, blocks, answer.order)
    return coalesce(found) if exchange.dialect == "gemini" else found


def _stop(expected: dict[str, Any], read: Read, response: ChatResponse | None, judged: Judged) -> None:
    want, spelt = (str(value) if value not in (None, "") else None for value in (expected.get("stop"), read.first.stop))
    have = (response.choices[0].message.raw_stop_reason if response and response.choices else None) or None
    if want != have:
        fault = f"stop: {want!r} expected, {have!r} found"
        judged.settle(fault, bytes_agree=spelt == have)


def _usage(expected: dict[str, Any], read: Read, response: ChatResponse | None, judged: Judged) -> None:
    have = load(response.raw_usage) if response and response.raw_usage else None
    want = expected.get("usage")
    if odd := difference(pruned(read.usage or {}), pruned(have or {})):
        judged.faults.append(f"text of usage: {odd}")
    elif pruned(plain(have) or {}) != pruned(want or {}):
        judged.contradicted = f"usage: {difference(pruned(want), pruned(plain(have)))}"


# --- streamed, rechunked ----------------------------------------------------------------------------------------------


def streamed(exchange: Exchange, outcome: Outcome) -> Judged:
    """The deltas of each block, joined, equal the block, or the recorded deltas where these differ from it."""
    broken = outcome.error is not None
    return Judged(event_faults(outcome.events, outcome.reply, broken=broken, torn=exchange.read.torn))


def rechunked(exchange: Exchange, outcome: Outcome, target: Any) -> Judged:
    """Chunk boundaries, line ends and comments make no difference."""
    judged = Judged()
    for name, pieces in stream_variants.variants(exchange.body, exchange.transport):
        again = decode_pieces(exchange, target, pieces)
        if again.sign != outcome.sign:
            judged.faults.append(f"{name}: {_odd(outcome, again)}")
    return judged


def _odd(outcome: Outcome, again: Outcome) -> str:
    for name, was, now in zip(("response", "error", "message", "partial"), outcome.sign, again.sign, strict=True):
        if was != now:
            return f"{name}: {shown(was, 120)} became {shown(now, 120)}"
    return ""


# --- stored, whole ----------------------------------------------------------------------------------------------------


def stored(exchange: Exchange, outcome: Outcome) -> Judged:
    """A response survives storing, and its blocks written back equal those in the bytes."""
    response, judged = outcome.reply, Judged()
    if response is None:
        return judged
    again = store_and_load(response)
    if again != response:
        judged.faults.append(f"stored and loaded: {shown(response, 120)} became {shown(again, 120)}")
    if outcome.error is not None:
        return judged  # the partial reply has no unconfirmed tokens
    if len(again.choices) != max(len(exchange.read.answers), 1) and exchange.read.answers:
        judged.faults.append(f"{len(exchange.read.answers)} choices in the bytes, {len(again.choices)} kept")
    for choice, answer in zip(again.choices, exchange.read.answers, strict=False):
        have = normal(exchange, verbatim(exchange.dialect, choice.message))
        want = normal(exchange, answer.blocks)
        if odd := difference(want, have):
            judged.faults.append(f"choices[{choice.index}].blocks{odd}")
    return judged


def normal(exchange: Exchange, blocks: list[Any]) -> list[Any]:
    """Bring wire blocks into the one form in which pieces of a stream are joined."""
    found: list[Any] = READERS[exchange.dialect].normal(blocks, streamed=exchange.streamed)
    return found


def whole(exchange: Exchange, outcome: Outcome) -> Judged:
    """Every field next to the blocks is stored: typed, or in an `extra`."""
    response, read, judged = outcome.reply, exchange.read, Judged()
    if response is None or outcome.error is not None:
        return judged
    reader = READERS[exchange.dialect]
    if (response.id or None) not in (read.ids or [None]):
        judged.faults.append(f"id: one of {read.ids} expected, {response.id!r} found")
    if (response.model or None) not in (read.models or [None, requested_model(exchange)]):
        judged.faults.append(f"model: one of {read.models} expected, {response.model!r} found")
    answers = read.answers or [Answer()]
    for at, (choice, answer) in enumerate(zip(response.choices, answers, strict=False)):
        other_fields = {} if at else load(response.extra or "{}")
        have = {**other_fields, **load(choice.extra or "{}")}
        if exchange.dialect != "openai-chat":  # there, the message's own fields are part of what `stored` compares
            have |= load(choice.message.extra or "{}")
        want = {**({} if at else read.fields), **answer.fields}
        judged.faults += _fields(reader.IMPLIED, want, have, choice.index)
    return judged


def _fields(implied: dict[str, Any], want: dict[str, Any], have: dict[str, Any], index: int) -> list[str]:
    found = []
    for name in {**want, **have}:
        expected_value, had = want.get(name, ABSENT), have.get(name, ABSENT)
        if had is ABSENT and (
            expected_value in implied.get(name, ()) or (name == "index" and expected_value == Number(index))
        ):
            continue
        if odd := difference(expected_value, had, name):
            found.append(odd)
    return found
