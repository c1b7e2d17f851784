"""Give calls ids that a target accepts, and pair tool results with their calls.

An id that the target neither issued nor accepts becomes a digest of the index of its message and the old id, so the ids
of earlier messages never change. A result answers the nearest earlier open call with its id, and directly follows it.
If the provider allows results in a later turn, a call may stay open, and its result keeps its position.
"""

import hashlib
import re
from collections import deque

import msgspec
from msgspec.structs import replace

from tenuto.core import jsonio
from tenuto.core.blocks import ToolUse
from tenuto.core.jsonio import extra_fields_or_empty
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Content, Message, ToolResult, ToolResults
from tenuto.core.provider import Target
from tenuto.wire.codec import codec_for

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 29  # the length of a generated id, if the target accepts it
Locations = tuple[Location | None, ...]  # the original location of each result of a message; None for an added result
UNANSWERED = "No result: the call was interrupted before it gave one."


class CallIds:
    """The ids of one transcript's calls for one target. Ask for them in the order of the calls."""

    def __init__(self, target: Target) -> None:
        self._rule = codec_for(target.dialect).replay_rules.call_ids(target)
        self._length = min(_ID_LENGTH, self._rule.max_length or _ID_LENGTH)
        self._used: set[str] = set()
        self._turn = -1
        self._seen: dict[str, int] = {}

    def of(self, id: str, turn: int, *, own: bool) -> str:
        """Return the id for a call of the turn at this index. `own`: the target issued it."""
        if turn != self._turn:
            self._turn, self._seen = turn, {}
        before = self._seen.get(id, 0)
        self._seen[id] = before + 1
        result = id
        if not id or id in self._used or not (own or self._accepts(id)):
            result = self._generate("\x00".join((str(turn), id, *((str(before),) if before else ()))))
        self._used.add(result)
        return result

    def _accepts(self, id: str) -> bool:
        if self._rule.pattern:
            return re.fullmatch(self._rule.pattern, id) is not None
        return (not self._rule.max_length or len(id) <= self._rule.max_length) and not jsonio.lone_surrogates(id)

    def _generate(self, key: str) -> str:
        while True:
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass"))
            new_id = f"call_{digest.hexdigest()[:24]}"
            if self._length < _ID_LENGTH:
                new_id = _encode_base62(digest.digest(), self._length)
            if new_id not in self._used:
                return new_id
            key += "\x00"


def _encode_base62(digest: bytes, length: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return "".join(letters)


class CallRef(msgspec.Struct):
    """A call, by the indexes of its turn and block."""

    turn: int
    place: int
    block: ToolUse
    name: str = ""  # the id that is sent
    dropped_by: str = ""  # the kind of loss that drops it; empty: it is sent
    answer: ToolResult | None = None
    answer_location: Location | None = None
    late: bool = False  # its result does not directly follow its turn

    @property
    def later(self) -> bool:
        """Whether its provider itself allows the answer to come in a later turn."""
        extra = self.block.extra
        return bool(extra) and bytes(extra_fields_or_empty(extra).get("async", b"")) == b"true"


class ResultPairs:
    """The results of a transcript's calls. `calls` has every call, in order."""

    def __init__(self, messages: tuple[Message, ...], calls: list[CallRef], losses: list[Loss]) -> None:
        self._messages = messages
        self._losses = losses
        self._calls: dict[int, list[CallRef]] = {}
        self._late: dict[int, list[tuple[Location | None, ToolResult]]] = {}
        for call in calls:
            self._calls.setdefault(call.turn, []).append(call)
        self._pair()

    def _pair(self) -> None:
        waiting: dict[str, list[deque[CallRef]]] = {}
        turn = -1
        for at, message in enumerate(self._messages):
            if isinstance(message, AssistantMessage):
                turn = at
                for call in self._calls.get(at, ()):
                    of_id = waiting.setdefault(call.block.id, [])
                    if not of_id or of_id[-1][0].turn != at:
                        of_id.append(deque())
                    of_id[-1].append(call)
            elif isinstance(message, ToolResults):
                for index, result in enumerate(message.results):
                    # the first open call of the last turn that has one
                    turns = waiting.get(result.tool_use_id)
                    nearest = turns[-1].popleft() if turns else None
                    if turns and not turns[-1]:
                        turns.pop()
                    self._give(result, nearest, Location(at, index), turn)

    def _give(self, result: ToolResult, call: CallRef | None, place: Location, turn: int) -> None:
        id = result.tool_use_id
        if call is None:
            self._losses.append(Loss("orphan-result", place, id[:80], "it answers no open call"))
        elif call.dropped_by:
            call.answer = result
            self._losses.append(Loss(call.dropped_by, place, f"the answer to {id[:80]}, which is omitted"))
        else:
            if not isinstance(result.content, str) and any(part.meta for part in result.content):
                self._losses.append(Loss("foreign-token", place, "a token in a tool result"))
                result = replace(result, content=remove_tokens(result.content))
            if result.tool_use_id != call.name:
                result = replace(result, tool_use_id=call.name)
            call.answer, call.answer_location = result, place
            call.late = call.later and call.turn != turn
            if call.late:
                has_calls = any(not other.dropped_by for other in self._calls.get(turn, ()))
                index = turn if has_calls else place.message or 0
                self._late.setdefault(index, []).append((place, call.answer))

    def results_after(self, turn: int) -> tuple[Locations, ToolResults] | None:
        """Return the results for the calls of a turn, if it has any; missing results are added, with a `Loss`."""
        results: list[tuple[Location | None, ToolResult]] = []
        for call in self._calls.get(turn, ()):
            if call.dropped_by or call.late:
                continue
            if call.answer is not None:
                results.append((call.answer_location, call.answer))
            elif not call.later:
                location, remedy = Location(turn, call.place), "answer each call before the next message"
                self._losses.append(Loss("open-call", location, call.block.id[:80], remedy))
                results.append((None, ToolResult(call.name, UNANSWERED, is_error=True)))
        results += self._late.get(turn, ())
        return self._answers(turn + 1, results) if results else None

    def late_results(self, at: int) -> tuple[Locations, ToolResults] | None:
        """Return the late results that keep their position: those after a turn without calls."""
        return self._answers(at, self._late[at]) if at in self._late else None

    def _answers(self, at: int, placed: list[tuple[Location | None, ToolResult]]) -> tuple[Locations, ToolResults]:
        """Make a message of results; it is the original message at this index if that has the same ones."""
        locations, results = zip(*placed, strict=True)
        message = self._messages[at] if at < len(self._messages) else None
        if not isinstance(message, ToolResults) or message.results != results:
            message = ToolResults(results)
        return locations, message


def remove_tokens(content: tuple[Content, ...]) -> tuple[Content, ...]:
    """Remove tokens from the content of a result or user message: no provider issued them for this position."""
    return tuple(replace(part, meta=None, extra="") if part.meta else part for part in content)
