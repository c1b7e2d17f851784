"""The sessions of an agent in its store, awaited and not; functions as tools; images."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import assert_type

from tenuto import Agent, AsyncAgent, Client, Image
from tenuto.events import CacheMissed
from tenuto.store import SearchHit, StoredSession


def look_up(words: str) -> str:
    """Look up words in the manual."""
    return words


def manage(agent: Agent, folder: Path) -> None:
    session = agent.session("c-42", metadata={"customer": "42"})
    session.set_metadata({"customer": "43"})
    found = agent.sessions(status="completed", directory=folder, metadata={"customer": "43"}, limit=5)
    assert_type(found, list[StoredSession])
    assert_type(agent.search("valves", limit=3), list[SearchHit])
    agent.rename(session, "valves")
    agent.archive("valves", archived=False)
    exported = agent.export(agent.find("valves").id)
    assert_type(exported, bytes)
    assert_type(agent.delete(session, forks=True), tuple[str, ...])
    print([one.left_out for one in agent.import_sessions(exported)])
    print([one.error for one in agent.resume_all(concurrency=2) if one.error is not None])
    assert_type(session.cost, Decimal | None)
    assert_type(session.metadata, dict[str, str])


async def manage_async(agent: AsyncAgent) -> list[str]:
    ids = [one.id async for one in agent.sessions(name="valves", archived=None)]
    await agent.rename("last", "valves")
    assert_type(await agent.find("valves"), StoredSession)
    await agent.import_sessions((await agent.export("valves")).splitlines(keepends=True))
    return [*ids, *(one.status for one in await agent.resume_all())]


def causes(agent: Agent) -> list[str]:
    found: list[str] = []
    agent.session().on_event(lambda event: found.extend(event.names) if isinstance(event, CacheMissed) else None)
    return found


def ask(client: Client, path: Path) -> str:
    reply = client.chat("openai/gpt-5.2", "Where are the valves?", tools=[look_up], cache="auto")
    for image in reply.images:
        image.save(path / "valves.png")
    assert_type(Image.from_path(path / "valves.png").bytes, bytes)
    later = client.chat("openai/gpt-5.6-sol", "And the pumps?", cache="1h", cache_diagnosis=reply.response.id)
    assert_type(later.cache_miss_reason, str)
    return str(reply)


uncached = Agent("anthropic/claude-sonnet-5-5", tools=[look_up], cache=None)
diagnosed = Agent("anthropic/claude-sonnet-5-5", tools=[look_up], cache_diagnosis=True)
