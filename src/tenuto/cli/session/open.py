"""Open or create the session that the options name: store, agent, tools, API key."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import AgentEvent
from tenuto.agent.limits import Limits
from tenuto.agent.session import AsyncSession
from tenuto.cli.config import configured_providers
from tenuto.cli.keys_file import load_keys
from tenuto.cli.options import RunOptions, parse_parameters
from tenuto.cli.session.approval import Approver
from tenuto.cli.session.models import check_handover_target, default_model, resolve_model, split_effort
from tenuto.cli.session.policy import Policy
from tenuto.cli.session.prompt_input import read_system_prompt
from tenuto.cli.session.tools import load_tools, restore_tools
from tenuto.cli.store import check_session_name, find_session, is_missing_file
from tenuto.client.routing import Router
from tenuto.core.events import StreamEvent
from tenuto.core.journal import Configured, Entry
from tenuto.core.next_request import config_after
from tenuto.core.provider import Target
from tenuto.errors import SessionNotFound
from tenuto.store.open import open_store
from tenuto.store.protocol import Store
from tenuto.tools.toolbox import AnyTool

Listener = Callable[[StreamEvent | AgentEvent], object]


class OpenSession(NamedTuple):
    """An agent, and the session that is meant."""

    agent: AsyncAgent
    session: AsyncSession


@asynccontextmanager
async def open_session(
    options: RunOptions, approve: Approver | None, *, tell: Listener | None = None, asks: bool = True
) -> AsyncIterator[OpenSession]:
    """Open the session that `options` name, or begin one; close everything at the end.

    A continued session is renamed and switched to `options.model` now; `tell` receives the events. A new session is named
    by the caller after its first entry; here only check that the name is free. Nothing of a new session is written. Check
    that there is an API key, unless a continued session has no pending work and no message will be sent (`asks`).

    Raise `click.UsageError` for options that cannot be used, `MissingKey`, `SessionNotFound`, and the errors of
    `AsyncAgent.resume`.
    """
    place = None if options.ephemeral else options.store or settings.store()
    try:
        store = open_store(place)
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None
    async with store:
        named = options.session
        if named and (place is None or is_missing_file(place)):  # nothing is made where there is nothing to find
            raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
        id = await find_session(store, named) if named else ""
        if name := options.name:
            await check_name_is_free(name, None if place is None or is_missing_file(place) else store, id)
        opener = SessionOpener(options, store, approve)
        async with opener.resume(id, tell, asks=asks) if id else opener.begin() as made:
            yield made


async def check_name_is_free(name: str, store: Store | None, id: str) -> None:
    """Raise `click.UsageError` for a name that cannot be options, or that a session other than this one has."""
    check_session_name(name)
    if store is None:
        return
    try:
        other = await store.session(await store.find(name))
    except SessionNotFound:
        return
    if other.name == name and other.id != id:
        raise click.UsageError(
            f"another session is called {name!r}: {other.id}; continue it (--session {shlex.quote(name)}) or choose another name"
        )


class SessionOpener:
    """Makes the agent, with the store at hand; what it does not take was typed, and so it is a matter of usage."""

    def __init__(self, options: RunOptions, store: Store, approve: Approver | None) -> None:
        self._options = options
        self._store = store
        self._approve = approve
        self._policy = Policy(options.allow, options.deny, typed=options.explicit)
        self._keys = load_keys()
        self._providers = configured_providers()
        self._router = Router(self._keys, self._providers, None)
        self._resolve = partial(resolve_model, find=self._router.target)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[OpenSession]:
        """Begin a session."""
        options = self._options
        model, effort = split_effort(options.model or default_model(None).model)
        asked = _session_settings(options, effort, self._resolve(model))
        tools = load_tools(options.tool, options.root)
        async with AsyncExitStack() as stack:
            provider = self._resolve(model).provider.name
            if options.no_key and provider not in self._providers:
                self._providers[provider] = {"base_url": await stack.enter_async_context(_first_simulator())}
            agent = await stack.enter_async_context(self._agent(model, tools, asked))
            await self.require_key(model, asked.get("extra_headers", {}))
            yield OpenSession(agent, agent.session())

    @asynccontextmanager
    async def resume(self, id: str, tell: Listener | None, *, asks: bool) -> AsyncIterator[OpenSession]:
        """Go on with a session, and with another model if one is options."""
        options = self._options
        model = options.model or ""
        kept = _stored_config(await self._store.read(id))
        root = options.root
        tools = restore_tools(kept, load_tools(options.tool, root), root)
        asked = {"allow_unverified": kept.allow_unverified, "name": kept.agent} if kept is not None else {}
        own = kept.model if kept is not None else model
        self._resolve(own)
        if model:
            model = check_handover_target(model, self._router.target)
        async with self._agent(own, tools, {name: value for name, value in asked.items() if value}) as agent:
            session = await agent.resume(id, takeover=options.takeover, root=_explicit_root(options))
            if asks or session.has_pending_work:
                await self.require_key(model or own)
            if name := options.name:
                await self._store.rename(id, name)
            if model and model != session.model:
                await _switch_model(session, model, tell)
            yield OpenSession(agent, session)

    def _agent(self, model: str, tools: Sequence[AnyTool], asked: Mapping[str, Any]) -> AsyncAgent:
        options = self._options
        fallback = [name.strip() for name in (options.fallback or "").split(",") if name.strip()]
        for other in fallback:
            self._resolve(other)
        try:
            return AsyncAgent(
                model,
                store=self._store,
                tools=self._policy.wrap_tools(tools),
                limits=_parse_limits(options),
                approve=self._approve,
                fallback=fallback,
                keys=self._keys,
                providers=self._providers,
                on_loss="keep",  # the command reports losses itself
                **asked,
            )
        except (TypeError, ValueError) as exc:
            raise click.UsageError(str(exc)) from None

    async def require_key(self, model: str, headers: Mapping[str, str] | None = None) -> None:
        """Raise `MissingKey` now, and not once something is written. The simulator needs none, and is not started for it."""
        target = self._resolve(model)
        if not target.provider.plays:
            await self._router.endpoint(target, {name.lower() for name in headers or ()})


@asynccontextmanager
async def _first_simulator() -> AsyncIterator[str]:
    """Start a simulator that says why it answers; yield its URL."""
    from tenuto.client.routing import LocalSimulator
    from tenuto.sim.default_reply import GREETING

    simulator = LocalSimulator(greeting=GREETING)
    try:
        yield await simulator.url()
    finally:
        await simulator.close()


def _session_settings(options: RunOptions, effort: str | None, target: Target) -> dict[str, Any]:
    """Return what a new session asks with."""
    if effort is not None and "effort" in options.explicit and effort != options.effort:
        raise click.UsageError(f"use either -m ...:{effort} or --effort {options.effort}")
    system = read_system_prompt(options.system)
    parameters: dict[str, Any] = {}
    if options.option:
        parameters = parse_parameters(options.option)
    if named := options.schema:
        from tenuto.cli.session.output_schema import schema_request

        if "response_format" in parameters:
            raise click.UsageError("use either --schema or -o response_format")
        parameters["response_format"], words = schema_request(named, target)
        system = "\n\n".join(filter(None, (system, words)))
    asked = {
        "system": system,
        "effort": effort or options.effort,
        "max_tokens": options.max_tokens,
        "allow_unverified": options.allow_unverified or None,
        **parameters,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _explicit_root(options: RunOptions) -> Path | None:
    """Return the directory that `--root` names; None keeps that of the session."""
    return Path(options.root).expanduser() if "root" in options.explicit else None


async def _switch_model(session: AsyncSession, model: str, tell: Listener | None) -> None:
    forget = session.on_event(tell) if tell is not None else None
    try:
        await session.handover(model)
    finally:
        if forget is not None:
            forget()


def _parse_limits(options: RunOptions) -> Limits:
    bounds: dict[str, tuple[str, Any]] = {
        "turns": ("--max-turns", options.max_turns),
        "tokens": ("--max-tokens-total", options.max_tokens_total),
        "usd": ("--max-usd", options.max_usd),
        "seconds": ("--timeout", options.timeout),
    }
    held: dict[str, Any] = {}
    for name, (flag, bound) in bounds.items():
        if bound is None:
            continue
        try:
            Limits(**{name: bound})
        except (TypeError, ValueError) as exc:
            raise click.UsageError(f"{flag}: {str(exc).partition(', or None')[0]}") from None
        held[name] = bound
    return Limits(**held)


def _stored_config(entries: Sequence[Entry]) -> Configured | None:
    """What a session asks with, as far as it is written."""
    kept: Configured | None = None
    for entry in entries:
        kept = config_after(kept, entry.payload)
    return kept
