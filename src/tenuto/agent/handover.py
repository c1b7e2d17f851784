"""Hand a session over to another model, and choose the fallback model that loses least."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tenuto.agent.config import RunContext, admit
from tenuto.agent.session_log import IdSource, SessionLog
from tenuto.catalog import resolve
from tenuto.core.journal import HandedOver
from tenuto.core.next_request import Tools
from tenuto.core.provider import Target
from tenuto.errors import BadRequest, ContextTooLong, LLMError, StoreError
from tenuto.store.protocol import Store
from tenuto.wire.token_scope import issuer_check
from tenuto.wire.write import write_request

_TEMPORARY = ("open-call", "prefill-refused")
"""Losses that the next request does not have: by then open calls have results, and the last message is the user's."""


def handover_entry(
    model: str, log: SessionLog, find: Callable[[str], Target], tools: Tools | None = None
) -> HandedOver:
    """Return the entry that hands a session over, with the losses of the switch.

    Raise `UnknownProvider` for an unknown provider, `TranscriptError` for content that cannot be sent to the model.
    """
    target = find(model)
    request = log.next_request(tools, in_scope=issuer_check(target))
    wire = write_request(msgspec.structs.replace(request, model=model), target)
    losses = tuple(loss for loss in wire.losses if loss.kind not in _TEMPORARY)
    return HandedOver(model, previous_model=request.model, losses=losses)


def best_fallback(error: LLMError, models: Iterable[str], log: SessionLog, context: RunContext) -> HandedOver | None:
    """Return the entry that hands a session over to the model with the fewest losses, the first of several; else None.

    A request that was refused for its content is not sent to another model; one that was too long is sent to a model with
    a larger context window.
    """
    find = context.client._target
    if isinstance(error, ContextTooLong):
        assert log.next.configured is not None  # a request was sent
        window = find(log.next.configured.model).traits.context_window or 0  # an unknown window is not larger
        models = [model for model in models if (find(model).traits.context_window or 0) > window]
    elif isinstance(error, BadRequest):
        return None
    entries = [handover_entry(model, log, find, context.toolbox.definitions()) for model in models]
    return min(entries, key=lambda entry: len(entry.losses), default=None)


async def hand_over(
    store: Store, session: str, model: str, *, takeover: bool = False, find: Callable[[str], Target] = resolve
) -> HandedOver | None:
    """Hand a stored session over without an agent. Return the entry; None if the session uses this model already.

    Raise `UnsupportedModel` for a model that agents refuse, `SessionInUse` if a live process holds the session, unless
    `takeover`.
    """
    log = SessionLog(store, session, IdSource())
    await log.read()
    stored = log.next.configured
    if stored is None:
        raise StoreError(f"session {session!r} has no configuration: send a message first")
    if model == stored.model:
        return None
    admit(model, find(model), allow_unverified=stored.allow_unverified, tools=bool(stored.tools))
    await log.acquire(takeover=takeover)
    try:
        stored = log.next.configured
        if stored is not None and model == stored.model:  # another process has switched meanwhile
            return None
        entry = handover_entry(model, log, find)
        await log.append(entry)
    finally:
        await log.release()
    return entry
