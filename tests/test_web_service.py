"""The web service in examples/web_service: two workers with one store, streaming, approvals by another request."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenuto.testing import Simulator, call, say, turn

pytest.importorskip("fastapi", reason="the web service needs fastapi: pip install fastapi uvicorn")
pytest.importorskip("uvicorn", reason="the web service needs uvicorn: pip install fastapi uvicorn")

ROOT = Path(__file__).parent.parent
REFUND = turn(say("I will."), call("refund", {"number": "B-4", "amount": 250}))


class Worker:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url = ""
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                self.url = found[1]
                return
        raise AssertionError("the worker did not start")

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return the status and the JSON of a response, or the events of a stream."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "connection": "close"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                text = response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        if response.headers["content-type"].startswith("text/event-stream"):
            return 200, [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]
        return 200, json.loads(text)

    def send(self, id: str, text: str, **more: str) -> list[dict[str, Any]]:
        status, events = self.ask("POST", f"/sessions/{id}/messages", {"user": "ada", "text": text, **more})
        assert status == 200, events
        return list(events)


@contextmanager
def _running(simulator: Simulator, store: Path) -> Iterator[Worker]:
    names = ("TENUTO_", "ANTHROPIC_", "COVERAGE", "PYTEST")
    env = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    env |= {"ANTHROPIC_BASE_URL": simulator.base_url, "ANTHROPIC_API_KEY": "key", "TENUTO_STORE": str(store)}
    command = [sys.executable, "-m", "uvicorn", "examples.web_service.app:app", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        yield Worker(process)
    finally:
        process.terminate()
        assert process.stderr is not None
        with process.stderr:
            process.stderr.read()
        process.wait(30)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulator, Worker, Worker]]:
    store = tmp_path_factory.mktemp("web") / "sessions.db"
    with Simulator() as simulator, ExitStack() as stack:
        first, second = (stack.enter_context(_running(simulator, store)) for _ in range(2))
        yield simulator, first, second


@pytest.fixture
def service(workers: tuple[Simulator, Worker, Worker]) -> tuple[Simulator, Worker, Worker]:
    workers[0].clear()
    return workers


def test_answer_is_streamed(service: tuple[Simulator, Worker, Worker]) -> None:
    simulator, first, second = service
    simulator.script(turn(call("find_order", {"number": "B-4"})), turn(say("A lamp for 250 EUR.")))
    *events, end = first.send("stream", "What is B-4?")

    assert {"type": "tool", "name": "find_order", "outcome": "done"} in events
    assert "".join(event["text"] for event in events if event["type"] == "text") == "A lamp for 250 EUR."
    assert sum(event["type"] == "text" for event in events) > 1
    assert (end["type"], end["status"], end["text"]) == ("end", "completed", "A lamp for 250 EUR.")
    assert second.ask("GET", "/sessions/stream")[1]["text"] == "A lamp for 250 EUR."
    simulator.assert_clean()


@pytest.mark.parametrize(("allowed", "outcome"), [(True, "refunded 250 EUR for B-4"), (False, "too much")])
def test_approval_is_answered_by_the_other_worker(
    service: tuple[Simulator, Worker, Worker], allowed: bool, outcome: str
) -> None:
    simulator, first, second = service
    simulator.script(REFUND, turn(say("Settled.")))
    id = f"refund-{allowed}"
    *_, end = first.send(id, "My lamp is broken.")
    [pending] = end["pending"]
    assert (end["status"], pending["tool"], pending["arguments"]["amount"]) == ("waiting", "refund", 250)

    decision = {"call": pending["call"], "allowed": allowed, "reason": "too much"}
    status, decided = second.ask("POST", f"/sessions/{id}/decisions", decision)
    assert (status, decided["status"], decided["text"]) == (200, "completed", "Settled.")
    assert decided["worker"] == second.process.pid != end["worker"]
    assert outcome in str(simulator.requests[-1].body["messages"][-1])
    status, again = first.ask("POST", f"/sessions/{id}/decisions", decision)
    assert (status, "no call" in again["detail"]) == (409, True)
    simulator.assert_clean()


def test_workers_take_turns_in_one_session(service: tuple[Simulator, Worker, Worker]) -> None:
    simulator, first, second = service
    simulator.script(*(turn(say(f"Answer {n}.")) for n in range(6)))
    for n in range(3):
        assert first.send("turns", f"Question {2 * n}?")[-1]["text"] == f"Answer {2 * n}."
        assert second.send("turns", f"Question {2 * n + 1}?")[-1]["text"] == f"Answer {2 * n + 1}."

    assert len(simulator.requests) == 6


def test_repeated_message_is_sent_once(service: tuple[Simulator, Worker, Worker]) -> None:
    simulator, first, second = service
    simulator.script(turn(say("Once.")))
    for worker in (first, second, first):
        assert worker.send("once", "Hello?", key="message-1")[-1]["text"] == "Once."

    assert len(simulator.requests) == 1


def test_sessions_are_listed_by_user_and_deleted(service: tuple[Simulator, Worker, Worker]) -> None:
    simulator, first, second = service
    simulator.script(turn(say("Hi.")))
    first.ask("POST", "/sessions/eve/messages", {"user": "eve", "text": "It is me"})
    status, listed = second.ask("GET", "/sessions?user=eve")

    assert (status, listed) == (200, [{"id": "eve", "title": "It is me", "status": "completed"}])
    assert second.ask("DELETE", "/sessions/eve")[0] == 200
    assert first.ask("GET", "/sessions/eve")[0] == 404
    assert first.ask("GET", "/sessions/..%5C")[0] == 404
    assert first.ask("GET", "/sessions?user=eve") == (200, [])
