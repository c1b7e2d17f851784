"""Measure how the cost grows with the input: CPU per byte of an input 100 times as long, divided by that of a short one.

The short side processes 100 separate inputs and keeps every result, so both sides do the same work with the same memory,
and the ratio is 1 if the cost is linear. The garbage collector is off, as in `timeit`: it visits the objects of a long
input several times and those of a short one hardly ever. With it, encoding 12,000 calls takes up to 1.6 times as long per
byte as encoding 120. Each result is checked before the measurement: calls, messages and fields are counted.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bench.decoding import GROWTH_GOAL
from bench.minimal import READ
from bench.results import Board, Result, make_result
from bench.streams import CALL_MAKERS, DIALECTS, anthropic_with_fields, chat_with_lists, responses_calls
from bench.turns import measure_cpu, measure_in_turns
from tenuto.core.events import MessageDone
from tenuto.core.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.wire.codec import codec_for
from tenuto.wire.write import write_request

FACTOR = 100
"""The long input has this many times the frames, messages or calls of a short one."""
UNIT = "ns CPU per byte"
OPEN_CALLS = "Transcript.open_calls"
RUN = "scaling"
"""A separate run: these rows can be measured and written without the others."""
_SHORT_SECONDS = 0.1
"""Inputs that take less are measured five times, and the lowest cost counts."""


class Input(NamedTuple):
    """A function that processes an input, and the size of the input in bytes."""

    process: Callable[[], object]
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


def _check_count(what: str, actual: int, count: int) -> None:
    if actual != count:
        raise SystemExit(f"{what}: {actual} of {count}")


# --- the inputs -------------------------------------------------------------------------------------------------------


def make_unknown_lists(count: int) -> Input:
    """Make a chat stream in which each delta has one element of an unknown indexed list."""
    body = chat_with_lists(count)
    values = json.loads(_decode("openai-chat", body).message.extra)["zz"]
    _check_count("elements decoded", len(values), count)
    return Input(partial(_decode, "openai-chat", body), len(body))


def make_unknown_fields(count: int) -> Input:
    """Make an Anthropic stream in which each delta has a field with a new name."""
    body = anthropic_with_fields(count)
    values = json.loads(_decode("anthropic-messages", body).message.blocks[0].extra)
    _check_count("fields decoded", len(values), count)
    return Input(partial(_decode, "anthropic-messages", body), len(body))


def make_user_messages(dialect: str, count: int) -> Input:
    """Make a request with `count` consecutive user messages."""
    messages = tuple(UserMessage(f"message {at} of the user") for at in range(count))
    body = _encode(dialect, messages)
    _check_count(f"{dialect}: messages sent", body.count(b" of the user"), count)
    return Input(partial(_encode, dialect, messages), len(body))


def make_decoded_calls(dialect: str, count: int, make: Callable[[int], bytes] | None = None) -> Input:
    """Make a streamed reply with `count` calls, written by `make`."""
    body = (make or CALL_MAKERS[dialect])(count)
    _check_count(f"{dialect}: calls decoded", len([*_decode(dialect, body).message.tool_calls()]), count)
    return Input(partial(_decode, dialect, body), len(body))


def _make_answered(dialect: str, count: int) -> tuple[Message, ...]:
    reply: AssistantMessage = _decode(dialect, CALL_MAKERS[dialect](count)).message
    results = tuple(ToolResult(call.id, f"result {at}") for at, call in enumerate(reply.tool_calls()))
    return (UserMessage("question"), reply, ToolResults(results), UserMessage("continue"))


def make_encoded_calls(dialect: str, count: int) -> Input:
    """Make a request with a reply of `count` calls and their results."""
    messages = _make_answered(dialect, count)
    body = _encode(dialect, messages)
    _check_count(f"{dialect}: calls sent", body.count(b"get_weather"), count * (2 if dialect == "gemini" else 1))
    return Input(partial(_encode, dialect, messages), len(body))


def make_open_calls(count: int) -> Input:
    """Make the input for `Transcript.open_calls`: a reply with a result for each call, in reverse order; a call counts as a byte."""
    question, reply, results, _ = _make_answered("anthropic-messages", count)
    assert isinstance(results, ToolResults)
    transcript = Transcript((question, reply, ToolResults(results.results[::-1])))
    _check_count("open calls", len(transcript.open_calls()), 0)
    _check_count("open calls", len(Transcript((question, reply)).open_calls()), count)
    return Input(transcript.open_calls, count)


# --- the rows ---------------------------------------------------------------------------------------------------------


def _process_all(inputs: list[Input]) -> list[object]:
    return [one.process() for one in inputs]


def _measure_inputs(inputs: list[Input]) -> float:
    """Return the CPU seconds of all inputs, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        return measure_cpu(_process_all, inputs)
    finally:
        gc.enable()


def measure_growth(name: str, make: Callable[[int], Input], count: int) -> Result:
    """Measure one row: an input of `count` compared with inputs of a hundredth of it."""
    short, long = [make(count // FACTOR) for _ in range(FACTOR)], [make(count)]
    repeat = 5 if _measure_inputs(long) < _SHORT_SECONDS else 1
    turns = measure_in_turns({"short": partial(_measure_inputs, short), "long": partial(_measure_inputs, long)}, repeat)
    sizes = sum(one.size for one in short), long[0].size
    ratios = [ratio * sizes[0] / sizes[1] for ratio in turns.ratios("long", "short")]
    return make_result(
        f"growth, {name}: {count:,} / {count // FACTOR:,}",
        ratios,
        value=turns.lowest("long") / sizes[1] * 1e9,
        unit="ns CPU per call" if name == OPEN_CALLS else UNIT,
        goal=GROWTH_GOAL,
        run=RUN,
        calibrations=turns.calibrations,
        detail=f"vs {turns.lowest('short') / sizes[0] * 1e9:.3g}",
    )


def make_rows() -> dict[str, tuple[Callable[[int], Input], int]]:
    """Return the functions that make the inputs of all rows, each with the count of the long input."""
    with_other_ids = partial(responses_calls, same_ids=False)
    with_ids_only = partial(responses_calls, indexed=False)
    return {
        "chat stream with unknown indexed lists, frames": (make_unknown_lists, 4_000),
        "Anthropic stream with unknown fields, deltas": (make_unknown_fields, 4_000),
        **{
            f"consecutive user messages, encode {name}": (partial(make_user_messages, name), 4_000) for name in DIALECTS
        },
        **{f"calls in one reply, decode {name}": (partial(make_decoded_calls, name), 12_000) for name in DIALECTS},
        "calls repeated with other ids, decode openai-responses": (
            partial(make_decoded_calls, "openai-responses", make=with_other_ids),
            4_000,
        ),
        "calls identified by id only, decode openai-responses": (
            partial(make_decoded_calls, "openai-responses", make=with_ids_only),
            4_000,
        ),
        **{f"calls in one reply, encode {name}": (partial(make_encoded_calls, name), 12_000) for name in DIALECTS},
        OPEN_CALLS: (make_open_calls, 12_000),
    }


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    for name, (make, count) in make_rows().items():
        board.add(measure_growth(name, make, count))
