"""Compact the conversation of a session: shorten what later requests contain, and keep the journal as it is.

The size of a conversation is counted from the usage of replies; a pure plan says where it is cut.

An entry is written before each request for a summary, so that a kill costs at most one. A summary that cannot be used
leaves the whole conversation in place, and the next attempt waits until the conversation has grown.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from tenuto import errors
from tenuto.agent.config import RunContext
from tenuto.agent.events import CompactionFinished, CompactionStarted
from tenuto.agent.hooks import RequestInfo, run_around
from tenuto.client.middleware.retry import RetryState
from tenuto.client.reply import Reply
from tenuto.core import journal
from tenuto.core.blocks import AnthropicMeta, Audio, Block, Document, Image, Marker, OpenAiMeta
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, Message, Origin, SystemMessage, ToolResults, Usage, summary_block
from tenuto.core.next_request import NextRequest
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, NativeCompaction
from tenuto.core.summary import TOKEN_CHARACTERS, block_text
from tenuto.core.transcript import Transcript
from tenuto.wire.codec import codec_for
from tenuto.wire.prefix_binding import compacted_prefix
from tenuto.wire.token_scope import issued_by, issuer_check
from tenuto.wire.write import ENCODER_VERSION, write_request

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

logger = logging.getLogger("tenuto")

_SOURCE_SHARE = 0.6
"""The share of the window of the model that the text to summarize may take."""
_UNKNOWN_WINDOW = 32_000
"""The window of a model whose window is not known."""
MEDIA_TOKENS = 1500
"""The estimated number of tokens of an image, audio or document."""

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


# --- size -------------------------------------------------------------------------------------------------------------


def estimate_tokens(message: Message) -> int:
    """Return the approximate number of tokens of a message, at least 1."""
    if isinstance(message, AssistantMessage):
        return 1 + sum(map(_estimate_block, message.blocks))
    contents = [result.content for result in message.results] if isinstance(message, ToolResults) else [message.content]
    return sum(
        1 + (len(content) // TOKEN_CHARACTERS if isinstance(content, str) else sum(map(_estimate_block, content)))
        for content in contents
    )


def _estimate_block(block: Block) -> int:
    has_data = isinstance(block, Image | Audio | Document) and bool(block.data or block.url or block.file_id)
    return 1 + (MEDIA_TOKENS if has_data else len(block_text(block)) // TOKEN_CHARACTERS)


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


# --- plan -------------------------------------------------------------------------------------------------------------


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


# --- the work ---------------------------------------------------------------------------------------------------------


class _NoSummary(errors.TenutoError):
    """A reply is not a summary. The conversation continues without one."""


class Compactor:
    """Compacts one session while its lease is held."""

    def __init__(self, session: AsyncSession[Any, Any]) -> None:
        self._session = session
        self._log = session._log
        self.context: RunContext = session._context
        """The context of the run."""
        self.task: asyncio.Task[None] | None = None
        """A compaction in the background that has not been written yet."""
        self._result: journal.Compacted | None = None
        """What the task has made; it is written at the next boundary."""

    # --- during a run ---

    async def before_request(self, target: Target) -> None:
        """Compact if the conversation has reached its share of the window. Write what a background task has made."""
        if self.task is not None and self.task.done():
            await self.finish()
        settings = self.context.compaction
        if settings is None or self.task is not None or not target.traits.context_window:
            return
        await self._write_missing_summary(target, settings)
        due_at = self._log.size.due_at(settings, target.traits.context_window)
        by_provider = settings.by == "threshold" and codec_for(target.dialect).compacts(target)
        if due_at is None or self._log.size.total() < due_at or by_provider:
            return
        made = plan(await self._session.entries(), target, settings)
        if made is None:
            self._log.size.retry_above = self._log.size.total()
        elif settings.background and made.steps[:1] == ("provider",):
            self.task = asyncio.create_task(self._run_in_background(made, target))
        else:
            await self._compact(made, target, "threshold")

    async def shrink(self, target: Target) -> bool:
        """Compact because a request was too long. Return whether the conversation is shorter now."""
        if self.task is not None:
            return await self.finish()
        settings = self.context.compaction
        if settings is None:
            return False
        made = plan(await self._session.entries(), target, settings, full=True)
        return made is not None and await self._compact(made, target, "context") is not None

    async def finish(self) -> bool:
        """Wait for the background compaction, and write its result. Return whether there is one."""
        assert self.task is not None
        await asyncio.wait({self.task})
        task, self.task = self.task, None
        task.result()
        result, self._result = self._result, None
        if result is None:
            return False
        await self._write(result)
        return True

    async def cancel(self) -> None:
        """Stop the background compaction, if there is one: its run was cancelled."""
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # its run has ended for another reason

    async def compact(self, target: Target, focus: str = "") -> journal.Compacted | None:
        """Compact now. Return the entry; None if there is nothing to compact, or no usable summary."""
        settings = self.context.compaction or DEFAULT
        made = plan(await self._session.entries(), target, settings, full=True)
        return None if made is None else await self._compact(made, target, "user", focus)

    def drop_refused(
        self, error: errors.LLMError, request: ChatRequest, target: Target
    ) -> tuple[journal.Compacted, ...]:
        """Return the entry that stops using a provider's summary that the provider refuses."""
        held, in_scope = self._log.next.compaction, issuer_check(target)
        if held is None or not isinstance(error, errors.BadRequest | errors.NotFound):
            return ()
        native = [message for message in held.native if message.origin is not None and in_scope(message.origin)]
        if not native or not any(message is one for message in request.transcript for one in native):
            return ()
        is_named = isinstance(error, errors.CompactionRefused) or _names_summary(error, native)
        if not is_named:
            return ()
        others = tuple(message for message in held.native if message not in native)
        without = msgspec.structs.replace(held, native=others, reason="refused", usage=None, cost="")
        return (without if without.summary or others else journal.Compacted(0, reason="refused"),)

    # --- one compaction ---

    async def _run_in_background(self, made: Plan, target: Target) -> None:
        self._result = await self._summarize(made, target, "threshold", "")

    async def _compact(self, made: Plan, target: Target, reason: str, focus: str = "") -> journal.Compacted | None:
        if made.cleared:
            entry = clear_results(self._log.next.compaction, made.cleared)
            entry = msgspec.structs.replace(entry, reason=reason)
        else:
            summary = await self._summarize(made, target, reason, focus)
            if summary is None:
                return None
            entry = summary
        await self._write(entry)
        return entry

    async def _write(self, entry: journal.Compacted) -> None:
        before = self._log.size.total()
        await self._log.append(entry)
        self._session._emit(CompactionFinished(entry.reason, before, self._log.size.total()))

    async def _summarize(self, made: Plan, target: Target, reason: str, focus: str) -> journal.Compacted | None:
        """Make the summary in one of the planned ways; None if none can be used."""
        self._session._emit(CompactionStarted(reason, made.tokens_before))
        for step in made.steps:
            method: Method = "endpoint" if step == "provider" and focus and not _takes_focus(target) else step
            try:
                entry = await self._attempt_twice(method, made.up_to_seq, target, focus)
                return msgspec.structs.replace(entry, reason=reason)
            except (errors.BadRequest, errors.NotFound, errors.AuthenticationFailed, errors.MissingKey) as exc:
                logger.warning("session %s: %s cannot compact: %s", self._log.id, method, exc)  # another way may work
            except (_NoSummary, errors.LimitReached, errors.BudgetExceeded, errors.LLMError) as exc:
                logger.warning("session %s: there is no summary: %s", self._log.id, exc)
                break
        total = self._log.size.total()
        self._log.size.retry_above = total + 1
        self._session._emit(CompactionFinished(reason, total, total, failed=True))
        return None

    async def _attempt_twice(self, method: Method, up_to_seq: int, target: Target, focus: str) -> journal.Compacted:
        """Ask once more after a transient error, or for a text that cannot be used."""
        try:
            return await self._attempt(method, up_to_seq, target, focus)
        except _NoSummary:
            if method != "model":
                raise
        except errors.LLMError as exc:
            delay = RetryState(self.context.retry).after(exc)
            if delay is None:
                raise
            await self.context.retry.sleep(delay)
        return await self._attempt(method, up_to_seq, target, focus)

    async def _attempt(self, method: Method, up_to_seq: int, target: Target, focus: str) -> journal.Compacted:
        """Make one request for a summary. Raise `_NoSummary` or the error of the request; both are recorded."""
        settings = self.context.compaction or DEFAULT
        if method == "function":
            return await self._call_function(up_to_seq, focus)
        model = self._session.model
        if method == "model" and isinstance(settings.by, str) and "/" in settings.by:
            model = self.context.client._full_name(settings.by)
            target = self.context.client._target(model)
        asked = journal.CompactionRequested(
            model=model,
            up_to_seq=up_to_seq,
            method=method,
            focus=focus,
            budget=int((target.traits.context_window or _UNKNOWN_WINDOW) * _SOURCE_SHARE) if method == "model" else 0,
            encoder_version=ENCODER_VERSION,
        )
        request = self._log.next.compaction_request(asked, self.context.headers, issuer_check(target))
        sent: list[tuple[Target, WireRequest]] = []

        async def before_send(target: Target, wire: WireRequest) -> None:
            digest = hashlib.sha256(wire.body).hexdigest()
            entry = msgspec.structs.replace(asked, digest=digest, account=target.account)
            usage = Usage(input_tokens=len(wire.body) // TOKEN_CHARACTERS, output_tokens=4096)
            price = self._log.price(usage, target.provider.name, target.model)
            await self._log.append(entry, reserve=(usage.total_tokens or 0, price) if self._log.budget else None)
            sent.append((target, wire))

        async def send() -> Reply:
            async with self.context.client._stream(request, before_send, timeout=self.context.timeout) as stream:
                return await stream.drain()

        try:
            if self.context.hooks:
                info = RequestInfo(session_id=self._log.id, request=request, target=target, attempt=1)
                reply = await run_around(self.context.hooks, "around_request", info, send)
            else:
                reply = await send()
        except errors.LLMError as exc:
            usage, paid = self._log.price_error(exc)
            await self._record_failure(type(exc).__name__, exc.message, usage, paid, retryable=exc.retryable)
            raise
        if not sent:  # the reply is from a cache
            await self._log.append(asked)
        cost = "" if reply.cost is None else str(reply.cost)
        covered = self._log.next.view(None, up_to_seq) if method == "model" else ()
        problem = _problem(reply, method, sum(map(estimate_tokens, covered)))
        if problem:
            await self._record_failure("NoSummary", problem, reply.usage, cost)
            raise _NoSummary(problem)
        message = reply.message
        native: tuple[AssistantMessage, ...] = ()
        summary = str(message).strip()
        if method != "model":
            block = summary_block(message)
            summary = (block.text if block is not None else None) or ""
            if message.origin is not None and sent:
                target, wire = sent[-1]
                prefix = compacted_prefix(request.transcript, wire.body, target)
                message = msgspec.structs.replace(
                    message, origin=msgspec.structs.replace(message.origin, prefix=prefix)
                )
            native = (message,)
        return journal.Compacted(
            up_to_seq, summary=summary, native=native, usage=reply.usage, cost=cost, model=_model_of(reply)
        )

    async def _call_function(self, up_to_seq: int, focus: str) -> journal.Compacted:
        by = (self.context.compaction or DEFAULT).by
        assert not isinstance(by, str)
        await self._log.append(journal.CompactionRequested("", up_to_seq, "function", focus))
        problem, summary = "the function returned no text", None
        try:
            result = by(Transcript(self._log.next.view(None, up_to_seq)), focus)
            summary = await result if inspect.isawaitable(result) else result
        except Exception as exc:
            logger.exception("session %s: the function for summaries failed", self._log.id)
            problem = f"{type(exc).__name__}: {exc}"[:500]
        if not isinstance(summary, str) or not summary.strip():
            await self._record_failure("NoSummary", problem, None, "")
            raise _NoSummary(problem)
        return journal.Compacted(up_to_seq, summary=summary)

    async def _record_failure(
        self, error: str, message: str, usage: Usage | None, cost: str, *, retryable: bool = False
    ) -> None:
        failed = journal.RequestFailed(
            error, message, retryable=retryable, usage=usage, cost=cost, purpose="compaction"
        )
        await self._log.append(failed)

    async def _write_missing_summary(self, target: Target, settings: Compaction) -> None:
        """After a handover: write the summary for any model if the whole conversation does not fit the new window."""
        held, window = self._log.next.compaction, target.traits.context_window
        if held is None or not window or held.summary or held.messages or not held.up_to_seq:
            return
        view = self._log.next.view(issuer_check(target))
        if len(view) < len(self._log.next.view()) or sum(map(estimate_tokens, view)) < window * settings.at:
            return  # in its scope, or it fits
        kept = Plan(
            up_to_seq=held.up_to_seq, kept=0, tokens_before=self._log.size.total(), tokens_after=0, steps=("model",)
        )
        made = await self._summarize(kept, target, "handover", "")
        if made is not None:
            await self._write(msgspec.structs.replace(made, native=held.native, cleared=held.cleared))


def inline_entry(reply: Reply, block: Marker, up_to_seq: int) -> journal.Compacted:
    """Return the entry for a reply with this block, in which the provider has summarized the conversation so far."""
    summary = block.text or ""
    return journal.Compacted(up_to_seq, summary=summary, inline=True, reason="threshold", model=_model_of(reply))


def check_summary_scope(request: ChatRequest, target: Target) -> None:
    """Raise `BadRequest` if a middleware sends a provider's summary to another provider: it stands for the conversation."""
    first = next((message for message in request.transcript if not isinstance(message, SystemMessage)), None)
    if summary_block(first) is None or not isinstance(first, AssistantMessage) or first.origin is None:
        return
    if not issued_by(first.origin, target):
        raise errors.BadRequest(
            f"the conversation was compacted by {first.origin.provider}: hand the session over to "
            f"{target.provider.name}/{target.model} instead of a fallback of the client"
        )


def _problem(reply: Reply, method: Method, covered: int) -> str:
    """Return why a reply is not a summary of messages with `covered` tokens; empty if it is."""
    message = reply.message
    if message.has_tool_calls():
        return "it calls a tool"
    if method != "model":
        return "" if summary_block(message) is not None else "the provider made no summary"
    if message.incomplete or message.stop_reason != "stop":
        return f"it was cut off ({message.stop_reason or 'incomplete'})"
    if not str(message).strip():
        return "it is empty"
    return "it is not shorter than the messages" if len(str(message)) // TOKEN_CHARACTERS >= covered else ""


def _names_summary(error: errors.LLMError, native: list[AssistantMessage]) -> bool:
    """Return whether an error names the item of a summary, by its id or its encrypted content."""
    tokens = [block.meta for message in native for block in message.blocks if isinstance(block.meta, OpenAiMeta)]
    return any(token.id and token.id in error.raw for token in tokens) or "invalid_encrypted_content" in error.raw


def _takes_focus(target: Target) -> bool:
    """Return whether a compaction on request takes instructions. The endpoint does."""
    return codec_for(target.dialect).compaction_takes_instructions


def _model_of(reply: Reply) -> str:
    origin = reply.message.origin
    return f"{origin.provider}/{origin.model}" if origin is not None else ""
