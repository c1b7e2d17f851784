"""Compact the conversation of a session: shorten what later requests contain, and keep the journal as it is.

An entry is written before each request for a summary, so that a kill costs at most one. A summary that cannot be used
leaves the whole conversation in place, and the next attempt waits until the conversation has grown.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto import errors
from tenuto.agent.compaction_plan import DEFAULT, Compaction, Method, Plan, clear_results, plan
from tenuto.agent.config import RunContext
from tenuto.agent.events import CompactionFinished, CompactionStarted
from tenuto.agent.hooks import RequestInfo, run_around
from tenuto.client.middleware.retry import RetryState
from tenuto.client.reply import Reply
from tenuto.core import journal
from tenuto.core.blocks import Marker, OpenAiMeta
from tenuto.core.messages import AssistantMessage, SystemMessage, Usage, summary_block
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.core.summary import TOKEN_CHARACTERS, estimate_tokens
from tenuto.core.transcript import Transcript
from tenuto.wire.codec import codec_for
from tenuto.wire.prefix_binding import compacted_prefix
from tenuto.wire.token_scope import issued_by, issuer_check
from tenuto.wire.write import ENCODER_VERSION

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

logger = logging.getLogger("tenuto")

_SOURCE_SHARE = 0.6
"""The share of the window of the model that the text to summarize may take."""
_UNKNOWN_WINDOW = 32_000
"""The window of a model whose window is not known."""


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
