"""The agent: a model with instructions, tools and limits, and the store of its sessions."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec

from tenuto import settings
from tenuto.agent.config import admit, check_names, check_type, make_config, roots_text, stored_parameters
from tenuto.agent.hooks import Hooks, check_hooks
from tenuto.agent.inbox_watcher import InboxWatcher
from tenuto.agent.limits import Limits
from tenuto.agent.run_context import Approve, Listener, RunContext
from tenuto.agent.session import AsyncSession
from tenuto.agent.session_log import IdSource, LeaseOptions, SessionLog, system_ids
from tenuto.agent.sub_agents import AgentTool
from tenuto.client.client import AsyncClient
from tenuto.client.http import Transport
from tenuto.client.middleware.base import Middleware
from tenuto.client.middleware.retry import Retry
from tenuto.client.options import OnLoss, Timeouts
from tenuto.client.parameters import Key, ModelParameters, ProviderConfig
from tenuto.client.signatures import expand_parameters
from tenuto.core.journal import Configured
from tenuto.core.provider import Provider
from tenuto.errors import SessionNotFound
from tenuto.store.ids import check_id, new_id
from tenuto.store.open import open_store
from tenuto.store.protocol import Store
from tenuto.tools.toolbox import Toolbox, ToolSource, is_tool_source


class AgentOptions(ModelParameters, total=False):
    """The options of an agent, and the parameters of its requests."""

    system: str
    """The instructions: the system prompt."""
    tools: Iterable[object]
    """Functions, `Tool`s, server tools, dispatchers and tool sources."""
    name: str
    """Distinguishes its sessions from those of other agents in the same store."""
    limits: Limits
    """The limits of each run."""
    store: str | os.PathLike[str] | Store | None
    """A path, `sqlite:///...`, `postgresql://...`, a store, or None for memory; by default a file in the user's data
    directory."""
    keys: Mapping[str, Key]
    """API keys by provider, as for a `Client`."""
    providers: Sequence[Provider] | Mapping[str, ProviderConfig]
    """Custom providers, as for a `Client`."""
    middleware: Iterable[Middleware] | None
    """Middleware around each request, as for a `Client`."""
    default_provider: str | None
    """The provider of model names without one."""
    transport: Transport | None
    """The HTTP transport, as for a `Client`."""
    on_loss: OnLoss
    """Receives losses, as for a `Client`."""
    client: AsyncClient
    """A client to share. It keeps its own middleware and is not closed with the agent."""
    approve: Approve | None
    """Decides about calls that need approval; without it, they leave the session waiting."""
    hooks: Iterable[Hooks]
    """Objects around runs, requests and tool calls; the first one is the outermost."""
    retry: Retry
    """When to send a failed request again."""
    allow_unverified: bool
    """Accept a model that agents refuse. The journal records it."""
    fallback: Sequence[str]
    """Models to continue with if the session's own fails; the one that keeps most of the transcript comes first."""
    strict: bool
    """Do not repeat a request without a block that its provider refused."""
    listeners: Iterable[Listener]
    """Receive all events of all sessions."""
    timeout: float | Timeouts | None
    """The time limit of each request, in seconds or as `Timeouts`."""
    now: Callable[[], int]
    """The clock: milliseconds since 1970."""
    new_id: Callable[[], str]
    """Creates entry ids."""


_CLIENT_OPTIONS = ("keys", "providers", "middleware", "default_provider", "transport", "on_loss")
"""Options of the client that the agent creates for itself."""
_OWN_OPTIONS = tuple(
    name for name in AgentOptions.__annotations__ if name not in {*ModelParameters.__annotations__, *_CLIENT_OPTIONS}
)
"""Options of the agent itself; all others are parameters of each request."""
_TYPES: dict[str, type] = {"system": str, "name": str, "limits": Limits, "client": AsyncClient, "retry": Retry}
RETRIES = 4
"""How often an agent sends a failed request again by default. It is more than for a client: no person waits."""


