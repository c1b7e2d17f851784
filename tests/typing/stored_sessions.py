"""The sessions of an agent in its store, awaited and not; functions as tools; images."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from tenuto import Agent, AsyncAgent, Client, Image, Reply
from tenuto.events import CacheMissed
from tenuto.store import SearchHit, StoredSession


def look_up(words: str) -> str:
    """Look up words in the manual."""
    return words


def manage(agent: Agent, folder: Path) -> list[str]:
    session = agent.session("c-42", metadata={"customer": "42"})
    session.set_metadata({"customer": "43"})
    found: list[StoredSession] = agent.sessions(
        status="completed", directory=folder, metadata={"customer": "43"}, limit=5
    )
    hits: list[SearchHit] = agent.search("valves", limit=3)
    agent.rename(session, "valves")
    agent.archive("valves", archived=False)
    exported: bytes = agent.export(agent.find("valves").id)
    deleted: tuple[str, ...] = agent.delete(session, forks=True)
    names = [one.session for one in agent.import_sessions(exported)]
    errors = [one.error for one in agent.resume_all(concurrency=2) if one.error is not None]
    cost: Decimal | None = session.cost
    values: dict[str, str] = session.metadata
    return [
        *names,
        *deleted,
        *values,
        *map(str, errors),
        str(cost),
        *(one.id for one in found),
        *(hit.snippet for hit in hits),
    ]


async def manage_async(agent: AsyncAgent) -> list[str]:
    ids = [one.id async for one in agent.sessions(name="valves", archived=None)]
    await agent.rename("last", "valves")
    stored: StoredSession = await agent.find("valves")
    exported: bytes = await agent.export("valves")
    await agent.import_sessions(exported.splitlines(keepends=True))
    return [stored.id, *ids, *(one.status for one in await agent.resume_all())]


def causes(agent: Agent) -> list[str]:
    found: list[str] = []
    session = agent.session()
    session.on_event(lambda event: found.extend(event.names) if isinstance(event, CacheMissed) else None)
    return found


def ask(client: Client, path: Path) -> str:
    reply: Reply = client.chat("openai/gpt-5.2", "Where are the valves?", tools=[look_up], cache="auto")
    for image in reply.images:
        image.save(path / "valves.png")
    data: bytes = Image.from_path(path / "valves.png").bytes
    return f"{reply} {len(data)}"


uncached = Agent("anthropic/claude-sonnet-5-5", tools=[look_up], cache=None)
