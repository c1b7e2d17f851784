"""The scenarios for agents. Each is a script for the simulator, prompts for the client, and checks of the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from clients.agents import AgentClient, Session
from clients.checks import ScenarioError, check_compaction, check_issued, check_replay
from clients.simulation import Exchange

Json = Any
FIRST = "Write the word alpha to a file."
SECOND = "What did you write?"
WRITE_BOTH = ("printf alpha > one.txt", "printf beta > two.txt")
SUMMARY = "SUMMARY: the word alpha is in a file."


class Scenario(NamedTuple):
    """The script for a client, and what the session does with it."""

    scripts: Callable[[AgentClient], list[Json]]
    play: Callable[[Session], None]


def say(text: str) -> Json:
    return {"do": "say", "text": text}


def think(text: str) -> Json:
    return {"do": "think", "text": text}


def _chat_scripts(client: AgentClient) -> list[Json]:
    return [{"turns": [[say("The capital of Norway is Oslo.")]]}]


def _chat(session: Session) -> None:
    _expect(session.ask("What is the capital of Norway?"), "The capital of Norway is Oslo.")


def _no_scripts(client: AgentClient) -> list[Json]:
    return []


def _default_reply(session: Session) -> None:
    _expect(session.ask(FIRST), FIRST)


def _thinking_scripts(client: AgentClient) -> list[Json]:
    return [
        {
            "turns": [
                [think("A file is needed."), *client.shell_calls("printf alpha > one.txt")],
                [think("The file exists."), *client.shell_calls("cat one.txt")],
                [think("The file is right."), say("The file contains alpha.")],
                [say("I wrote the word alpha.")],
            ]
        }
    ]


def _thinking(session: Session) -> None:
    _expect(session.ask(FIRST), "The file contains alpha.")
    _expect_file(session, "one.txt", "alpha")
    turns = _turns(session, 3)
    check_issued(turns, 2)
    check_replay(turns)


def _resume(session: Session) -> None:
    _expect(session.ask(FIRST), "The file contains alpha.")
    _expect(session.ask(SECOND, resume=True), "I wrote the word alpha.")
    check_replay(_turns(session, 4))


def _parallel_scripts(client: AgentClient) -> list[Json]:
    return [
        {
            "turns": [
                [
                    think("Both files can be written at once."),
                    *client.shell_calls(*WRITE_BOTH),
                ],
                [say("Both files exist.")],
            ]
        }
    ]


def _parallel(session: Session) -> None:
    _expect(session.ask("Write two files."), "Both files exist.")
    _expect_file(session, "one.txt", "alpha")
    _expect_file(session, "two.txt", "beta")
    turns = _turns(session, 2)
    check_issued(turns, len(session.client.shell_calls(*WRITE_BOTH)))
    check_replay(turns)


def _compaction_scripts(client: AgentClient) -> list[Json]:
    summary = {"when": client.summary_prompt, "turns": [[say(SUMMARY)]], "then": "repeat"}
    later = {"when": SECOND, "turns": [[say("It was the word alpha.")]], "then": "repeat"}
    return [*([summary] if client.summary_prompt else []), later, *_thinking_scripts(client)]


def _compaction(session: Session) -> None:
    _expect(session.ask(FIRST), "The file contains alpha.")
    session.client.compact(session)
    _expect(session.ask(SECOND, resume=True), "It was the word alpha.")
    exchanges = [exchange for exchange in session.simulation.exchanges if exchange.status == 200]
    check_compaction(exchanges, _last_question(exchanges, session.client), SUMMARY)


SCENARIOS = {
    "no script": Scenario(_no_scripts, _default_reply),
    "chat": Scenario(_chat_scripts, _chat),
    "thinking": Scenario(_thinking_scripts, _thinking),
    "parallel tools": Scenario(_parallel_scripts, _parallel),
    "resume": Scenario(_thinking_scripts, _resume),
    "compaction": Scenario(_compaction_scripts, _compaction),
}


def _turns(session: Session, count: int) -> list[Exchange]:
    """Return the answered requests. Raise `ScenarioError` unless there are `count`."""
    turns = [exchange for exchange in session.simulation.exchanges if exchange.status == 200 and exchange.messages]
    if len(turns) != count:
        raise ScenarioError(f"{len(turns)} requests instead of {count}")
    return turns


def _last_question(exchanges: list[Exchange], client: AgentClient) -> Exchange:
    """Return the last request with the second prompt that is not one for a summary."""
    texts = [json.dumps(exchange.messages) for exchange in exchanges]
    prompt = client.summary_prompt
    found = [at for at, text in enumerate(texts) if SECOND in text and not (prompt and prompt in text)]
    if not found:
        raise ScenarioError("the second prompt was not sent")
    return exchanges[found[-1]]


def _expect(text: str, expected: str) -> None:
    if text != expected:
        raise ScenarioError(f"the answer is {text!r}, not {expected!r}")


def _expect_file(session: Session, name: str, content: str) -> None:
    path = session.work / name
    if not path.exists() or path.read_text() != content:
        raise ScenarioError(f"{name} does not contain {content!r}")
