"""The agent: a model with instructions, tools and limits, and the store of its sessions."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Generic, TypeVar, Unpack, overload

import msgspec

from tenuto import settings
from tenuto.agent.compaction import DEFAULT, Compaction, native_threshold
from tenuto.agent.config import Approve, RunContext, admit, check_lists, check_names, json_text, stored_parameters
from tenuto.agent.events import Listener
from tenuto.agent.hooks import Hooks, check_hooks
from tenuto.agent.limits import Limits
from tenuto.agent.output import OutputSpec, Validator, add_output
from tenuto.agent.result import Out, Result
from tenuto.agent.run_settings import Instructions, OutputForm, RunParameters, read_instructions
from tenuto.agent.session import AsyncSession, check_metadata
from tenuto.agent.session_log import IdSource, SessionLog
from tenuto.agent.sessions import AsyncSessionStore
from tenuto.agent.sub_agents import AgentTool
from tenuto.client.client import AsyncClient
from tenuto.client.http import Transport
from tenuto.client.middleware.base import Middleware
from tenuto.client.middleware.retry import Retry
from tenuto.client.parameters import (
    Key,
    MessageInput,
    ModelParameters,
    OnLoss,
    ProviderConfig,
    Timeouts,
    expand_parameters,
)
from tenuto.closable import AsyncClosable
from tenuto.core.journal import Configured
from tenuto.core.provider import Provider
from tenuto.errors import SessionNotFound, TenutoError
from tenuto.store.open import open_store
from tenuto.store.protocol import Store
from tenuto.store.sessions import check_id, new_id
from tenuto.tools.execution import Deps
from tenuto.tools.toolbox import Toolbox, ToolSource, is_tool_source

logger = logging.getLogger("tenuto")
T = TypeVar("T")

INBOX_INTERVAL = 0.5
"""The seconds between two looks at the inboxes. One query serves all running sessions of an agent."""


class AgentOptions(ModelParameters, total=False):
    """The options of an agent, and the parameters of its requests."""

    system: str
    """The system prompt; `instructions` follow it."""
    instructions: Instructions
    """Texts, and functions that return one at the start of each run, `async` or not; a function may take the `RunInfo`.
    `Instruction(source, place="message")` is sent as a user message instead."""
    validators: Iterable[Validator]
    """Functions that check the output; they may take the `RunInfo`. They return the output, changed or not, or None, and raise
    `ModelRetry` or `ValueError` to send it back."""
    repairs: int
    """How often a rejected output is sent back in one run; 1 by default."""
    deps_factory: Callable[[AsyncSession[Any, Any]], Any]
    """Makes the dependencies of a session for a run without `deps`, for a worker that resumes sessions."""
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
    compaction: Compaction | None
    """When and how long conversations are compacted; None: never."""
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
_TYPES = {
    "model": str,
    "system": str,
    "name": str,
    "limits": Limits,
    "client": AsyncClient,
    "retry": Retry,
    "repairs": int,
    "compaction": Compaction,
}
RETRIES = 4
"""How often an agent sends a failed request again by default. It is more than for a client: no person waits."""


class _Override(msgspec.Struct, eq=False, frozen=True):
    """The changes of `AsyncAgent.override`: the model, empty for the agent's own, and fields of `RunContext`."""

    model: str = ""
    changes: dict[str, Any] = {}


def _config_for(config: Configured, context: RunContext) -> Configured:
    """Return the configuration with the instructions and tools of a run."""
    toolbox = context.toolbox
    return msgspec.structs.replace(
        config,
        system=context.system or "",
        tools=json_text(toolbox.definitions()),
        roots=json_text(dict(sorted(toolbox.roots.items()))),
    )


