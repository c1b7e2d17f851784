"""From what was typed to a session in the hand: the store, the agent, the tools, and the key, before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import AgentEvent
from tenuto.agent.limits import Limits
from tenuto.agent.session import AsyncSession
from tenuto.cli.approving import Approver
from tenuto.cli.belt import kept_tools, tools_of
from tenuto.cli.choosing import chosen, going_on, split_effort, target_of
from tenuto.cli.configuring import own_providers
from tenuto.cli.keyring import kept_keys
from tenuto.cli.options import Given
from tenuto.cli.policy import Policy
from tenuto.cli.reading import found, is_missing, naming
from tenuto.cli.saying import system_words
from tenuto.client.routing import Router
from tenuto.core.events import StreamEvent
from tenuto.core.journal import Configured, Entry
from tenuto.core.next_request import config_after
from tenuto.core.provider import Target
from tenuto.errors import SessionNotFound
from tenuto.store.open import open_store
from tenuto.store.protocol import Store
from tenuto.tools.toolbox import AnyTool

__all__ = ["Opened", "opened", "refuse_name"]

Tell = Callable[[StreamEvent | AgentEvent], object]


class Opened(NamedTuple):
    """An agent, and the session that is meant."""

    agent: AsyncAgent
    session: AsyncSession


@asynccontextmanager
async def opened(
    given: Given, approve: Approver | None, *, tell: Tell | None = None, asks: bool = True
) -> AsyncIterator[Opened]:
    """Open the session that `given` names, or begin one; everything is closed at the end.

    A session that goes on is handed over first, if `given` has a model: `tell` hears of it. It gets the name that is given;
    a new one gets it once it is there, from who uses it, and here it is made sure that it can. Unless nothing is to be said
    (`asks`) and nothing owed, it is made sure that there is a key. Nothing of a new session is written here.

    Raise `click.UsageError` for what cannot be used of what was typed, `MissingKey`, `SessionNotFound`, and what `resume` of
    an agent raises.
    """
    place = None if given.get("ephemeral") else given.get("store") or settings.store()
    try:
        store = open_store(place)
    except ValueError as exc:
        raise click.UsageError(f"--store: {exc}") from None
    async with store:
        named = given.get("session", "")
        if named and (place is None or is_missing(place)):  # nothing is made where there is nothing to find
            raise SessionNotFound(f"no session is called {named[:80]!r}: there are none yet")
        id = await found(store, named) if named else ""
        if name := given.get("name"):
            await refuse_name(name, None if place is None or is_missing(place) else store, id)
        making = _Making(given, store, approve)
        async with making.kept(id, tell, asks=asks) if id else making.new() as made:
            yield made


async def refuse_name(name: str, store: Store | None, id: str) -> None:
    """Raise `click.UsageError` for a name that cannot be given, or that a session other than this one has."""
    naming(name)
    if store is None:
        return
    try:
        other = await store.session(await store.find(name))
    except SessionNotFound:
        return
    if other.name == name and other.id != id:
        raise click.UsageError(
            f"another session is called {name!r}: {other.id}; go on with it (--session {shlex.quote(name)}), or choose another name"
        )


class _Making:
    """Makes the agent, with the store at hand; what it does not take was typed, and so it is a matter of usage."""

    def __init__(self, given: Given, store: Store, approve: Approver | None) -> None:
        self._given = given
        self._store = store
        self._approve = approve
        self._policy = Policy(given.get("allow", ()), given.get("deny", ()), typed=given.get("typed", frozenset()))
        self._keys = kept_keys()
        self._providers = own_providers()
        self._door = Router(self._keys, self._providers, None)
        self._find = partial(target_of, find=self._door.target)

    @asynccontextmanager
    async def new(self) -> AsyncIterator[Opened]:
        """Begin a session."""
        given = self._given
        model, effort = split_effort(given.get("model") or chosen(None).model)
        asked = _asked(given, effort, self._find(model))
        tools = tools_of(given.get("tool", ()), given.get("root", "."))
        async with self._agent(model, tools, asked) as agent:
            await self._keyed(model, asked.get("extra_headers", {}))
            yield Opened(agent, agent.session())

    @asynccontextmanager
    async def kept(self, id: str, tell: Tell | None, *, asks: bool) -> AsyncIterator[Opened]:
        """Go on with a session, and with another model if one is given."""
        given = self._given
        model = given.get("model") or ""
        kept = _kept(await self._store.read(id))
        root = given.get("root", ".")
        tools = kept_tools(kept, tools_of(given.get("tool", ()), root), root)
        asked = {"allow_unverified": kept.allow_unverified, "name": kept.agent} if kept is not None else {}
        own = kept.model if kept is not None else model
        self._find(own)
        if model:
            model = going_on(model, self._door.target)
        async with self._agent(own, tools, {name: value for name, value in asked.items() if value}) as agent:
            session = await agent.resume(id, takeover=given.get("take", False), root=_typed_root(given))
            if asks or session.has_pending_work:
                await self._keyed(model or own)
            if name := given.get("name"):
                await self._store.rename(id, name)
            if model and model != session.model:
                await _handed(session, model, tell)
            yield Opened(agent, session)

    def _agent(self, model: str, tools: Sequence[AnyTool], asked: Mapping[str, Any]) -> AsyncAgent:
        given = self._given
        fallback = [name.strip() for name in (given.get("fallback") or "").split(",") if name.strip()]
        for other in fallback:
            self._find(other)
        try:
            return AsyncAgent(
                model,
                store=self._store,
                tools=self._policy.governed(tools),
                limits=_limits(given),
                approve=self._approve,
                fallback=fallback,
                keys=self._keys,
                providers=self._providers,
                on_loss="keep",  # the command reports losses itself
                **asked,
            )
        except (TypeError, ValueError) as exc:
            raise click.UsageError(str(exc)) from None

    async def _keyed(self, model: str, headers: Mapping[str, str] | None = None) -> None:
        """Raise `MissingKey` now, and not once something is written. The simulator needs none, and is not started for it."""
        target = self._find(model)
        if not target.provider.plays:
            await self._door.endpoint(target, {name.lower() for name in headers or ()})


def _asked(given: Given, effort: str | None, target: Target) -> dict[str, Any]:
    """Return what a new session asks with."""
    typed = given.get("typed", frozenset())
    if effort is not None and "effort" in typed and effort != given.get("effort"):
        raise click.UsageError(f"-m ...:{effort} and --effort {given.get('effort')} say two things: give one of them")
    system = system_words(given.get("system"))
    parameters: dict[str, Any] = {}
    if options := given.get("option"):
        from tenuto.cli.parameters import parameters_of  # it loads every type that a parameter may have

        parameters = parameters_of(options)
    if named := given.get("schema"):
        from tenuto.cli.schema_file import shaped

        if "response_format" in parameters:
            raise click.UsageError(
                "--schema says what the answer is to be, and so does -o response_format: give one of them"
            )
        parameters["response_format"], words = shaped(named, target)
        system = "\n\n".join(filter(None, (system, words)))
    asked = {
        "system": system,
        "effort": effort or given.get("effort"),
        "max_tokens": given.get("max_tokens"),
        "allow_unverified": given.get("allow_unverified") or None,
        **parameters,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _typed_root(given: Given) -> Path | None:
    """Return the directory that `--root` names; None keeps that of the session."""
    return Path(given.get("root", ".")).expanduser() if "root" in given.get("typed", frozenset()) else None


async def _handed(session: AsyncSession, model: str, tell: Tell | None) -> None:
    forget = session.on_event(tell) if tell is not None else None
    try:
        await session.handover(model)
    finally:
        if forget is not None:
            forget()


def _limits(given: Given) -> Limits:
    bounds: dict[str, tuple[str, Any]] = {
        "turns": ("--max-turns", given.get("max_turns")),
        "tokens": ("--max-tokens-total", given.get("max_tokens_total")),
        "usd": ("--max-usd", given.get("max_usd")),
        "seconds": ("--timeout", given.get("timeout")),
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


def _kept(entries: Sequence[Entry]) -> Configured | None:
    """What a session asks with, as far as it is written."""
    kept: Configured | None = None
    for entry in entries:
        kept = config_after(kept, entry.payload)
    return kept
