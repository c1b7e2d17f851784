"""The command of the runner: its output and exit code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance import run
from conformance.audit_checks import Refusal
from conformance.checks import Judged
from conformance.faults import MUTANTS
from conformance.judge import Case
from conformance.mutants import on_events, on_message
from conformance.replay import NOTHING_HELD
from conformance.report import Report
from tenuto.core.blocks import Text

HERE = Path(__file__).parent
OWN = HERE / "own"
CLOSING = re.compile(r"(\d+) passed, (\d+) failed")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A copy of our own Anthropic cases that a test may change."""
    shutil.copytree(OWN / "anthropic-messages", tmp_path / "anthropic-messages")
    return tmp_path


def spoil(corpus: Path, case: str, file: str, **changed: Any) -> None:
    path = corpus / "anthropic-messages" / "anthropic" / case / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_runner_prints_its_figures_last() -> None:
    """The figures are the last line; all cores are used."""
    done = subprocess.run(
        [sys.executable, str(HERE), str(OWN), "--jobs", "2"], capture_output=True, text=True, check=False
    )
    last = CLOSING.fullmatch(done.stdout.splitlines()[-1])

    assert last is not None
    assert done.returncode == (1 if int(last[2]) else 0)
    assert int(last[1]) > 80
    assert done.stderr == ""


def test_table_has_a_row_for_each_dialect_and_provider(capsys: pytest.CaptureFixture[str]) -> None:
    """It has N/M for each check; tables of excluded cases follow."""
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
def test_runner_exits_with_2_without_exchanges(tmp_path: Path, capsys: pytest.CaptureFixture[str], made: bool) -> None:
    """Nothing to run is not success."""
    folder = tmp_path if made else tmp_path / "nowhere"

    assert run.main([str(folder)]) == 2
    assert str(folder) in capsys.readouterr().err