class AsyncAgent(AsyncSessionStore, AsyncClosable, Generic[Deps, Out]):
    """Runs sessions with one model and its tools.

    `output`: the type of the output: a pydantic model, a dataclass, a msgspec struct, a TypedDict, a list or union of those, or
    a JSON Schema; None for text. `deps_type`: the type of the dependencies that `run`, `send` and `stream` take as `deps`, and
    tools receive as `context.deps`.

    Raise `UnsupportedModel` for a model that agents refuse, before anything is sent; `TypeError` and `ValueError` for
    invalid options. Close it with `async with` or `close()`.
    """

    @overload
    def __init__(
        self: AsyncAgent[Any, str],
        model: str,
        *,
        output: None = ...,
        deps_type: None = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncAgent[Deps, str],
        model: str,
        *,
        output: None = ...,
        deps_type: type[Deps],
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self, model: str, *, output: type[Out], deps_type: type[Deps] | None = ..., **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncAgent[Deps, Any],
        model: str,
        *,
        output: OutputForm,
        deps_type: type[Deps] | None = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @expand_parameters(ModelParameters, AgentOptions)
    def __init__(self, model: str, *, output: Any = None, deps_type: Any = None, **options: Any) -> None:
        rest: dict[str, Any] = dict(options)
        check_names(rest, AgentOptions.__annotations__, "an agent")
        given = {"model": model, **{name: value for name, value in rest.items() if value is not None}}
        for name, expected in _TYPES.items():
            if name in given and not isinstance(given[name], expected):
                raise TypeError(f"{name}: expected {expected.__name__}, got {type(given[name]).__name__}")
        check_lists(given, ("tools", "hooks", "listeners", "validators", "fallback"))
        for name in ("approve", "deps_factory"):
            if name in given and not callable(given[name]):
                raise TypeError(f"{name}: expected a function, got {type(given[name]).__name__}")
        if given.get("repairs", 0) < 0:
            raise ValueError(f"repairs: expected 0 or more, got {given['repairs']}")
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
            target = self.client._target(each)
            admit(each, target, allow_unverified=self._unverified, tools=bool(self.toolbox.definitions()))
        compaction = own.get("compaction", DEFAULT)
        if compaction is not None and isinstance(compaction.by, str) and "/" in compaction.by:
            self.client._target(self.client._full_name(compaction.by))  # raise for an unknown provider now
        self._parameters, headers = stored_parameters(
            {"cache": "auto", **rest}, native_threshold(compaction, self.client._target(self.model))
        )
        self._ids = IdSource(**{name: own[name] for name in ("now", "new_id") if own.get(name)})
        self._store_option: Any = own.get("store", ...)
        self._stores: dict[str, Store] = {}
        """The open stores by location: the default location may change with the environment."""
        self._store_lock = threading.Lock()
        self._listeners = tuple(own.get("listeners", ()))
        self._sessions: weakref.WeakSet[AsyncSession[Any, Any]] = weakref.WeakSet()
        self._running: dict[str, AsyncSession[Any, Any]] = {}
        """The sessions whose inboxes are watched."""
        self._watcher: asyncio.Task[None] | None = None
        instructions, notes = read_instructions(own.get("instructions", ()))
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
            instructions=instructions,
            notes=notes,
            output_spec=OutputSpec(output, tuple(own.get("validators", ()))),
            repairs=own.get("repairs", 1),
            deps_type=deps_type,
            deps_factory=own.get("deps_factory"),
            compaction=compaction,
        )
        # A type without a schema is an error of this line, not of the first run.
        add_output(Configured(self.model), self._context.output_spec, self.client._target(self.model), self.toolbox)
        self._configured = self._make_config()
        self._overrides: list[_Override] = []
        """The active overrides. The last one is in effect and contains the others."""
        self.closed = False

    def _make_config(self) -> Configured:
        config = Configured(
            model=self.model, parameters=self._parameters, agent=self.name, allow_unverified=self._unverified
        )
        return _config_for(config, self._context)

    @contextmanager
    def override(
        self,
        *,
        model: str | None = None,
        tools: Iterable[object] | None = None,
        system: str | None = None,
        approve: Approve | None = None,
        limits: Limits | None = None,
    ) -> Iterator[None]:
        """Use another model, other tools, instructions, limits or another approver in a block, for example in a test.

        It applies to runs that start inside the block, also of sessions that are open, and of this agent as a tool; the
        journal records it. A session with history is handed over to the model, and back for its first run after the block.
        Blocks may be nested. Raise `UnsupportedModel` for a model that agents refuse, `TypeError` for a tool source.
        """
        outer = self._overrides[-1] if self._overrides else _Override()
        changes: dict[str, Any] = {"system": system, "approve": approve, "limits": limits}
        if tools is not None:
            items: list[Any] = [*tools]
            if any(map(is_tool_source, items)):
                raise TypeError("override(tools=...) takes functions and tools, no tool sources")
            changes["toolbox"] = Toolbox(items)
        changes = outer.changes | {name: value for name, value in changes.items() if value is not None}
        active = _Override(self.client._full_name(model) if model else outer.model, changes)
        if model:
            toolbox = changes.get("toolbox", self.toolbox)
            target = self.client._target(active.model)
            admit(active.model, target, allow_unverified=self._unverified, tools=bool(toolbox.definitions()))
        self._overrides.append(active)
        try:
            yield
        finally:
            self._overrides.remove(active)

    def _settings(self, context: RunContext, config: Configured) -> tuple[RunContext, Configured]:
        """Return the settings of a run: these, or those of an override."""
        for active in self._overrides[-1:]:
            context = msgspec.structs.replace(context, **active.changes)
            config = _config_for(msgspec.structs.replace(config, model=active.model or config.model), context)
        return context, config

    # --- sessions ---

    @overload
    async def run(
        self, prompt: MessageInput, *, session: str = ..., output: None = ..., **options: Unpack[RunParameters[Deps]]
    ) -> Result[Out, AsyncSession[Deps, Out]]: ...
    @overload
    async def run(
        self, prompt: MessageInput, *, session: str = ..., output: type[T], **options: Unpack[RunParameters[Deps]]
    ) -> Result[T, AsyncSession[Deps, Out]]: ...
    @overload
    async def run(
        self, prompt: MessageInput, *, session: str = ..., output: OutputForm, **options: Unpack[RunParameters[Deps]]
    ) -> Result[Any, AsyncSession[Deps, Out]]: ...
    @expand_parameters(ModelParameters, RunParameters)
    async def run(
        self,
        prompt: MessageInput,
        *,
        session: str = "",
        output: Any = None,
        **options: Any,
    ) -> Result[Any, AsyncSession[Deps, Out]]:
        """Send a prompt in a new session, run tools until the model is done, and return the result.

        `session`: the id of a session to use, which is created if it does not exist. The session stays in the store:
        `result.session` continues it. `output` and the other options are those of `AsyncSession.send`.
        """
        opened = self.session(session)
        result: Result[Any, AsyncSession[Deps, Out]] = await opened.send(prompt, output=output, **options)
        return result

    def session(
        self,
        id: str = "",
        *,
        metadata: Mapping[str, str] | None = None,
        owner: str = "",
        generation: int = 0,
        deps: Deps | None = None,
    ) -> AsyncSession[Deps, Out]:
        """Open the session with exactly this id, or create it; without an id, create a new one.

        Nothing is read or written before the first run; `async with` and `load()` read it at once. `metadata` are keys and
        values by which `sessions` finds it, stored with the next message. `owner` and `generation` identify the lease
        holder, for a job that is delivered again: the same owner with a higher generation replaces its predecessor at
        once. `deps` are the dependencies of its runs.
        """
        id = check_id(id or new_id(self._ids.now()))
        log = SessionLog(self.store, id, self._ids, new=True, owner=owner, generation=generation)
        session = self._open(log, deps=deps)
        session._new_metadata = None if metadata is None else check_metadata(metadata)
        return session

    async def resume(
        self,
        session: str = "last",
        *,
        takeover: bool = False,
        root: str | os.PathLike[str] | None = None,
        owner: str = "",
        generation: int = 0,
        deps: Deps | None = None,
    ) -> AsyncSession[Deps, Out]:
        """Find a stored session: by its id, a unique prefix of it, its name, `last` or `~N`. Nothing is written.

        The session keeps its model and parameters. The next run uses this agent's tools, and its instructions if it has
        any. Built-in tools work in the directory that the session has stored; `root` is another one for them. `takeover`
        takes the session over from the process that holds it. `owner`, `generation` and `deps` are as for `session`. Raise
        `SessionNotFound`, and `StoreError` for a session that a later version wrote.
        """
        await self._open_sources()
        id = await self.store.find(session, agent=self.name)
        log = SessionLog(self.store, id, self._ids, owner=owner, generation=generation)
        await log.read()
        opened = self._open(log, root, deps)
        if takeover:  # the holder stops at its next write
            await log.acquire(takeover=True)
            await log.release()
        opened._pending_below = await opened._sub_agents.pending()
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
        location = settings.store() if self._store_option is ... else ""
        with self._store_lock:  # threads of the sync agent may come here at the same time
            if location not in self._stores:  # memory of another location is that of an earlier test
                kept = {key: store for key, store in self._stores.items() if not key.startswith("memory:")}
                self._stores = {**kept, location: open_store(location or self._store_option)}
            return self._stores[location]

    def _use_store(self, store: str | Store) -> None:
        """Use this store, unless the agent was created with one: then raise `ValueError`."""
        if self._store_option not in (..., store):
            raise ValueError(f"agent {self.name!r} has a store of its own: create it without one, or omit this one")
        self._store_option = store

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
        for store in self._stores.values():
            if store is not self._store_option:
                await store.close()
        if self._shared_client is None:
            await self.client.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}{f' {self.name!r}' if self.name else ''}>"

    # --- for its sessions ---

    @contextmanager
    def _watching_inbox(self, session: AsyncSession[Any, Any]) -> Iterator[None]:
        """Tell a session during its run that another process posted to its inbox."""
        self._running[session._log.id] = session
        if self._watcher is None or self._watcher.done():  # done: its loop has ended
            self._watcher = asyncio.create_task(self._watch_inboxes())
        try:
            yield
        finally:
            self._running.pop(session._log.id, None)
            if not self._running and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None

    async def _watch_inboxes(self) -> None:
        while True:
            await asyncio.sleep(INBOX_INTERVAL)
            try:
                for id in await self.store.posted():
                    session = self._running.get(id)
                    if session is not None:
                        session._on_posted(await self.store.inbox(id))
            except TenutoError as exc:  # the run itself reports a broken store
                logger.warning("the inboxes of running sessions could not be read: %s", exc)

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

    def _open(
        self, log: SessionLog, root: str | os.PathLike[str] | None = None, deps: Deps | None = None
    ) -> AsyncSession[Deps, Out]:
        context = self._context
        if root is not None:
            toolbox = self.toolbox.at_roots(dict.fromkeys(self.toolbox.roots, os.path.realpath(root)))
            context = msgspec.structs.replace(context, toolbox=toolbox, keep_roots=False)
        session = AsyncSession[Deps, Out](self, log, context, self._configured, self._listeners, deps=deps)
        self._sessions.add(session)
        return session

    async def _fork(self, session: str, at: int | None, deps: Deps | None = None) -> AsyncSession[Deps, Out]:
        """Fork a session after an entry."""
        id = await self.store.fork(session, at=at, id=new_id(self._ids.now()))
        log = SessionLog(self.store, id, self._ids)
        await log.read()
        return self._open(log, deps=deps)

    async def _open_child(self, parent: AsyncSession[Any, Any], id: str, name: str) -> AsyncSession[Any, Any]:
        """Open the session in which this agent runs a tool call of `parent`.

        It uses the parent's store and shares its budget. The parent's hooks surround its own. It uses the parent's client
        and approver unless it has its own.
        """
        await self._open_sources()
        above = parent._context
        own, configured = self._settings(self._context, self._configured)
        context = msgspec.structs.replace(
            own,
            client=self.client if self._has_own_client else above.client,
            approve=own.approve or above.approve,
            hooks=(*above.hooks, *(hook for hook in own.hooks if hook not in above.hooks)),
        )
        configured = msgspec.structs.replace(configured, agent=self.name or name)
        log = parent._log.sibling(id, new=True)
        with suppress(SessionNotFound):
            await log.read()
        return AsyncSession(parent._agent, log, context, configured, self._listeners, parent)
