"""When and where a conversation is compacted: its size, counted from the usage of replies, and a pure plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from tenuto.core import journal
from tenuto.core.blocks import AnthropicMeta, Marker
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Origin, ToolResults, summary_block
from tenuto.core.next_request import NextRequest
from tenuto.core.provider import Target
from tenuto.core.request import NativeCompaction
from tenuto.core.summary import TOKEN_CHARACTERS, estimate_tokens
from tenuto.core.transcript import Transcript
from tenuto.wire.codec import codec_for
from tenuto.wire.prefix_binding import compacted_prefix
from tenuto.wire.token_scope import issuer_check
from tenuto.wire.write import write_request

Summarize: TypeAlias = Callable[[Transcript, str], str | Awaitable[str]]
"""Return the summary of a conversation; the second argument is what it should emphasize."""

_WAYS = ("provider", "endpoint", "threshold", "model")
_SUMMARY_TOKENS = 1000
"""The estimated length of a summary that does not exist yet."""
_LEAST_GAIN = 0.1
"""The share of the context that a compaction has to cover, unless the context is full."""
_RETRY_GROWTH = 0.05
"""The share of the window by which the conversation grows after a failed compaction before the next attempt."""
_AFTER_CLEARING = 0.6
"""The share of the window that is enough after old tool results were cleared."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """When and how an agent compacts long conversations. The journal keeps the originals."""

    at: float = 0.8
    """The share of the model's context window at which it happens."""
    keep_tokens: int = 20_000
    """The tokens at the end of the conversation that stay as they are; at most a quarter of the window."""
    keep_results: int | None = None
    """Clear older tool results than this number first, if that is enough; None: never."""
    by: str | Summarize = "provider"
    """Who compacts: `provider` on request, if it can, else the session's model writes a summary; `endpoint`: the
    provider's endpoint for compactions; `threshold`: the provider, in its replies; `model`: the session's model; the name
    of another model; or a function that returns a summary."""
    background: bool = True
    """Whether the provider's compaction runs while the run continues. The run waits for it at its end."""

    def __post_init__(self) -> None:
        if not 0 < self.at <= 1:
            raise ValueError(f"invalid at={self.at}: use a share of the context window, above 0 and at most 1")
        for name in ("keep_tokens", "keep_results"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"invalid {name}={value}: use 0 or more")
        if isinstance(self.by, str) and self.by not in _WAYS and "/" not in self.by:
            raise ValueError(f"invalid by={self.by!r}: use {', '.join(_WAYS)}, provider/model or a function")


DEFAULT = Compaction()
"""The settings of an agent that has none."""
Method: TypeAlias = Literal["provider", "endpoint", "model", "function"]


def native_threshold(settings: Compaction | None, target: Target) -> NativeCompaction | None:
    """Return the parameter of requests for compactions in replies; None if the settings or the provider exclude them."""
    window = target.traits.context_window
    if settings is None or settings.by != "threshold" or not window or not codec_for(target.dialect).compacts(target):
        return None
    return NativeCompaction(threshold=int(window * settings.at))


class _Segment(msgspec.Struct):
    """A reply with everything up to the next request."""

    cut: int
    """The last entry before its request."""
    prompt: int | None
    """The tokens of the request; None: not counted."""
    completion: int
    view: int
    """The number of compactions before it."""
    can_start: bool
    """Whether the kept messages can start with it: it does not continue a paused turn."""
    added: int = 0
    """The estimated tokens of the messages after it."""


