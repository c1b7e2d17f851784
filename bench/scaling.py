"""How the cost grows with the input: CPU per byte of an input 100 times as long, divided by that of the short one.

The other side processes 100 short inputs, each its own objects, and keeps every result: so both sides do the same work in
the same amount of memory, and the ratio is 1 if the cost is linear. The garbage collector is off, as in `timeit`: it visits
the objects of a long input several times and those of a short one hardly ever, which is its cost and not that of the code
under test. With it, encoding 12,000 calls takes up to 1.6 times as long per byte as encoding 120. Every result is checked
before it is timed: calls, messages and fields are counted.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bench.decoding import LINEAR
from bench.floors import READ
from bench.results import Board, Result, judged
from bench.streams import CALL_MAKERS, DIALECTS, anthropic_with_fields, chat_with_lists, responses_calls
from bench.turns import cpu, in_turns
from tenuto.core.events import MessageDone
from tenuto.core.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.wire.registry import codec_for
from tenuto.wire.write import write_request

TIMES = 100
"""The long input has so many times the frames, messages or calls of a short one."""
UNIT = "ns CPU per byte"
OPEN_CALLS = "Transcript.open_calls"
RUN = "scaling"
"""A run of its own: these rows can be measured and written without the others."""
_SHORT = 0.1
"""Seconds: the least of five counts where an input takes less."""


class Input(NamedTuple):
    """What is processed, its size in bytes, and the function that takes it."""

    act: Callable[[], object]
    size: int


def _target(dialect: str) -> Target:
    return Target(Provider("bench", dialect, ""), "m", dialect)


def _decode(dialect: str, body: bytes) -> ChatResponse:
    decoder = codec_for(dialect).decoder(_target(dialect))
    for at in range(0, len(body), READ):
        decoder.feed(body[at : at + READ])
    last = decoder.finish()[-1]
    assert isinstance(last, MessageDone)
    return last.response


def _encode(dialect: str, messages: tuple[Message, ...]) -> bytes:
    return write_request(ChatRequest(model="m", messages=messages), _target(dialect)).body


def _expect(what: str, found: int, count: int) -> None:
    if found != count:
        raise SystemExit(f"{what}: {found} of {count}")


# --- the inputs -------------------------------------------------------------------------------------------------------


def unknown_lists(count: int) -> Input:
    """A chat stream whose deltas each bring one element of an indexed list that no version knows."""
    body = chat_with_lists(count)
    kept = json.loads(_decode("openai-chat", body).message.extra)["zz"]
    _expect("elements kept", len(kept), count)
    return Input(partial(_decode, "openai-chat", body), len(body))


def unknown_fields(count: int) -> Input:
    """An Anthropic stream whose deltas each bring a field of a new name."""
    body = anthropic_with_fields(count)
    kept = json.loads(_decode("anthropic-messages", body).message.blocks[0].extra)
    _expect("fields kept", len(kept), count)
    return Input(partial(_decode, "anthropic-messages", body), len(body))


def same_role(dialect: str, count: int) -> Input:
    """A request with so many user messages in a row."""
    messages = tuple(UserMessage(f"message {at} of the user") for at in range(count))
    body = _encode(dialect, messages)
    _expect(f"{dialect}: messages sent", body.count(b" of the user"), count)
    return Input(partial(_encode, dialect, messages), len(body))


def decoded_calls(dialect: str, count: int, make: Callable[[int], bytes] | None = None) -> Input:
    """A streamed reply with so many calls, written by `make`."""
    body = (make or CALL_MAKERS[dialect])(count)
    _expect(f"{dialect}: calls decoded", len([*_decode(dialect, body).message.tool_calls()]), count)
    return Input(partial(_decode, dialect, body), len(body))


def _answered(dialect: str, count: int) -> tuple[Message, ...]:
    reply: AssistantMessage = _decode(dialect, CALL_MAKERS[dialect](count)).message
    results = tuple(ToolResult(call.id, f"result {at}") for at, call in enumerate(reply.tool_calls()))
    return (UserMessage("question"), reply, ToolResults(results), UserMessage("continue"))


def encoded_calls(dialect: str, count: int) -> Input:
    """A request that sends such a reply back, with the results of its calls."""
    messages = _answered(dialect, count)
    body = _encode(dialect, messages)
    _expect(f"{dialect}: calls sent", body.count(b"get_weather"), count * (2 if dialect == "gemini" else 1))
    return Input(partial(_encode, dialect, messages), len(body))


def open_calls(count: int) -> Input:
    """`Transcript.open_calls` of a reply whose calls are all answered, the last one first; a call counts as a byte."""
    question, reply, results, _ = _answered("anthropic-messages", count)
    assert isinstance(results, ToolResults)
    transcript = Transcript((question, reply, ToolResults(results.results[::-1])))
    _expect("open calls", len(transcript.open_calls()), 0)
    _expect("open calls", len(Transcript((question, reply)).open_calls()), count)
    return Input(transcript.open_calls, count)


# --- the rows ---------------------------------------------------------------------------------------------------------


def _all(inputs: list[Input]) -> list[object]:
    return [one.act() for one in inputs]


def _cpu(inputs: list[Input]) -> float:
    """Return the CPU seconds of all inputs, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        return cpu(_all, inputs)
    finally:
        gc.enable()


def grown(name: str, make: Callable[[int], Input], count: int) -> Result:
    """Judge one row: `count` against a hundredth of it."""
    short, long = [make(count // TIMES) for _ in range(TIMES)], [make(count)]
    repeat = 5 if _cpu(long) < _SHORT else 1
    turns = in_turns({"short": partial(_cpu, short), "long": partial(_cpu, long)}, repeat)
    sizes = sum(one.size for one in short), long[0].size
    ratios = [ratio * sizes[0] / sizes[1] for ratio in turns.ratios("long", "short")]
    return judged(
        f"growth, {name}: {count:,} / {count // TIMES:,}",
        ratios,
        value=turns.least("long") / sizes[1] * 1e9,
        unit="ns CPU per call" if name == OPEN_CALLS else UNIT,
        goal=LINEAR,
        run=RUN,
        calibrations=turns.calibrations,
        detail=f"against {turns.least('short') / sizes[0] * 1e9:.3g}",
    )


def rows() -> dict[str, tuple[Callable[[int], Input], int]]:
    """Return the inputs of all rows by name, each with the count of the long one."""
    other_ids = partial(responses_calls, same_ids=False)
    by_id = partial(responses_calls, indexed=False)
    return {
        "chat stream with unknown indexed lists, frames": (unknown_lists, 4_000),
        "Anthropic stream with unknown fields, deltas": (unknown_fields, 4_000),
        **{f"user messages in a row, encode {name}": (partial(same_role, name), 4_000) for name in DIALECTS},
        **{f"calls in one reply, decode {name}": (partial(decoded_calls, name), 12_000) for name in DIALECTS},
        "calls repeated under other ids, decode openai-responses": (
            partial(decoded_calls, "openai-responses", make=other_ids),
            4_000,
        ),
        "calls named by id only, decode openai-responses": (
            partial(decoded_calls, "openai-responses", make=by_id),
            4_000,
        ),
        **{f"calls in one reply, encode {name}": (partial(encoded_calls, name), 12_000) for name in DIALECTS},
        OPEN_CALLS: (open_calls, 12_000),
    }


def run(board: Board) -> None:
    """Measure all rows of this section."""
    for name, (make, count) in rows().items():
        board.add(grown(name, make, count))
