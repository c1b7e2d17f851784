"""Open or create the session that the options name: store, agent, tools, API key."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from tenuto.agent.agent import RETRIES, AsyncAgent
from tenuto.agent.call_policy import CallPolicy
from tenuto.agent.config import warned_models
from tenuto.agent.events import ModelChanged
from tenuto.agent.limits import Limits
from tenuto.agent.session import AsyncSession
from tenuto.cli.config import configured_providers, load_config
from tenuto.cli.keys_file import load_keys
from tenuto.cli.options import RunOptions, expand_model, parse_parameters
from tenuto.cli.session.approval import Approver, TerminalApprover
from tenuto.cli.session.approval_store import remembered_patterns
from tenuto.cli.session.call_view import display_path
from tenuto.cli.session.models import (
    check_handover_target,
    default_model,
    is_first_notice,
    model_notice,
    resolve_model,
    split_effort,
)
from tenuto.cli.session.prompt_input import read_system_prompt
from tenuto.cli.session.tools import check_patterns, is_user_tool, load_tools, restore_tools
from tenuto.cli.store import (
    check_session_name,
    describe_session,
    find_session,
    format_age,
    is_missing_file,
    open_or_create_store,
)
from tenuto.client.middleware.retry import Retry
from tenuto.client.routing import LocalSimulator, Router
from tenuto.client.structured_output import output_request, takes_schemas
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.next_request import session_config
from tenuto.core.provider import Target
from tenuto.errors import SessionNotFound, StoreError
from tenuto.store.protocol import Store
from tenuto.store.sessions import places_back
from tenuto.tools.toolbox import AnyTool

TOOL_SOURCES = "tools"  # the key of a session's metadata that has the names of its own tools, as for -T


class OpenSession(NamedTuple):
    agent: AsyncAgent
    session: AsyncSession
    policy: CallPolicy
    note: str = ""  # about the working directory, if it is not the current one
    notices: tuple[
        str, ...
    ] = ()  # why the simulator answers a new session; about a model that the catalog does not list
    continued: str = ""  # the session that `last` or `~N` selected
    switch: ModelChanged | None = None  # the switch of a continued session to another model


@asynccontextmanager
async def open_session(
    options: RunOptions, approve: Approver | None, *, asks: bool = True
) -> AsyncIterator[OpenSession]:
    """Open the session that `options` name, or begin one, of which nothing is written; close everything at the end.

    A continued session is renamed and switched to `options.model` now; the caller names a new one after its first entry. An
    API key is needed unless no request will be sent (`asks` is false and no work is pending). Raise `click.UsageError`,
    `MissingKey`, `SessionNotFound`, and the errors of `AsyncAgent.resume`.
    """
    if options.model or options.fallback:
        fallback = ",".join(expand_model(name.strip()) for name in (options.fallback or "").split(",") if name.strip())
        model = expand_model(options.model) if options.model else None
        options = dataclasses.replace(options, model=model, fallback=fallback)
    place, named = "memory://" if options.ephemeral else options.store, options.session
    if named and is_missing_file(place):
        raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
    async with open_or_create_store(place) as store:
        id = await find_session(store, named) if named else ""
        if name := options.name:
            await check_name_is_free(name, None if is_missing_file(place) else store, id)
        opener = SessionOpener(options, store, approve)
        async with opener.resume(id, asks=asks) if id else opener.begin() as opened:
            if approve is not None:
                approve.session = opened.session
            yield opened


async def check_name_is_free(name: str, store: Store | None, id: str) -> None:
    """Raise `click.UsageError` for an invalid name, or one that another session has."""
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
    """Makes the agent and the session. Values that they refuse are usage errors: they come from options."""

    def __init__(self, options: RunOptions, store: Store, approve: Approver | None) -> None:
        self._options = options
        self._store = store
        self._approve = approve
        self._keys = load_keys()
        self._providers = configured_providers()
        self._tables: dict[str, Any] = load_config().document.get("providers", {})
        self._router = Router(self._keys, self._providers, None)
        self._resolve = functools.partial(resolve_model, find=self._router.target)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[OpenSession]:
        options = self._options
        name, no_key = default_model(options.model)
        model, effort = split_effort(name)
        settings = _session_settings(options, effort, self._resolve(model))
        if self._tables.get(self._resolve(model).provider.name, {}).get("allow_unverified"):
            settings.setdefault("allow_unverified", True)
        notices = [*filter(None, (no_key,)), *self._check_models(model)]
        tools = load_tools(options.tool, options.root)
        policy = self._policy(tools, options.root)
        async with AsyncExitStack() as stack:
            provider = self._resolve(model).provider.name
            if no_key and provider not in self._providers:
                from tenuto.sim.default_reply import GREETING

                simulator = LocalSimulator(greeting=GREETING)
                stack.push_async_callback(simulator.close)
                self._providers[provider] = {"base_url": await simulator.url()}
            agent = await stack.enter_async_context(self._agent(model, tools, policy, settings))
            await self.require_key(model, settings.get("extra_headers", {}))
            session = agent.session()
            if sources := [name for name in options.tool if is_user_tool(name)]:
                await session.set_metadata({TOOL_SOURCES: " ".join(sources)})
            yield OpenSession(agent, session, policy, notices=tuple(notices))

    @asynccontextmanager
    async def resume(self, id: str, *, asks: bool) -> AsyncIterator[OpenSession]:
        options = self._options
        stored, continued = session_config(await self._store.read(id)), ""
        if places_back(options.session) is not None:
            last = await self._store.session(id)
            continued = f"continuing {describe_session(last)}, {format_age(last.meta.updated_at)}"
        tools = restore_tools(stored, load_tools(options.tool, options.root), options.root)
        settings = {} if stored is None else {"allow_unverified": stored.allow_unverified, "name": stored.agent}
        model = stored.model if stored is not None else options.model or ""
        other = check_handover_target(options.model, self._router.target) if options.model else ""
        notices = self._check_models(other or model)
        directory, note = _working_directory(stored, options)
        policy = self._policy(tools, directory)
        async with self._agent(model, tools, policy, settings) as agent:
            root = Path(directory) if "root" in options.explicit else None
            session = await agent.resume(id, takeover=options.takeover, root=root)
            if asks or session.has_pending_work:
                await self.require_key(other or model)
            if name := options.name:
                await self._store.rename(id, name)
            switch, before = None, session.model
            if other and other != before:
                switch = ModelChanged(other, before, await session.handover(other))
            yield OpenSession(agent, session, policy, note, tuple(notices), continued, switch)

    def _check_models(self, model: str) -> list[str]:
        """Resolve the model and the fallbacks; return notices about unlisted ones. With --strict, refuse those."""
        options, fallback = self._options, [name.strip() for name in (self._options.fallback or "").split(",")]
        found = {name: model_notice(self._resolve(name)) for name in (model, *filter(None, fallback))}
        notices = {name: notice for name, notice in found.items() if notice}
        if notices and options.strict:
            raise click.UsageError(f"--strict: {next(iter(notices.values()))}")
        warned_models.update(notices)
        if options.ephemeral:  # nothing is sent back
            return []
        return [f"! {notice}" for notice in notices.values() if is_first_notice(notice)]

    def _policy(self, tools: Sequence[AnyTool], directory: str) -> CallPolicy:
        options = self._options
        can_ask = isinstance(self._approve, TerminalApprover)
        try:
            policy = CallPolicy((*options.allow, *remembered_patterns(directory)), options.deny, can_ask=can_ask)
        except ValueError as exc:
            raise click.UsageError(str(exc)) from None
        typed = [one for name in ("allow", "deny") if name in options.explicit for one in getattr(options, name)]
        check_patterns(policy, typed, tools)
        return policy

    def _agent(
        self, model: str, tools: Sequence[AnyTool], policy: CallPolicy, settings: Mapping[str, Any]
    ) -> AsyncAgent:
        options = self._options
        fallback = [name.strip() for name in (options.fallback or "").split(",") if name.strip()]
        try:
            return AsyncAgent(
                model,
                store=self._store,
                tools=tools,
                hooks=[policy],
                limits=_parse_limits(options),
                approve=self._approve,
                retry=Retry(RETRIES, local_refusals=False),
                fallback=fallback,
                keys=self._keys,
                providers=self._providers,
                on_loss="keep",  # the command reports losses itself
                **settings,
            )
        except (TypeError, ValueError) as exc:
            raise click.UsageError(str(exc)) from None

    async def require_key(self, model: str, headers: Mapping[str, str] | None = None) -> None:
        """Raise `MissingKey` before anything is written. The simulator needs no key, and is not started for this."""
        target = self._resolve(model)
        if not target.provider.plays:
            await self._router.endpoint(target, {name.lower() for name in headers or ()})


def _working_directory(stored: Configured | None, options: RunOptions) -> tuple[str, str]:
    """Return the working directory of a continued session (it must exist), and a note if it is not the current one."""
    roots = sorted(set(jsonio.parse(stored.roots).values())) if stored is not None and stored.roots else []
    here = os.path.realpath(Path(options.root).expanduser())
    old = str(roots[0]) if roots else here
    if "root" in options.explicit or not roots:
        return here, f"working directory: {display_path(old)} -> {display_path(here)}" if here != old else ""
    if not Path(old).is_dir():
        error = StoreError(f"the session's working directory does not exist: {display_path(old)}")
        error.add_note("pass --root DIR to use another one")
        raise error
    note = f"working directory: {display_path(old)} (from the session; pass --root . to use this one)"
    return old, "" if old == os.path.realpath(".") else note


def _session_settings(options: RunOptions, effort: str | None, target: Target) -> dict[str, Any]:
    if effort is not None and "effort" in options.explicit and effort != options.effort:
        raise click.UsageError(f"use either -m ...:{effort} or --effort {options.effort}")
    system = read_system_prompt(options.system)
    parameters = parse_parameters(options.option) if options.option else {}
    if named := options.schema:
        from tenuto.cli.session.output_schema import load_schema  # imports the schema validator

        if "response_format" in parameters:
            raise click.UsageError("use either --schema or -o response_format")
        parameters["response_format"], words = output_request(load_schema(named), native=takes_schemas(target))
        system = "\n\n".join(filter(None, (system, words)))
    asked = {
        "system": system,
        "effort": effort or options.effort,
        "max_tokens": options.max_tokens,
        "allow_unverified": options.allow_unverified or None,
        **parameters,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _parse_limits(options: RunOptions) -> Limits:
    bounds: dict[str, Any] = {
        "turns": options.max_turns,
        "tokens": options.max_tokens_total,
        "usd": options.max_usd,
        "seconds": options.timeout,
    }
    try:
        return Limits(**{name: bound for name, bound in bounds.items() if bound is not None})
    except TypeError as exc:  # a number that is not one, "nan"
        raise click.UsageError(str(exc)) from None
