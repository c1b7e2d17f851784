"""What an agent may be told: typed once for both doors, and read by those who check types."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tenuto.agent.crew import Approve
from tenuto.agent.events import AgentEvent
from tenuto.agent.limits import Limits
from tenuto.client.client import AsyncClient
from tenuto.client.http import Transport
from tenuto.client.middleware import Retry
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.parameters import Key, ModelParameters, ProviderConfig
from tenuto.client.pipeline import Middleware
from tenuto.core.events import StreamEvent
from tenuto.core.provider import Provider
from tenuto.store.protocol import Store

__all__ = ["AgentOptions"]


class AgentOptions(ModelParameters, total=False):
    """What an agent may be told besides its model, and everything that a question may carry.

    `name` tells its sessions from those of other agents in the same store. `limits` bound each run. `store` is a path,
    `sqlite:///...`, `postgresql://...`, a store, or None, which keeps nothing; by default it is a file in the user's
    data folder. `keys`, `providers`, `middleware`, `default_provider`, `transport` and `on_loss` are as for a `Client`; or `client`
    is one that is shared: it keeps its own middleware, and is not closed with the agent.
    `approve` is asked for calls that need somebody's word; without it, they leave the session waiting. `retry` says how
    a model is asked again after an error. `allow_unverified` accepts a model that agents refuse; the journal records it. `listeners`
    hear of everything that happens in its sessions. `fallback` are models with whom a session goes on where its own does
    not answer: the one to whom the most can be handed over first. `strict` asks nobody again without a block that was
    refused. `timeout` is for each question, in seconds or as `Timeouts`. `now`
    (milliseconds since 1970) and `new_id` are where times and ids come from.
    """

    system: str
    tools: Iterable[object]
    name: str
    limits: Limits
    store: str | os.PathLike[str] | Store | None
    keys: Mapping[str, Key]
    providers: Sequence[Provider] | Mapping[str, ProviderConfig]
    middleware: Iterable[Middleware] | None
    default_provider: str | None
    transport: Transport | None
    on_loss: OnLoss
    client: AsyncClient
    approve: Approve | None
    retry: Retry
    allow_unverified: bool
    fallback: Sequence[str]
    strict: bool
    listeners: Iterable[Callable[[StreamEvent | AgentEvent], Any]]
    timeout: float | Timeouts | None
    now: Callable[[], int]
    new_id: Callable[[], str]
