"""The agent: a model, what it is told, its tools and limits; and the store in which its sessions are kept."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec

from tenuto import settings
from tenuto.agent.config import admit, check_names, check_type, make_config, roots_text, stored_parameters
from tenuto.agent.events import AgentEvent
from tenuto.agent.limits import Limits
from tenuto.agent.run_context import Approve, RunContext
from tenuto.agent.session import AsyncSession
from tenuto.agent.session_log import IdSource, SessionLog, own_clock
from tenuto.agent.sub_agents import AgentTool, SubAgents
from tenuto.client.client import AsyncClient
from tenuto.client.http import Transport
from tenuto.client.middleware.base import Middleware
from tenuto.client.middleware.retry import Retry
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.parameters import Key, ModelParameters, ProviderConfig
from tenuto.client.signatures import expand_parameters
from tenuto.core.events import StreamEvent
from tenuto.core.provider import Provider
from tenuto.errors import SessionNotFound
from tenuto.store.ids import check_id, new_id
from tenuto.store.open import open_store
from tenuto.store.protocol import Store
from tenuto.tools.toolbox import Toolbox

__all__ = ["OPTIONS", "AgentOptions", "AsyncAgent"]


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


OPTIONS = (
    *(
        "system",
        "tools",
        "name",
        "limits",
        "store",
        "client",
        "approve",
        "retry",
        "allow_unverified",
        "listeners",
        "timeout",
    ),
    *("now", "new_id", "fallback", "strict"),
)
"""What is the agent's own among its options; everything else is said with each question."""
OF_CLIENTS = ("keys", "providers", "middleware", "default_provider", "transport", "on_loss")
"""What is passed on to the client that the agent makes for itself."""
_TYPES: dict[str, type] = {"system": str, "name": str, "limits": Limits, "client": AsyncClient, "retry": Retry}
RETRIES = 4
"""How often a model is asked again by default: an agent works on its own, and has more patience than a person."""


