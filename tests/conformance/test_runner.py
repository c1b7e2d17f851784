"""The runner from the outside: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import run
from conformance.checks import Judged
from conformance.faults import MUTANTS
from conformance.judge import Case
from conformance.replay import NOTHING_HELD
from conformance.report import Report

HERE = Path(__file__).parent
OWN = HERE / "own"
CLOSING = re.compile(r"(\d+) passed, (\d+) failed")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """One case of ours, to be spoilt."""
    shutil.copytree(OWN / "anthropic-messages", tmp_path / "anthropic-messages")
    return tmp_path


def spoil(corpus: Path, case: str, file: str, **changed: Any) -> None:
    path = corpus / "anthropic-messages" / "anthropic" / case / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_command_runs_on_a_folder_and_closes_with_its_figures() -> None:
    """The last line stands alone, and all cores are used."""
    done = subprocess.run(
        [sys.executable, str(HERE), str(OWN), "--jobs", "2"], capture_output=True, text=True, check=False
    )
    last = CLOSING.fullmatch(done.stdout.splitlines()[-1])

    assert last is not None
    assert done.returncode == (1 if int(last[2]) else 0)
    assert int(last[1]) > 80
    assert done.stderr == ""


def test_the_table_has_a_row_for_each_dialect_and_provider(capsys: pytest.CaptureFixture[str]) -> None:
    """N/M for each check; tables of what is left out follow."""
    run.main([str(OWN), "--jobs", "1", "--dialect", "openai-chat"])
    printed = lines(capsys)

    assert printed[1].split() == [
        "dialect",
        "provider",
        "decoded",
        "streamed",
        "rechunked",
        "stored",
        "whole",
        "replayed",
        "audited",
    ]
    row = next(line.split() for line in printed if line.startswith("openai-chat") and "deepseek" in line)
    assert row[2:] == ["2/2", "2/2", "1/1", "2/2", "2/2", "1/1", "-"]
    assert any(line.startswith("Response-only fields") for line in printed)
    assert any(line.startswith("Excluded") for line in printed)
    assert any(line.startswith("Opaque blocks") for line in printed)


@pytest.mark.parametrize("made", [True, False])
def test_an_empty_or_missing_folder_is_told_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: bool
) -> None:
    """Nothing to run is not success."""
    folder = tmp_path if made else tmp_path / "nowhere"

    assert run.main([str(folder)]) == 2
    assert str(folder) in capsys.readouterr().err


def test_a_failure_is_told_with_its_place_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case, check, and what differs."""
    fault = next(mutant for mutant in MUTANTS if mutant.name == "our stop word for the provider's")
    fault.patch(monkeypatch, fault.dialect)

    assert run.main([str(OWN), "--jobs", "1", "--case", "anthropic/weather-03"]) == 1
    printed = lines(capsys)
    at = printed.index("FAILED decoded anthropic-messages/anthropic/weather-03")
    assert printed[at + 1].strip() == "stop: 'end_turn' expected, 'stop' found"
    assert printed[-1].endswith(" passed, 1 failed")


def test_an_oracle_at_odds_with_its_bytes_is_listed_and_the_bytes_count(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The case is judged by its bytes; it counts towards the cases that may be left out."""
    block = {"type": "text", "text": "Something else."}
    spoil(corpus, "weather-03", "expected.json", blocks=[block])
    run.main([str(corpus), "--jobs", "1"])
    printed = "\n".join(lines(capsys))

    assert "FAILED decoded" not in printed
    assert "1  it says what the bytes do not say" in printed
    assert "anthropic/weather-03: blocks[0].text: 'Something else.' expected, 'Packed.' found" in printed


def test_more_than_two_in_a_hundred_excluded_fails(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exclusion is for the few cases that cannot be judged."""
    spoil(corpus, "weather-03", "expected.json", own_agrees=False)

    assert run.main([str(corpus), "--jobs", "1"]) == 1
    assert "20.0% of the exchanges are excluded or at odds, more than 2%" in "\n".join(lines(capsys))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"replay": "previous_response_id"}, "previous_response_id"),
        ({"parent_step": 9}, "the parent's reply or the request is not in the folder"),
    ],
)
def test_replays_are_excluded_by_a_printed_rule(
    corpus: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], rule: str
) -> None:
    """Each rule stands there with its count."""
    spoil(corpus, "weather-03", "exchange.json", **change)
    run.main([str(corpus), "--jobs", "1"])

    assert [line for line in lines(capsys) if line.startswith(f"      1  replayed   {rule}")]


def test_a_request_that_hands_back_nothing_is_counted_and_fails_when_there_are_many(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay that demands nothing proves nothing."""
    spoil(corpus, "weather-03", "request.json", messages=[{"role": "user", "content": "hello"}])

    assert run.main([str(corpus), "--jobs", "1"]) == 1
    printed = "\n".join(lines(capsys))
    assert f"1  replayed   {NOTHING_HELD}" in printed
    assert "50.0% of the replays, more than 5%" in printed


def test_a_few_exclusions_pass() -> None:
    """Up to the limits, and not beyond."""
    cases = [Case(f"gemini/x/{n}", "gemini", "x", {"decoded": Judged()}) for n in range(100)]
    for case in cases[:2]:
        case.judged["decoded"] = Judged(excluded="a rule")
    for n, case in enumerate(cases[:20]):
        case.judged["replayed"] = Judged(excluded=NOTHING_HELD) if n == 0 else Judged()

    assert Report(cases).faults == []
    cases[2].judged["decoded"] = Judged(excluded="a rule")
    cases[1].judged["replayed"] = Judged(excluded=NOTHING_HELD)
    assert [check for _, check, _ in Report(cases).faults] == ["excluded", "nothing held"]


def test_a_named_type_that_comes_back_opaque_fails() -> None:
    """What the protocol names is read, not only kept."""
    opaque = Case("gemini/x/1", "gemini", "x", {"decoded": Judged()}, blocks=2, opaque=["toolCall", "brandNew"])
    report = Report([opaque])

    assert [check for _, check, _ in report.faults] == ["opaque"]
    assert any("2 of 2 (100.0%): brandNew (1), toolCall (1)" in line for line in report.lines())


def test_only_so_many_failures_are_told_unless_all_are_wanted() -> None:
    """A broken codec must not bury its own figures."""
    report = Report([Case(f"gemini/x/{n}", "gemini", "x", {"decoded": Judged(["odd"])}) for n in range(50)])

    assert sum(line.startswith("FAILED") for line in report.lines()) == 40
    assert "... and 10 more (--all tells them all)" in report.lines()
    assert sum(line.startswith("FAILED") for line in report.lines(100)) == 50


def test_an_interrupt_ends_the_run_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C shows no traceback, and the exit code says so."""

    def interrupted(*_: Any, **__: Any) -> Iterator[list[Case]]:
        yield []
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", interrupted)

    assert run.main([str(OWN)]) == 130
    assert "interrupted after 0 of" in capsys.readouterr().err


def test_progress_is_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log file gets the report alone."""
    run.main([str(OWN), "--jobs", "1", "--case", "overloaded"])
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    run.main([str(OWN), "--jobs", "1", "--case", "overloaded"])
    assert "1/1" in capsys.readouterr().err
