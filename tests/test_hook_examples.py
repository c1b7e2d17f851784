"""The programs in examples/hooks."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tenuto.testing import call, say, turn

EXAMPLES = Path(__file__).parent.parent / "examples" / "hooks"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hook_example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_redacted_text_reaches_neither_model_nor_journal(tenuto_sim: Any) -> None:
    example = _load("redaction")
    calls = (call("customer", {"name": "Ada"}), call("customer", {"name": "Bob"}))
    tenuto_sim.script(turn(*calls), turn(say("By mail.")))
    with example.agent as agent:
        session = agent.session()
        session.send("How do I reach Ada?")
        stored = b"".join(entry.body for entry in session.entries())

    assert "Ada, [mail], card [card]" in str(tenuto_sim.requests[-1].body)
    assert "[mail] is not a customer" in str(tenuto_sim.requests[-1].body)
    for secret in ("@example.com", "4111"):
        assert secret not in str(tenuto_sim.requests[-1].body)
        assert secret.encode() not in stored
    assert example.redact("key sk-abcdefgh12345") == "key [key]"
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    ("amount", "status", "result"),
    [
        (20, "completed", "refunded 20 EUR for A-17"),
        (200, "waiting", ""),
        (2000, "completed", "more than a desk may refund"),
    ],
)
def test_policy_of_a_database_decides(tenuto_sim: Any, tmp_path: Path, amount: int, status: str, result: str) -> None:
    example = _load("approval_policy")
    rules = [
        ("refund", 50, "allow", ""),
        ("refund", 1000, "ask", ""),
        ("refund", None, "deny", "more than a desk may refund"),
    ]
    with sqlite3.connect(tmp_path / "policy.db") as db:
        db.execute(example.RULES)
        db.executemany("INSERT INTO rules VALUES (?, ?, ?, ?)", rules)
    db.close()
    tenuto_sim.script(turn(call("refund", {"order": "A-17", "amount": amount})), turn(say("Settled.")))
    with example.make_agent(tmp_path / "policy.db") as agent:
        session = agent.session()
        session.send("Refund it.")
        assert session.status == status
        if status == "waiting":
            assert [pending.call.name for pending in session.pending] == ["refund"]
            session.deny(reason="no")
        assert result in str(tenuto_sim.requests[-1].body["messages"][-1])
    tenuto_sim.assert_clean()


def test_policy_without_rules_leaves_the_decision_to_a_person(tenuto_sim: Any, tmp_path: Path) -> None:
    tenuto_sim.script(turn(call("refund", {"order": "A-17", "amount": 1})), turn(say("Settled.")))
    with _load("approval_policy").make_agent(tmp_path / "policy.db") as agent:
        session = agent.session()
        session.send("Refund it.")
        assert session.status == "waiting"


def test_times_are_collected_by_name(tenuto_sim: Any) -> None:
    example = _load("timing")
    seconds = iter(range(100))
    timing = example.Timing(clock=lambda: next(seconds))
    tenuto_sim.script(turn(call("weather", {"city": "Oslo"})), turn(say("Bring a coat.")))
    with example.Agent("anthropic/claude-sonnet-5-5", tools=[example.weather], hooks=[timing], store=None) as agent:
        session = agent.session("s")
        session.send("Weather in Oslo?")

    assert dict(timing.times) == {
        "run": [7],
        "request to anthropic/claude-sonnet-5-5": [1, 1],
        "tool weather": [1],
    }
    assert timing.calls == {"s": ["weather"]}
    assert "(asked in s)" in str(tenuto_sim.requests[-1].body["messages"][-1])
    assert timing.report().splitlines()[-1] == "tool weather: 1 x, 1.0 s, longest 1.0 s"
    example.agent.close()