class ContextSize:
    """The tokens of a conversation, followed entry by entry. An estimate is used only for what no reply has counted."""

    def __init__(self) -> None:
        self.segments: list[_Segment] = []
        self.retry_above = 0
        """The size that the conversation has to reach before the next automatic compaction."""
        self._request = 0, 0  # the last request: its entry, and the number of compactions before it
        self._view = 0
        self._up_to_seq = 0
        self._head = 0  # tokens of the summary in place of the covered entries
        self._start = 0  # estimated tokens before the first request
        self._is_paused = False

    def apply(self, entry: journal.Entry) -> None:
        payload, added = entry.payload, 0
        if isinstance(payload, journal.RequestStarted):
            self._request = entry.seq, self._view
        elif isinstance(payload, journal.ReplyReceived):
            usage, message = payload.usage, payload.message
            # The usage of a reply with a summary includes the work of summarizing.
            counted = usage if usage is not None and summary_block(message) is None else None
            completion = counted.completion_tokens if counted is not None else None
            segment = _Segment(
                cut=self._request[0] - 1,
                prompt=counted.prompt_tokens if counted is not None else None,
                completion=estimate_tokens(message) if completion is None else completion,
                view=self._request[1],
                can_start=not self._is_paused,
            )
            self.segments.append(segment)
            self._is_paused = message.paused
        elif isinstance(payload, journal.MessageAdded | journal.SteeringAdded):
            added, self._is_paused = estimate_tokens(payload.message), False
        elif isinstance(payload, journal.CallFinished):
            added = estimate_tokens(ToolResults((payload.result,)))
        elif isinstance(payload, journal.Compacted):
            self._apply_compaction(payload)
        elif isinstance(payload, journal.RequestFailed) and payload.purpose:
            self.retry_above = self.total() + 1
        if self.segments:
            self.segments[-1].added += added
        else:
            self._start += added

    def _apply_compaction(self, payload: journal.Compacted) -> None:
        if payload.is_undo:
            self._head = self._up_to_seq = 0
        elif payload.up_to_seq > self._up_to_seq or not payload.cleared:
            self._up_to_seq = payload.up_to_seq
            self._head = 1 + len(payload.summary) // TOKEN_CHARACTERS if payload.summary else _SUMMARY_TOKENS
            if payload.messages:
                self._head = sum(map(estimate_tokens, payload.messages))
        self._view += 1
        # A summary that saves too little is not followed by the next one at once. What clearing saves is not known yet.
        self.retry_above = 0 if payload.cleared else self.total() + 1

    @property
    def request_seq(self) -> int:
        """The entry of the last request; 0 before the first one."""
        return self._request[0]

    def segment_tokens(self, index: int) -> int:
        """Return the tokens of a segment: the difference of two requests if both were counted in the same view."""
        segment = self.segments[index]
        following = self.segments[index + 1] if index + 1 < len(self.segments) else None
        if following is not None and following.view == segment.view:
            grown = (following.prompt or 0) - (segment.prompt or 0)
            if segment.prompt is not None and grown > 0:
                return grown
        return segment.completion + segment.added

    def total(self) -> int:
        """Return the tokens of the next request."""
        last = self.segments[-1] if self.segments else None
        if last is None:
            return self._start
        if last.view == self._view and last.prompt is not None:
            return last.prompt + last.completion + last.added
        kept = [index for index, segment in enumerate(self.segments) if segment.cut >= self._up_to_seq]
        return self._overhead() + self._head + sum(map(self.segment_tokens, kept))

    def _overhead(self) -> int:
        """Return the tokens of the system prompt and the tools, and of the first messages while they are not covered."""
        first = self.segments[0].prompt
        overhead = self._start if first is None else first
        return max(0, overhead - self._start) if self._up_to_seq else overhead

    def due_at(self, settings: Compaction, window: int | None) -> int | None:
        """Return the size at which the conversation is compacted; None if the window is not known."""
        if not window:
            return None
        retry = self.retry_above + int(window * _RETRY_GROWTH) if self.retry_above else 0
        return max(int(window * settings.at), retry)

    def find_cut(self, keep: int, least: int) -> tuple[int, int] | None:
        """Return the first entry to keep behind, and the tokens that are kept; None if nothing can be covered.

        The latest turn is always kept. `least` is the number of tokens that have to be covered.
        """
        total, kept = self.total(), 0
        found: tuple[int, int] | None = None
        for index in range(len(self.segments) - 1, 0, -1):
            segment = self.segments[index]
            if segment.cut <= self._up_to_seq:
                break
            kept += self.segment_tokens(index)
            if found is not None and kept > keep:
                break
            if segment.can_start:
                found = segment.cut, kept
        return found if found is not None and total - found[1] >= least else None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction that has not run."""

    up_to_seq: int
    """The last journal entry that the summary covers; 0: only tool results are cleared."""
    kept: int
    """The number of messages that stay as they are."""
    tokens_before: int
    tokens_after: int
    """Estimated: the length of the summary is not known."""
    steps: tuple[Method, ...] = ()
    """The ways to make the summary, in the order in which they are tried."""
    cleared: tuple[int, ...] = ()
    """The journal entries of the tool results that are cleared."""
    dies: tuple[Loss, ...] = ()
    """The thinking that becomes invalid."""

    def __str__(self) -> str:
        how = " or ".join(self.steps) if self.steps else f"{len(self.cleared)} tool results cleared"
        size = f"{self.tokens_before:,} -> about {self.tokens_after:,} tokens"
        lines = [f"compaction: {size}, the last {self.kept} messages stay, by {how}"]
        return "\n".join([*lines, *(f"  lost: {loss.detail} ({loss.location}, {loss.kind})" for loss in self.dies)])


def plan(
    entries: Iterable[journal.Entry],
    target: Target,
    settings: Compaction = DEFAULT,
    *,
    full: bool = False,
) -> Plan | None:
    """Return where a conversation would be compacted for a target; None if there is nothing to compact.

    Pure. The cut is directly before a past request, so the covered part is what was sent, no call is open, and the kept
    part begins with a reply. `full`: anything that makes it smaller helps, and at most a quarter is kept.
    """
    entries = tuple(entries)
    size = ContextSize()
    for entry in entries:
        size.apply(entry)
    state, window = _state_after(entries), target.traits.context_window
    total, in_scope = size.total(), issuer_check(target)
    if window and not full and (cleared := _results_to_clear(state, target, settings)):
        held = state.compaction
        view = _state_after(entries, clear_results(held, cleared)).view(in_scope)
        after = sum(map(estimate_tokens, view))
        if after <= window * _AFTER_CLEARING:
            return Plan(up_to_seq=0, kept=len(view), tokens_before=total, tokens_after=after, cleared=cleared)
    keep = min(settings.keep_tokens, (total if full or not window else window) // 4)
    found = size.find_cut(keep, 1 if full else int(total * _LEAST_GAIN))
    if found is None:
        return None
    up_to_seq, kept_tokens = found
    steps = _steps(target, settings)
    planned = _state_after(entries, _planned_compaction(state, up_to_seq, target, steps[0]))
    dies: list[Loss] = []
    if target.traits.prefix_bound:
        stale = _stale_blocks(planned, target) - _stale_blocks(state, target)
        for index, message in enumerate(state.transcript()):
            places = sorted(block for id_, block in stale if id_ == id(message))
            dies += [
                Loss("stale-prefix", Location(index, block), "thinking", "the journal keeps it") for block in places
            ]
    return Plan(
        up_to_seq=up_to_seq,
        kept=len(planned.view()) - 1,
        tokens_before=total,
        tokens_after=min(total, _SUMMARY_TOKENS + kept_tokens),
        steps=steps,
        dies=tuple(dies),
    )


def clear_results(held: journal.Compacted | None, cleared: tuple[int, ...]) -> journal.Compacted:
    """Return the compaction that clears tool results, in addition to the one that holds."""
    return msgspec.structs.replace(held or journal.Compacted(0), cleared=cleared, usage=None, cost="")


def _state_after(entries: Sequence[journal.Entry], *payloads: journal.Compacted) -> NextRequest:
    state = NextRequest()
    for entry in entries:
        state.apply(entry)
    for seq, payload in enumerate(payloads, entries[-1].seq + 1 if entries else 1):
        state.apply(journal.Entry(seq, "", 0, 0, "compacted", b"", "", payload))
    return state


def _steps(target: Target, settings: Compaction) -> tuple[Method, ...]:
    if not isinstance(settings.by, str):
        return ("function",)
    if settings.by not in ("provider", "endpoint", "threshold") or not codec_for(target.dialect).compacts(target):
        return ("model",)
    return ("endpoint" if settings.by == "endpoint" else "provider", "model")


def _results_to_clear(state: NextRequest, target: Target, settings: Compaction) -> tuple[int, ...]:
    """Return the tool results that may be cleared. Clearing one makes all later bound thinking invalid."""
    if settings.keep_results is None or target.traits.prefix_bound:
        return ()
    results = state.result_seqs()
    cleared = tuple(results[: max(0, len(results) - settings.keep_results)])
    known = state.compaction.cleared if state.compaction is not None else ()
    return cleared if len(cleared) > len(known) else ()


def _planned_compaction(state: NextRequest, up_to_seq: int, target: Target, method: Method) -> journal.Compacted:
    """Return a compaction with a summary that stands for the one that will be made."""
    planned = journal.Compacted(up_to_seq, summary="(the summary)")
    if method not in ("provider", "endpoint"):
        return planned
    asked = journal.CompactionRequested(target.model, up_to_seq, method)
    request = state.compaction_request(asked, in_scope=issuer_check(target))
    prefix = compacted_prefix(request.transcript, write_request(request, target).body, target)
    origin = Origin(target.provider.name, target.dialect, target.model, target.account, target.platform, prefix)
    block = Marker("compaction", planned.summary, meta=AnthropicMeta("planned"))
    return msgspec.structs.replace(planned, native=(AssistantMessage((block,), origin=origin),))


def _stale_blocks(state: NextRequest, target: Target) -> set[tuple[int, int]]:
    """Return the thinking that the next request drops: the `id()` of its message, and the index of the block."""
    request = state.request(in_scope=issuer_check(target))
    losses = [loss.location for loss in write_request(request, target).losses if loss.kind == "stale-prefix"]
    return {
        (id(request.transcript[place.message]), place.block)
        for place in losses
        if place.message is not None and place.block is not None
    }