def test_runner_prints_a_failure_and_exits_with_1(
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


def test_oracle_that_differs_from_the_bytes_is_listed(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes judge the case; it counts towards the share of excluded cases."""
    block = {"type": "text", "text": "Something else."}
    spoil(corpus, "weather-03", "expected.json", blocks=[block])
    run.main([str(corpus), "--jobs", "1"])
    printed = "\n".join(lines(capsys))

    assert "FAILED decoded" not in printed
    assert "The oracle differs from the bytes: 1, judged by the bytes." in printed
    assert "anthropic/weather-03: blocks[0].text: 'Something else.' expected, 'Packed.' found" in printed


def test_more_than_two_percent_against_the_oracle_fails(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exclusion is for the few cases that cannot be judged."""
    spoil(corpus, "weather-03", "expected.json", blocks=[])

    assert run.main([str(corpus), "--jobs", "1"]) == 1
    assert "12.5% of the exchanges are excluded or at odds, more than 2%" in "\n".join(lines(capsys))


def test_case_with_two_oracles_is_listed_and_judged(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`own_agrees: false` hides no fault of the codec."""
    spoil(corpus, "weather-03", "expected.json", own_agrees=False)

    assert run.main([str(corpus), "--jobs", "1"]) == 0
    printed = lines(capsys)
    assert printed[
        printed.index("The two oracles differ (own_agrees is false): 1, judged like every other case.") + 1
    ] == ("         anthropic-messages/anthropic/weather-03")

    on_message(lambda message: msgspec.structs.replace(message, blocks=(Text("x"),)))(monkeypatch, "anthropic-messages")
    run.main([str(corpus), "--jobs", "1", "--case", "weather-03"])
    failed = [line.split()[1] for line in lines(capsys) if line.startswith("FAILED")]
    assert {"decoded", "stored"} <= set(failed)


@pytest.mark.parametrize(
    ("file", "changed", "rule"),
    [
        ("request.json", {"messages": [], "previous_response_id": "r"}, "previous_response_id"),
        ("request.json", {"messages": [{"role": "user", "content": "hello"}]}, ""),
    ],
)
def test_replay_that_sends_nothing_back_is_counted_by_rule(
    corpus: Path, capsys: pytest.CaptureFixture[str], file: str, changed: dict[str, Any], rule: str
) -> None:
    """Each rule is printed with its count and its sources."""
    spoil(corpus, "weather-03", file, **changed)
    run.main([str(corpus), "--jobs", "1"])
    printed = lines(capsys)

    if rule:
        line = next(line for line in printed if line.startswith(f"      1  replayed   {rule}"))
        assert line.endswith("[weather-03 1]")
    else:
        assert f"Replays: 4; 2 with {NOTHING_HELD}. By source:" in printed
        assert "      1 of 1     weather-03" in printed


def test_run_fails_when_most_replays_send_nothing_back() -> None:
    """A reader that recognizes no reply would pass every replay."""
    cases = [Case(f"gemini/x/{n}", "gemini", "x", {"replayed": Judged()}) for n in range(4)]
    for case in cases[:2]:
        case.judged["replayed"] = Judged(excluded=NOTHING_HELD)

    assert Report(cases).faults == []
    cases[2].judged["replayed"] = Judged(excluded=NOTHING_HELD)
    assert [check for _, check, _ in Report(cases).faults] == ["nothing held"]


def test_two_percent_of_excluded_cases_pass() -> None:
    """The limit is inclusive."""
    cases = [Case(f"gemini/x/{n}", "gemini", "x", {"decoded": Judged()}) for n in range(100)]
    for case in cases[:2]:
        case.judged["decoded"] = Judged(excluded="a rule")

    assert Report(cases).faults == []
    cases[2].judged["decoded"] = Judged(excluded="a rule")
    assert [check for _, check, _ in Report(cases).faults] == ["excluded"]


def test_exclusion_rule_needs_several_sources_in_a_full_run() -> None:
    """A rule that matches one source is the name of a case."""
    cases = [Case(f"gemini/x/{n}", "gemini", "x", {"decoded": Judged()}, source="a") for n in range(200)]
    for case in cases[:2]:
        case.judged["decoded"] = Judged(excluded="a rule")

    assert Report(cases).faults == []
    assert Report(cases, full=True).faults[0][2] == ["the exclusion rule of decoded matches only a 2: a rule"]
    cases[0].source = "b"
    assert Report(cases, full=True).faults == []


def test_false_alarm_and_unexplained_refusal_fail() -> None:
    alarm = Case("gemini/x/1", "gemini", "x", {"audited": Judged(faults=["GEM-1 at /x: no"])}, follows=True, source="s")
    report = Report([alarm])
    report.refusals = [
        Refusal("gemini/x/2", 400, "A reason.", [], ""),
        Refusal("gemini/x/3", 401, "No.", [], "the key"),
        Refusal("gemini/x/4", 400, "No.", ["GEM-2"], ""),
    ]
    printed = list(report.lines())

    assert report.faults == [
        ("gemini/x/1", "audited", ["GEM-1 at /x: no"]),
        ("gemini/x/2", "refused", ["not predicted: 400 A reason."]),
    ]
    assert "Audited: 1 accepted requests; 0 of 1 that send replies back are clean." in printed
    assert "False alarms of the audit: 1" in printed


def test_equal_names_in_two_corpora_are_two_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cases and conversations are distinguished by their directory."""
    for name in ("one", "two"):
        shutil.copytree(OWN / "anthropic-messages", tmp_path / name / "anthropic-messages")
    spoil(tmp_path / "two", "weather-02", "response.json", id="other")
    spoil(tmp_path / "two", "weather-02", "expected.json", stop="other")
    run.main([str(tmp_path / "one"), str(tmp_path / "two"), "--jobs", "1"])
    printed = lines(capsys)

    assert printed[0].startswith("16 exchanges of ")
    assert [line for line in printed if "weather-02: stop: 'other' expected" in line] == [
        f"         {tmp_path}/two/anthropic-messages/anthropic/weather-02: stop: 'other' expected, 'tool_use' found"
    ]


def test_other_formats_and_statuses_are_counted(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are not judged, and the report says how many there are."""
    spoil(corpus, "weather-03", "exchange.json", status=400)
    shutil.copytree(corpus / "anthropic-messages", corpus / "ollama-chat")
    for path in (corpus / "ollama-chat").glob("*/*/exchange.json"):
        path.write_text(path.read_text().replace("anthropic-messages", "ollama-chat"))
    run.main([str(corpus), "--jobs", "1"])
    printed = lines(capsys)

    at = printed.index("Not judged (9 exchanges of other formats or with another status than 200):")
    assert [line.split() for line in printed[at + 1 : at + 4]] == [
        ["1", "anthropic-messages", "400"],
        ["7", "ollama-chat", "200"],
        ["1", "ollama-chat", "400"],
    ]


def test_deltas_may_differ_from_the_finished_text_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a stream's own deltas differ from its finished item, ours must repeat the recorded deltas."""
    shutil.copytree(OWN / "openai-responses", tmp_path / "openai-responses")
    stream = tmp_path / "openai-responses" / "openai" / "weather-01" / "response.sse"
    stream.write_text(stream.read_text("utf-8").replace('"delta": "Checking "', '"delta": "Looking "'), "utf-8")
    run.main([str(tmp_path), "--jobs", "1", "--case", "weather-01"])
    assert [line for line in lines(capsys) if line.startswith("FAILED streamed")] == []

    on_events(lambda event: [event, event])(monkeypatch, "openai-responses")
    run.main([str(tmp_path), "--jobs", "1", "--case", "weather-01"])
    assert [line for line in lines(capsys) if line.startswith("FAILED streamed")] != []


def test_byte_order_decides_where_the_oracle_sorts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An oracle that puts late reasoning first is overruled, and a codec that does the same fails."""
    shutil.copytree(OWN / "openai-chat", tmp_path / "openai-chat")
    path = tmp_path / "openai-chat" / "openrouter" / "late-details" / "expected.json"
    expected = json.loads(path.read_text())
    path.write_text(json.dumps({**expected, "blocks": expected["blocks"][::-1]}))
    arguments = [str(tmp_path), "--jobs", "1", "--case", "late-details"]
    run.main(arguments)
    printed = lines(capsys)
    assert [line for line in printed if line.startswith("FAILED decoded")] == []
    assert "The oracle differs from the bytes: 1, judged by the bytes." in printed

    fault = next(mutant for mutant in MUTANTS if mutant.name == "reasoning put before the text that came first")
    fault.patch(monkeypatch, fault.dialect)
    run.main(arguments)
    assert "       blocks: ['text', 'reasoning'] in the order of the bytes, ['reasoning', 'text'] found" in lines(
        capsys
    )


@pytest.mark.parametrize(
    ("case", "changed", "listed"),
    [
        ("openai-chat/openai/choices", {"choices": None}, "1 choices expected, 2 found"),
        ("openai-responses/openai/failed", {"stop": "failed"}, ""),
    ],
)
def test_bytes_decide_choices_and_stop_of_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, changed: dict[str, Any], listed: str
) -> None:
    """An oracle may give the first choice only, or a stop word where the codec raises the provider's error."""
    shutil.copytree(OWN / case, tmp_path / case)
    path = tmp_path / case / "expected.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    run.main([str(tmp_path), "--jobs", "1"])
    printed = "\n".join(lines(capsys))

    assert "FAILED decoded" not in printed
    assert f"judged by the bytes.\n         {case}: {listed}" in printed if listed else "bytes: 0" in printed


def test_named_type_that_is_decoded_as_opaque_fails() -> None:
    """Fields of the protocol are read, not only preserved."""
    opaque = Case("gemini/x/1", "gemini", "x", {"decoded": Judged()}, blocks=2, opaque=["toolCall", "brandNew"])
    report = Report([opaque])

    assert [check for _, check, _ in report.faults] == ["opaque"]
    assert any("2 of 2 (100.0%): brandNew (1), toolCall (1)" in line for line in report.lines())


def test_report_limits_failures_unless_all_are_requested() -> None:
    """The figures must stay visible with a broken codec."""
    report = Report([Case(f"gemini/x/{n}", "gemini", "x", {"decoded": Judged(["odd"])}) for n in range(50)])

    assert sum(line.startswith("FAILED") for line in report.lines()) == 40
    assert "... and 10 more (--all prints them)" in report.lines()
    assert sum(line.startswith("FAILED") for line in report.lines(100)) == 50


def test_interrupt_ends_the_run_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C shows no traceback and has its own exit code."""

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
