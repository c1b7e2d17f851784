"""Prompt caching by default: what a session reads from the cache, and the cause of a miss."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import pytest

from tenuto import Agent, Session, Tool, Usage
from tenuto.agent.events import CacheMissed
from tenuto.core.cache_misses import CacheFold
from tenuto.core.journal import Configured, Entry, MessageAdded, ReplyReceived, RunEnded
from tenuto.core.messages import AssistantMessage, UserMessage
from tenuto.testing import call, say, turn

INSTRUCTIONS = "Answer from the manual. " * 300
MINUTE = 60_000


def look_up(query: str) -> str:
    """Look up words in the manual."""
    return f"{query} are on page 12. " * 20


def other(query: str) -> str:
    """Look up words in the glossary of the manual."""
    return query


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


def _agent(clock: Clock | None = None, *tools: Any, **options: Any) -> Agent:
    settings = {"model": "sim/anthropic", "system": INSTRUCTIONS, "tools": tools or (look_up,), "store": None}
    return Agent(**{**settings, "now": clock or Clock(), **options})


def _misses(session: Session) -> list[CacheMissed]:
    found: list[CacheMissed] = []
    session.on_event(lambda event: found.append(event) if isinstance(event, CacheMissed) else None)
    return found


def _share_read(usage: Usage) -> Decimal:
    return Decimal(usage.cache_read_tokens or 0) / Decimal(usage.prompt_tokens or 1)


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/openai"])
def test_thirty_turns_read_ninety_percent_from_the_cache(tenuto_sim: Any, model: str) -> None:
    tenuto_sim.script(
        *(step for n in range(15) for step in (turn(call("look_up", {"words": f"{n}"})), turn(say("Hm."))))
    )
    with _agent(model=model) as agent:
        session = agent.session()
        misses = _misses(session)
        for n in range(15):
            session.send(f"Question {n}: where are the valves?")

    assert len(tenuto_sim.requests) == 30
    assert _share_read(session.usage) >= Decimal("0.9")
    assert not misses
    tenuto_sim.assert_clean()


def test_without_cache_nothing_is_marked_and_nothing_read(tenuto_sim: Any) -> None:
    tenuto_sim.script(*(turn(say("Hm.")) for _ in range(3)))
    with _agent(cache=None) as agent:
        session = agent.session()
        for _ in range(3):
            session.send("Where are the valves?")

    assert "cache_control" not in repr(tenuto_sim.requests[-1].body)
    assert not session.usage.cache_read_tokens


def _talk(tenuto_sim: Any, count: int = 3) -> None:
    tenuto_sim.script(*(turn(say("Hm.")) for _ in range(count)))


def test_changed_tool_is_named_as_the_cause(tenuto_sim: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    _talk(tenuto_sim)
    store = tmp_path / "sessions.db"
    with _agent(None, look_up, other, store=store) as agent:
        session = agent.session("s")
        session.send("Where are the valves?")
        session.send("And the pumps?")
    changed = Tool("other", "Another text.", {"type": "object", "properties": {}}, lambda arguments, context: "")
    with _agent(None, look_up, changed, store=store) as agent, caplog.at_level(logging.WARNING, "tenuto"):
        session = agent.resume("s")
        misses = _misses(session)
        session.send("And the fuses?")
        report = session.audit()

    [miss] = misses
    assert (miss.part, miss.names) == ("tools", ("other",))
    assert miss.tokens > 1024
    assert "were not read from the prompt cache: tools changed (other)" in caplog.text
    assert [(one.part, one.names) for one in report.cache_misses] == [("tools", ("other",))]
    assert "prompt cache: tools changed (other)" in str(report)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"system": "Now answer from the glossary. " * 300}, ("system", ())),
        ({"tools": (look_up, other)}, ("tools", ("other",))),
        ({"tools": ()}, ("tools", ("look_up",))),
    ],
)
def test_changed_configuration_is_the_cause(
    tenuto_sim: Any, tmp_path: Any, options: dict[str, Any], cause: tuple[str, tuple[str, ...]]
) -> None:
    _talk(tenuto_sim, 2)
    store = tmp_path / "sessions.db"
    with _agent(store=store) as agent:
        agent.session("s").send("Where are the valves?")
    with _agent(store=store, **options) as agent:
        session = agent.resume("s")
        misses = _misses(session)
        session.send("And the pumps?")

    assert [(miss.part, miss.names) for miss in misses] == [cause]


def test_handover_is_the_cause_and_no_warning(tenuto_sim: Any, caplog: pytest.LogCaptureFixture) -> None:
    _talk(tenuto_sim, 2)
    with _agent() as agent, caplog.at_level(logging.WARNING, "tenuto"):
        session = agent.session()
        misses = _misses(session)
        session.send("Where are the valves?")
        session.handover("sim/anthropic/claude-opus-4-6")
        session.send("And the pumps?")

    assert [(miss.part, miss.names) for miss in misses] == [("model", ("sim/anthropic/claude-opus-4-6",))]
    assert "prompt cache" not in caplog.text


def test_prompt_is_stored_for_an_hour_after_a_pause(tenuto_sim: Any) -> None:
    _talk(tenuto_sim, 3)
    clock = Clock()
    with _agent(clock) as agent:
        session = agent.session()
        session.send("Where are the valves?")
        clock.now += 6 * MINUTE
        session.send("And the pumps?")
        session.send("And the fuses?")
        report = session.audit()

    times = [request.body["cache_control"].get("ttl", "5m") for request in tenuto_sim.requests]
    system = [request.body["system"][-1]["cache_control"].get("ttl", "5m") for request in tenuto_sim.requests]
    assert times == system == ["5m", "1h", "5m"]
    assert (report.compared, report.clean) == (3, True)
    tenuto_sim.assert_clean()


def test_parameters_of_a_stored_session_are_kept(tenuto_sim: Any, tmp_path: Any) -> None:
    _talk(tenuto_sim, 2)
    with _agent(store=tmp_path / "s.db", cache=None) as agent:
        agent.session("s").send("Where are the valves?")
    with _agent(store=tmp_path / "s.db") as agent:
        agent.resume("s").send("And the pumps?")

    assert "cache_control" not in repr(tenuto_sim.requests[-1].body)


# --- the fold ---------------------------------------------------------------------------------------------------------


def _fold(*replies: tuple[int, Usage | None], cache: str = "auto", parameters: str = "") -> list[str]:
    """Apply replies at these minutes; return the cause of each miss, empty for none."""
    fold, found = CacheFold(), []
    config = Configured("m", parameters=parameters or f'{{"cache":"{cache}"}}' if cache else "")
    for seq, (minute, usage) in enumerate(replies, 1):
        for payload in (
            MessageAdded(UserMessage("x")),
            ReplyReceived(AssistantMessage(()), usage),
            RunEnded("completed"),
        ):
            fold.apply(Entry(seq, str(seq), minute * MINUTE, 1, "", b"", "", payload), config)
        found.append(fold.miss.part if fold.miss is not None else "")
    return found


STORED = Usage(input_tokens=3, cache_read_tokens=0, cache_write_tokens=5000, output_tokens=1)
READ = Usage(input_tokens=3, cache_read_tokens=5000, cache_write_tokens=10, output_tokens=1)
MISSED = Usage(input_tokens=5003, cache_read_tokens=0, cache_write_tokens=0, output_tokens=1)


@pytest.mark.parametrize(
    ("replies", "misses"),
    [
        ([(1, STORED), (2, READ), (3, READ)], ["", "", ""]),
        ([(1, STORED), (2, MISSED)], ["", "unknown"]),
        ([(1, STORED), (7, MISSED)], ["", "expired"]),
        ([(1, STORED), (9, READ), (60, MISSED)], ["", "", "unknown"]),  # stored for an hour after the pause
        ([(1, MISSED), (2, MISSED)], ["", ""]),  # nothing was stored
        ([(1, STORED), (2, None), (3, MISSED)], ["", "", ""]),  # the use is not known
    ],
)
def test_cause_follows_from_times_and_usage(replies: list[tuple[int, Usage | None]], misses: list[str]) -> None:
    assert _fold(*replies) == misses
    assert set(_fold(*replies, cache="")) == {""}
    assert set(_fold(*replies, cache="off")) == {""}