class AsyncAgent:
    """Runs sessions with one model and its tools.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent; `TypeError`
    and `ValueError` for options that are none. Close it with `async with` or `close()`.
    """

    @expand_parameters(ModelParameters, AgentOptions)
    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        given: dict[str, Any] = dict(options)
        check_names(given, (*OPTIONS, *OF_CLIENTS))
        check_type("model", model, str)
        for name, expected in _TYPES.items():
            if given.get(name) is not None:
                check_type(name, given[name], expected)
        own = {name: given.pop(name) for name in OPTIONS if name in given}
        self.name: str = own.get("name", "")
        self.toolbox = Toolbox(own.get("tools", ()))
        self.limits: Limits = own.get("limits") or Limits()
        self._unverified = bool(own.get("allow_unverified"))
        self._given_client: AsyncClient | None = own.get("client")
        self._client_of_its_own = self._given_client is not None or any(name in given for name in OF_CLIENTS)
        self.client = self._given_client or _client(given)
        model = self.client._full_name(model)
        self.model = model
        self.admit(model, allow_unverified=self._unverified)
        fallback = tuple(map(self.client._full_name, own.get("fallback", ())))
        for other in fallback:
            self.admit(other, allow_unverified=self._unverified)
        parameters, headers = stored_parameters(given)
        usual = own_clock()
        self._clock = IdSource(own.get("now") or usual.now, own.get("new_id") or usual.new_id)
        self._where: Any = own.get("store", ...)
        self._store: Store | None = None
        self._opening = threading.Lock()
        self._listeners = tuple(own.get("listeners", ()))
        self._sessions: weakref.WeakSet[AsyncSession] = weakref.WeakSet()
        self._crew = RunContext(
            client=self.client,
            toolbox=self.toolbox,
            system=own.get("system"),
            retry=own.get("retry") or Retry(RETRIES),
            limits=self.limits,
            approve=own.get("approve"),
            headers=headers,
            timeout=own.get("timeout"),
            fallback=fallback,
            strict=bool(own.get("strict")),
        )
        self._configured = make_config(
            model,
            own.get("system") or "",
            parameters,
            self.toolbox.definitions(),
            agent=self.name,
            allow_unverified=self._unverified,
            roots=roots_text(self.toolbox.roots()),
        )
        self.closed = False

    # --- sessions ---

    def session(self, id: str = "") -> AsyncSession:
        """Begin a session; it is kept from the first thing that is said in it. `id` is made, unless it is given."""
        return self._opened(SessionLog(self.store, check_id(id or new_id(self._clock.now())), self._clock, new=True))

    async def resume(
        self, session: str = "last", *, takeover: bool = False, root: str | os.PathLike[str] | None = None
    ) -> AsyncSession:
        """Open a stored session: by its id, a unique prefix of it, its name, `last` or `~N`. Nothing is written.

        The session keeps its model and parameters. The next run uses this agent's tools, and its instructions if it has
        any. Builtin tools work in the directory that the session has stored; `root` is another one for them. `take` takes
        the session over from the process that holds it. Raise `SessionNotFound`, and `StoreError` for a session that a
        later version wrote.
        """
        id = await self.store.find(session, agent=self.name)
        kept = SessionLog(self.store, id, self._clock, new=False)
        await kept.read()
        opened = self._opened(kept, root)
        if takeover:
            await opened.take_over()
        await opened.look()
        return opened

    def as_tool(self, name: str, description: str = "") -> AgentTool:
        """Make a tool of the agent: whoever calls it gives a prompt, and gets the answer of a session of its own."""
        return AgentTool(self, name, description)

    # --- lifetime ---

    @property
    def store(self) -> Store:
        """Where sessions are kept."""
        if self.closed:
            raise RuntimeError("the agent is closed")
        with self._opening:  # threads of the sync agent may come here at the same time
            if self._store is None:
                self._store = open_store(settings.store() if self._where is ... else self._where)
            return self._store

    async def close(self) -> None:
        """Let go of every session and of the store; a store or a client that was given stays open."""
        if self.closed:
            return
        for session in tuple(self._sessions):
            await session.close()
        self.closed = True
        if self._store is not None and self._store is not self._where:
            await self._store.close()
        if self._given_client is None:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}{f' {self.name!r}' if self.name else ''}>"

    # --- for its sessions ---

    def admit(self, model: str, *, allow_unverified: bool) -> None:
        """Raise `UnsupportedModel` for a model that agents refuse, unless `allow_unverified`."""
        tools = bool(self.toolbox.definitions())
        admit(model, self.client._target(model), allow_unverified=allow_unverified or self._unverified, tools=tools)

    def _opened(self, kept: SessionLog, root: str | os.PathLike[str] | None = None) -> AsyncSession:
        if root is None:
            return self._heard(AsyncSession(self, kept, self._crew, self._configured))
        toolbox = self.toolbox.at_roots(dict.fromkeys(self.toolbox.roots(), os.path.realpath(root)))
        crew = msgspec.structs.replace(self._crew, toolbox=toolbox, keep_roots=False)
        return self._heard(AsyncSession(self, kept, crew, self._configured))

    def _heard(self, session: AsyncSession) -> AsyncSession:
        for hear in self._listeners:
            session.on_event(hear)
        return session

    def register(self, session: AsyncSession) -> None:
        """Remember a session that holds its lease, so that closing the agent releases it."""
        self._sessions.add(session)

    async def forked(self, session: str, at: int | None) -> AsyncSession:
        """Branch a session off behind an entry."""
        id = await self.store.fork(session, at=at, id=new_id(self._clock.now()))
        kept = SessionLog(self.store, id, self._clock, new=False)
        await kept.read()
        return self._opened(kept)

    def children_of(self, session: AsyncSession) -> SubAgents:
        """Return the sub-agents of a session."""
        return SubAgents(session)

    async def child_of(self, parent: AsyncSession, id: str, name: str) -> AsyncSession:
        """Open the session in which this agent answers a tool call of `parent`.

        It uses the parent's store and shares its budget; it uses the parent's client and approver unless it has its own.
        """
        above = parent.crew
        crew = msgspec.structs.replace(
            self._crew,
            client=self.client if self._client_of_its_own else above.client,
            approve=self._crew.approve or above.approve,
        )
        mine = msgspec.structs.replace(self._configured, agent=self.name or name)
        kept = parent.log.sibling(id, new=True)
        with suppress(SessionNotFound):
            await kept.read()
        return self._heard(AsyncSession(parent.agent, kept, crew, mine, parent))


def _client(given: dict[str, Any]) -> AsyncClient:
    """Make a client of what the options say of one, and take that from them. Trying again is the agent's own affair."""
    said = {name: given.pop(name) for name in OF_CLIENTS if name in given}
    return AsyncClient(**{"middleware": [], **said})
