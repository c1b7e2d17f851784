"""Handing a session over to another model: what cannot go along, and who is the best to go on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tenuto.agent.config import admit
from tenuto.agent.run_context import RunContext
from tenuto.agent.session_log import SessionLog, own_clock
from tenuto.catalog import resolve
from tenuto.core.journal import HandedOver
from tenuto.core.next_request import Tools
from tenuto.core.provider import Target
from tenuto.errors import BadRequest, ContextTooLong, LLMError, StoreError
from tenuto.store.protocol import Store
from tenuto.wire.write import write_request

__all__ = ["best_fallback", "hand_over", "handover_entry"]

_SETTLED = ("open-call", "prefill-refused")
"""What is open is answered, and behind an answer the user speaks, before the model is asked: neither is a loss."""


def handover_entry(
    model: str, log: SessionLog, find: Callable[[str], Target], tools: Tools | None = None
) -> HandedOver:
    """Return the entry that hands a session over, with everything that cannot go along.

    Raise `UnknownProvider` for a model that is nobody's, `TranscriptError` for what cannot be written at all.
    """
    request = log.next_request(tools)
    wire = write_request(msgspec.structs.replace(request, model=model), find(model))
    losses = tuple(loss for loss in wire.losses if loss.kind not in _SETTLED)
    return HandedOver(model, previous_model=request.model, losses=losses)


def best_fallback(error: LLMError, models: Iterable[str], log: SessionLog, crew: RunContext) -> HandedOver | None:
    """Return the entry that hands a session over to the model with the fewest losses, the first of several; else None.

    A request that was refused for its content is not sent to another model; one that was too long is sent to a model with
    a larger context window.
    """
    if isinstance(error, ContextTooLong):
        models = _larger(models, log, crew)
    elif isinstance(error, BadRequest):
        return None
    found = [handover_entry(model, log, crew.client._target, crew.toolbox.definitions()) for model in models]
    return min(found, key=lambda act: len(act.losses), default=None)


def _larger(models: Iterable[str], log: SessionLog, crew: RunContext) -> list[str]:
    """Return the models with a larger context window than the session's own; an unknown window is not larger."""
    own = log.configured
    window = crew.client._target(own.model).traits.context_window if own is not None else None
    return [model for model in models if (crew.client._target(model).traits.context_window or 0) > (window or 0)]


async def hand_over(
    store: Store, session: str, model: str, *, takeover: bool = False, find: Callable[[str], Target] = resolve
) -> HandedOver | None:
    """Hand a session of a store over, without an agent; return what was written, None if it asks this model already.

    Raise `UnsupportedModel` for a model on which a session cannot rely, `SessionInUse` unless `take`.
    """
    log = SessionLog(store, session, own_clock(), new=False)
    await log.read()
    kept = log.configured
    if kept is None:
        raise StoreError(f"session {session!r} has no configuration: nothing was asked in it")
    if model == kept.model:
        return None
    admit(model, find(model), allow_unverified=kept.allow_unverified, tools=bool(kept.tools))
    await log.acquire(takeover=takeover)
    try:
        if log.configured is not None and model == log.configured.model:  # somebody else has done it meanwhile
            return None
        act = handover_entry(model, log, find)
        await log.append(act)
    finally:
        await log.release()
    return act