class AsyncAgent:
    """Runs sessions with one model and its tools.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent; `TypeError` and `ValueError` for
    invalid options. Close it with `async with` or `close()`.
    """

    @expand_parameters(ModelParameters, AgentOptions)
    def __init__(self, model: str, **options: Unpack[AgentOptions]) -> None:
        rest: dict[str, Any] = dict(options)
        check_names(rest, (*_OWN_OPTIONS, *_CLIENT_OPTIONS))
        check_type("model", model, str)
        for name, expected in _TYPES.items():
            if rest.get(name) is not None:
                check_type(name, rest[name], expected)
        own = {name: rest.pop(name) for name in _OWN_OPTIONS if name in rest}
        self.name: str = own.get("name", "")
        tools = [*own.get("tools", ())]
        self._sources: list[ToolSource] = [tool for tool in tools if is_tool_source(tool)]
        self._sources_open = not self._sources
        self._source_lock = asyncio.Lock()
        self._plain_tools = [tool for tool in tools if not is_tool_source(tool)]
        self.toolbox = Toolbox(self._plain_tools)
        self.limits: Limits = own.get("limits") or Limits()
        self._unverified = bool(own.get("allow_unverified"))
        self._shared_client: AsyncClient | None = own.get("client")
        client_options = {name: rest.pop(name) for name in _CLIENT_OPTIONS if name in rest}
        self._has_own_client = self._shared_client is not None or bool(client_options)
        # Retries are the agent's: its client has no middleware by default.
        self.client = self._shared_client or AsyncClient(**{"middleware": [], **client_options})
        self.model = self.client._full_name(model)
        fallback = tuple(map(self.client._full_name, own.get("fallback", ())))
        for each in (self.model, *fallback):
            self._check_model(each, allow_unverified=self._unverified)
        self._parameters, headers = stored_parameters(rest)
        ids = system_ids()
        self._ids = IdSource(own.get("now") or ids.now, own.get("new_id") or ids.new_id)
        self._store_option: Any = own.get("store", ...)
        self._store: Store | None = None
        self._store_lock = threading.Lock()
        self._listeners = tuple(own.get("listeners", ()))
        self._sessions: weakref.WeakSet[AsyncSession] = weakref.WeakSet()
        self._inbox_watcher = InboxWatcher(lambda: self.store)
        self._context = RunContext(
            client=self.client,
            toolbox=self.toolbox,
            system=own.get("system"),
            retry=own.get("retry") or Retry(RETRIES),
            limits=self.limits,
            approve=own.get("approve"),
            hooks=check_hooks(own.get("hooks", ())),
            headers=headers,
            timeout=own.get("timeout"),
            fallback=fallback,
            strict=bool(own.get("strict")),
        )
        self._configured = self._make_config()
        self.closed = False

    def _make_config(self) -> Configured:
        return make_config(
            self.model,
            self._context.system or "",
            self._parameters,
            self.toolbox.definitions(),
            agent=self.name,
            allow_unverified=self._unverified,
            roots=roots_text(self.toolbox.roots()),
        )

    # --- sessions ---

    def session(self, id: str = "", *, owner: str = "", generation: int = 0) -> AsyncSession:
        """Open the session with exactly this id, or create it; without an id, create a new one.

        Nothing is read or written before the first run; `async with` and `load()` read it at once. `owner` and `generation`
        identify the lease holder, for a job that is delivered again: the same owner with a higher generation replaces its
        predecessor at once.
        """
        options = LeaseOptions(owner, generation)
        log = SessionLog(
            self.store, check_id(id or new_id(self._ids.now())), self._ids, new=True, lease_options=options
        )
        return self._open(log)

    async def resume(
        self,
        session: str = "last",
        *,
        takeover: bool = False,
        root: str | os.PathLike[str] | None = None,
        owner: str = "",
        generation: int = 0,
    ) -> AsyncSession:
        """Find a stored session: by its id, a unique prefix of it, its name, `last` or `~N`. Nothing is written.

        The session keeps its model and parameters. The next run uses this agent's tools, and its instructions if it has
        any. Built-in tools work in the directory that the session has stored; `root` is another one for them. `takeover`
        takes the session over from the process that holds it. `owner` and `generation` are as for `session`. Raise
        `SessionNotFound`, and `StoreError` for a session that a later version wrote.
        """
        await self._open_sources()
        id = await self.store.find(session, agent=self.name)
        log = SessionLog(self.store, id, self._ids, lease_options=LeaseOptions(owner, generation))
        await log.read()
        opened = self._open(log, root)
        if takeover:
            await opened._take_over()
        await opened._refresh_pending()
        return opened

    def as_tool(self, name: str, description: str = "", *, background: bool = False) -> AgentTool:
        """Return the agent as a tool. A call has a prompt and runs in its own session.

        `background`: the call returns at once, and the model receives the result later as a message.
        """
        return AgentTool(self, name, description, background=background)

    # --- lifetime ---

    @property
    def store(self) -> Store:
        """The store of the sessions."""
        if self.closed:
            raise RuntimeError("the agent is closed")
        with self._store_lock:  # threads of the sync agent may come here at the same time
            if self._store is None:
                self._store = open_store(settings.store() if self._store_option is ... else self._store_option)
            return self._store

    async def close(self) -> None:
        """Close every session, the tool sources and the store; a store or client that was passed in stays open."""
        if self.closed:
            return
        for session in tuple(self._sessions):
            await session.close()
        self.closed = True
        if self._sources and self._sources_open:
            for source in self._sources:
                await source.close()
        if self._store is not None and self._store is not self._store_option:
            await self._store.close()
        if self._shared_client is None:
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

    def _check_model(self, model: str, *, allow_unverified: bool) -> None:
        """Raise `UnsupportedModel` for a model that agents refuse, unless `allow_unverified`."""
        tools = bool(self.toolbox.definitions())
        admit(model, self.client._target(model), allow_unverified=allow_unverified or self._unverified, tools=tools)

    async def _open_sources(self) -> None:
        """Open the tool sources before the first run."""
        async with self._source_lock:
            if self._sources_open:
                return
            tools = [*self._plain_tools]
            async with AsyncExitStack() as opened:  # if one fails, those before it are closed
                for source in self._sources:
                    tools += await source.open()
                    opened.push_async_callback(source.close)
                self.toolbox = Toolbox(tools)
                opened.pop_all()
            self._context = msgspec.structs.replace(self._context, toolbox=self.toolbox)
            self._configured = self._make_config()
            self._sources_open = True
            for session in self._sessions:
                session._use_tools(self.toolbox, self._configured)

    def _open(self, log: SessionLog, root: str | os.PathLike[str] | None = None) -> AsyncSession:
        context = self._context
        if root is not None:
            toolbox = self.toolbox.at_roots(dict.fromkeys(self.toolbox.roots(), os.path.realpath(root)))
            context = msgspec.structs.replace(context, toolbox=toolbox, keep_roots=False)
        return self._with_listeners(AsyncSession(self, log, context, self._configured))

    def _with_listeners(self, session: AsyncSession) -> AsyncSession:
        for listener in self._listeners:
            session.on_event(listener)
        self._sessions.add(session)
        return session

    async def _fork(self, session: str, at: int | None) -> AsyncSession:
        """Fork a session after an entry."""
        id = await self.store.fork(session, at=at, id=new_id(self._ids.now()))
        log = SessionLog(self.store, id, self._ids)
        await log.read()
        return self._open(log)

    async def _open_child(self, parent: AsyncSession, id: str, name: str) -> AsyncSession:
        """Open the session in which this agent runs a tool call of `parent`.

        It uses the parent's store and shares its budget. The parent's hooks surround its own. It uses the parent's client
        and approver unless it has its own.
        """
        await self._open_sources()
        above = parent._context
        context = msgspec.structs.replace(
            self._context,
            client=self.client if self._has_own_client else above.client,
            approve=self._context.approve or above.approve,
            hooks=(*above.hooks, *(hook for hook in self._context.hooks if hook not in above.hooks)),
        )
        configured = msgspec.structs.replace(self._configured, agent=self.name or name)
        log = parent._log.sibling(id, new=True)
        with suppress(SessionNotFound):
            await log.read()
        child = AsyncSession(parent._agent, log, context, configured, parent)
        for listener in self._listeners:
            child.on_event(listener)
        return child
