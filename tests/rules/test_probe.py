"""The probe of real providers, against the simulator."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from rules.probe import Probe, probe, record, summary
from rules.runner import ROOT, Case, cases
from tenuto.catalog import PROVIDERS
from tenuto.testing import Simulator

NOT_OVER_HTTP = {
    "GEM-MEDIA-02": "the server accepts 32 MB",
    "GEM-MEDIA-02-sum": "the server accepts 32 MB",
    "GEM-MEDIA-02-together": "the server accepts 32 MB",
    "GEM-MEDIA-02-two": "the server accepts 32 MB",
    "GEM-SCHEMA-01-object": "no arguments fit its schema, so there is no default reply",
    "OAC-MODEL-01-minimax": "the name may be a model of another host",
}
"""Cases that the simulator cannot show over HTTP."""
BY_NAME = {case.name: case for case in cases()}
SAMPLES = ("ANT-PARAM-08", "OAR-PARAM-12", "OAC-OAI-04", "GEM-PARAM-13")
"""One case of each dialect."""


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.setenv(name, "secret-key")


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch):
    with Simulator() as simulator:
        monkeypatch.setenv("TENUTO_SIM_URL", simulator.base_url)
        yield simulator


def run(*chosen: Case) -> list[Probe]:
    return asyncio.run(probe(chosen, simulated=True))


def test_simulator_agrees_with_every_case(keys, sim):
    results = run(*(case for case in cases() if case.name not in NOT_OVER_HTTP))

    assert [line for line in summary(results).splitlines() if ": " in line and "skipped" not in line] == []
    assert {bool(result.recorded) for result in results if not result.skipped} == {True}
    assert {result.skipped for result in results if result.case.replies} == {
        "needs tokens that the provider issued in a live first turn"
    }


def test_output_is_limited_to_the_least(keys, sim):
    run(*(BY_NAME[name] for name in SAMPLES))
    bodies = [record.body for record in sim.requests]

    assert [body["max_tokens"] for body in bodies[:2]] == [1040, 1040]
    assert [body["max_output_tokens"] for body in bodies[2:4]] == [15, 16]
    assert [body["max_completion_tokens"] for body in bodies[4:6]] == [16, 16]
    assert [body["generationConfig"]["maxOutputTokens"] for body in bodies[6:8]] == [-1, 16]


@pytest.mark.parametrize("name", SAMPLES)
def test_wrong_fixture_is_reported(keys, sim, name):
    case = BY_NAME[name]
    replace = msgspec.structs.replace
    wrong = (replace(case, message="Lost."), replace(case, body=case.repaired), replace(case, repaired=case.body))
    found = [result.disagreements for result in run(*wrong)]

    assert [len(texts) for texts in found] == [1, 1, 1]
    assert found[0][0].startswith("the text is ")
    assert found[0][0].endswith(", not 'Lost.'")
    assert found[1][0] == "it is not refused"
    assert found[2][0].startswith("the repaired request is refused with 400: ")


@pytest.mark.parametrize("name", SAMPLES)
def test_answer_is_written_into_its_case(keys, sim, name, tmp_path):
    case = BY_NAME[name]
    path = next(ROOT.glob(f"*/{name}.json"))
    copy = tmp_path / path.parent.name / path.name
    copy.parent.mkdir()
    copy.write_text(path.read_text("utf-8"), "utf-8")
    (result,) = run(case)
    record(result, tmp_path)

    text = copy.read_text("utf-8")
    recorded = json.loads(text)["recorded"]
    assert (recorded["status"], recorded["repaired_status"]) == (400, 200)
    assert recorded["text"] == case.message or not case.message
    assert "secret" not in text


def test_nothing_is_sent_without_a_key(sim, monkeypatch):
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.delenv(name, raising=False)
    results = run(*(BY_NAME[name] for name in SAMPLES))

    assert [result.skipped for result in results] == [
        f"no key for {name}" for name in ("anthropic", "openai", "openai", "gemini")
    ]
    assert sim.requests == []


def test_key_error_is_not_a_verdict(keys, monkeypatch):
    with Simulator(keys={"another"}) as sim:
        monkeypatch.setenv("TENUTO_SIM_URL", sim.base_url)
        results = run(*(BY_NAME[name] for name in SAMPLES))

    assert [result.no_verdict[:9] for result in results] == ["HTTP 401:", "HTTP 401:", "HTTP 401:", "HTTP 400:"]
    assert not any(result.recorded or result.disagreements for result in results)
    assert summary(results).endswith("0 recorded, 0 disagree")
