"""Properties of every reply, also a damaged one.

~- `escaped`: a decoder raises nothing but a `TenutoError`.
- `cause`: the error of a damaged reply does not hide a bug of this library (`KeyError`, `AttributeError`, ...).
- `cuts`: the division of the bytes into chunks changes neither the events nor the response nor the error.
- `size`: the decoded reply is not much larger than its bytes.
- `stored`: the decoded reply, also the `partial` of an error, is stored and loaded unchanged.
- `sent`: it is sent back to its own dialect as valid JSON, with results for its open calls.
"""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from conformance import subject
from conformance.stream_variants import cut
from tenuto.core import stored
from tenuto.core.events import MessageDone, StreamEvent
from tenuto.core.messages import AssistantMessage, Message, ToolResults, UserMessage
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.errors import LLMError, TenutoError
from tenuto.wire import codec as codecs
from tenuto.wire.write import write_request

__all__ = ["Fault", "Outcome", "check", "outcome_of"]

_LARGER = 12
"""The maximum size of a stored reply as a multiple of its bytes, plus 20,000 bytes."""
_OURS = (AttributeError, LookupError, TypeError, ArithmeticError, AssertionError)
_PIECES = 3_000
"""The approximate maximum of chunks of a reply."""


class Fault(NamedTuple):
    """A property that does not hold: which one, where it broke, and how."""

    property: str
    where: str
    detail: str


class Outcome(NamedTuple):
    """The result of one decoding."""

    events: list[StreamEvent]
    response: ChatResponse | None
    error: LLMError | None
    escaped: Exception | None = None

    @property
    def reply(self) -> ChatResponse | None:
        """The response, or the part in an error."""
        return self.error.partial if self.error is not None else self.response

    @property
    def kind(self) -> str:
        """The class of the error, or `reply`."""
        failed = self.escaped or self.error
        return type(failed).__name__ if failed is not None else "reply"

    def comparable_parts(self) -> dict[str, Any]:
        """Return all parts that must not depend on cuts, by name."""
        return {
            "escaped": repr(self.escaped),
            "error": type(self.error),
            "message": str(self.error),
            "response": self.response,
            "partial": self.error and self.error.partial,
            "events": self.events,
        }


def outcome_of(target: Target, pieces: Iterable[bytes], *, whole: bool = False) -> Outcome:
    """Decode a reply fed in these pieces; with `whole`, each piece is a complete body that did not stream."""
    decoder = codecs.codec_for(target.dialect).decoder(target, seed="fuzz")
    events: list[StreamEvent] = []
    try:
        for piece in pieces:
            events += decoder.feed_body(piece) if whole else decoder.feed(piece)
        events += decoder.drain()
        events += decoder.finish()
    except LLMError as exc:
        return Outcome(events, None, exc)
    except TenutoError as exc:
        return Outcome(events, None, None, exc)
    except Exception as exc:  # an escaped exception is one of the faults
        return Outcome(events, None, None, exc)
    last = events[-1]
    return Outcome(events, last.response if isinstance(last, MessageDone) else None, None)


def check(
    target: Target, body: bytes, rng: random.Random, *, streamed: bool, cuts: bool = True
) -> tuple[str, list[Fault]]:
    """Decode a reply; return the class of its error or `reply`, and every fault. `cuts=False` skips that property."""
    first = outcome_of(target, [body])
    found = [*_escaped(first), *_returned(target, first, len(body))]
    if cuts:
        found += _cuts(target, body, first, rng)
    if not streamed:
        first = outcome_of(target, [body], whole=True)
        found += [*_escaped(first), *_returned(target, first, len(body))]
    return first.kind, list(dict.fromkeys(found))


def _escaped(outcome: Outcome) -> Iterator[Fault]:
    if outcome.escaped is not None and not isinstance(outcome.escaped, TenutoError):
        yield _raised("escaped", outcome.escaped)
    cause = outcome.error and outcome.error.__cause__
    if isinstance(cause, _OURS):
        yield _raised("cause", cause)


def _cuts(target: Target, body: bytes, first: Outcome, rng: random.Random) -> Iterator[Fault]:
    expected = first.comparable_parts()
    for pieces in (cut(body, max(1, len(body) // _PIECES)), _random_cuts(body, rng)):
        again = outcome_of(target, pieces).comparable_parts()
        for name, value in expected.items():
            if again[name] != value:
                yield Fault("cuts", name, f"{_shown(value, again[name])} became {_shown(again[name], value)}")
                return


def _random_cuts(body: bytes, rng: random.Random) -> Iterator[bytes]:
    mean, at = rng.choice((3, 20, 200, 2_000)), 0
    mean = max(mean, len(body) // _PIECES)
    while at < len(body):
        end = at + rng.randrange(0, 2 * mean + 1)
        yield body[at:end]
        at = end


def _returned(target: Target, outcome: Outcome, received: int) -> Iterator[Fault]:
    reply = outcome.reply
    if reply is None:
        return
    try:
        if (again := subject.store_and_load(reply)) != reply:
            yield Fault("stored", "response", f"{_shown(reply, again)} became {_shown(again, reply)}")
        for choice in reply.choices:
            history = Transcript(_history(choice.message))
            if any(stored.load_message(stored.dump_message(message)) != message for message in history):
                yield Fault("stored", "transcript", _shown(history, None))
    except Exception as exc:  # nothing may be raised here
        yield _raised("stored", exc)
        return
    if (size := len(stored.dump_response(reply))) > 20_000 + _LARGER * received:
        yield Fault("size", "response", f"{received} bytes became {size}")
    for choice in reply.choices:
        yield from _sent(target, choice.message)


def _history(message: AssistantMessage) -> tuple[Message, ...]:
    before: tuple[Message, ...] = (UserMessage("question"), message)
    results = tuple(call.answer("result") for call in Transcript(before).open_calls())
    return (*before, *((ToolResults(results),) if results else ()), UserMessage("continue"))


def _sent(target: Target, message: AssistantMessage) -> Iterator[Fault]:
    try:
        request = ChatRequest(model=target.model or "m", messages=_history(message))
        for body in (write_request(request, target).body, subject.write(request, target).body):
            if not isinstance(json.loads(body.decode(), parse_int=str, parse_constant=_refuse), dict):
                yield Fault("sent", "body", "the request is not a JSON object")
    except Exception as exc:  # nothing may be raised here
        yield _raised("sent", exc)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} in a request")


def _raised(property: str, exc: BaseException) -> Fault:
    """Name an exception by its class and the function of the package that raised it."""
    while exc.__cause__ is not None and isinstance(exc, TenutoError):
        exc = exc.__cause__
    frames = traceback.extract_tb(exc.__traceback__)
    within = [frame for frame in frames if "tenuto" in Path(frame.filename).parts] or list(frames)
    places = [f"{Path(frame.filename).parent.name}/{Path(frame.filename).name}:{frame.name}" for frame in within[-3:]]
    return Fault(property, f"{type(exc).__name__} in {' > '.join(places)}", ascii(str(exc))[:300])


def _shown(value: object, other: object) -> str:
    """Return the part of a value that differs from the other's."""
    text, against = ascii(value), ascii(other)
    at = next((at for at, (one, two) in enumerate(zip(text, against, strict=False)) if one != two), 0)
    return text[max(0, at - 60) : at + 100]
