"""Measure without the server: loading, the size of an installation, and appends to a stored session."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.peers.driver_process import DriverError
from bench.peers.environments import PEERS, TENUTO, make_variables
from bench.peers.sections import FEW_TURNS, Comparison, make_unmeasured, needs_turn, select_turns
from bench.results import calibrate, make_result

LOAD_GOALS = {"llm": 1 / 4}
LENGTHS = (10, 100, 1_000, 10_000)
SESSION_STORES = {
    "openai-agents": ("openai-agents' add_items", 1.0),
    "langgraph": ("langgraph's SqliteSaver.put", None),
    "llm": ("llm's log_to_db", None),
}


def _run_program(python: Path, program: str) -> float:
    """Return the CPU seconds of a new process."""
    process = subprocess.Popen([str(python), "-c", program], env=make_variables(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise DriverError(f"{program} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure_loading(comparison: Comparison) -> None:
    """Compare `Client()` with the import of each library, without the start of Python."""
    tenuto = comparison.environments[TENUTO]
    for name, peer in PEERS.items():
        if name == TENUTO or not comparison.is_installed(name):
            continue
        programs = [(tenuto.python, PEERS[TENUTO].loads), (comparison.environments[name].python, peer.loads)]
        goal = LOAD_GOALS.get(name)
        turns: tuple[list[dict], list[dict]] = ([], [])
        try:
            for one in programs:  # warm up
                _run_program(*one)
            while len(turns[0]) < FEW_TURNS if goal is None else needs_turn(*turns):
                calibration = calibrate()
                for (python, program), results in zip(programs, turns, strict=True):
                    start = min(_run_program(python, "pass") for _ in range(3))
                    cpu = min(_run_program(python, program) for _ in range(1 if goal is None else 2)) - start
                    results.append({"cpu": cpu, "calibration": calibration, "turn": len(results)})
        except DriverError as exc:
            comparison.board.add(make_unmeasured(f"loading: tenuto / {name}", str(exc), goal))
            continue
        selected_turns, calibrations = select_turns(*turns)
        lowest = [min(pair[at]["cpu"] for pair in selected_turns) * 1e3 for at in (0, 1)]
        detail = f"{lowest[0]:.1f} ms for Client() vs {lowest[1]:.0f} for {peer.loads}; {len(selected_turns)} turns"
        comparison.board.add(
            make_result(
                f"loading: tenuto / {name}",
                [one["cpu"] / other["cpu"] for one, other in selected_turns],
                value=lowest[0],
                unit="ms CPU",
                goal=goal,
                run="peers",
                calibrations=calibrations,
                detail=detail,
            )
        )


def measure_installation(comparison: Comparison) -> None:
    """Compare the packages and megabytes of an installation, without the tools for installing."""
    tenuto = comparison.environments[TENUTO]
    for name in PEERS:
        if name == TENUTO or not comparison.is_installed(name):
            continue
        other = comparison.environments[name]
        description = f"{' '.join(PEERS[name].installs)}, {other.version}"
        for what, unit, one, two in (
            ("packages", "packages", tenuto.packages, other.packages),
            ("size", "MB", tenuto.megabytes, other.megabytes),
        ):
            detail = f"{one:.3g} vs {two:.4g} ({description})"
            rest = {"unit": unit, "goal": None, "run": "peers", "calibrations": (), "detail": detail}
            comparison.board.add(make_result(f"installed {what}: tenuto / {name}", [one / two], value=one, **rest))


def _needs_turn(name: str, figures: dict[str, list[dict]], turn: int) -> bool:
    """Return whether a library needs another turn. tenuto takes part in the turns of the others."""
    if name == TENUTO:
        return False
    if SESSION_STORES[name][1] is None:
        return turn < FEW_TURNS
    return needs_turn(figures.get(TENUTO, []), figures.get(name, []))


def measure_append(comparison: Comparison) -> None:
    """Measure an append of a 4 KB message to sessions of several lengths. In tenuto it is on the disk when it returns."""
    for count in LENGTHS:
        figures: dict[str, list[dict]] = {}
        names = [TENUTO, *(name for name in SESSION_STORES if comparison.is_installed(name))]
        failed: dict[str, str] = {}
        turn = -1  # the first turn warms up
        while selected := [name for name in names if name not in failed and _needs_turn(name, figures, turn)]:
            for name in dict.fromkeys((TENUTO, *selected)):
                try:
                    result = comparison.driver(name).run("append", count=count)
                except DriverError as exc:
                    failed[name] = str(exc)
                else:
                    if turn >= 0:
                        figures.setdefault(name, []).append({**result, "turn": turn})
            if TENUTO in failed:
                break
            turn += 1
        for name, (what, goal) in SESSION_STORES.items():
            if name not in comparison.environments:
                continue
            row = f"append, session of {count:,} messages: tenuto / {what}"
            if name in failed or TENUTO in failed or not comparison.is_installed(name):
                reason = failed.get(name) or failed.get(TENUTO) or comparison.environments[name].reason
                comparison.board.add(make_unmeasured(row, reason, goal))
                continue
            turns, calibrations = select_turns(figures[TENUTO], figures[name])
            cpu, wall = ([min(pair[at][key] for pair in turns) * 1e3 for at in (0, 1)] for key in ("cpu", "wall"))
            detail = f"{cpu[0]:.2f} vs {cpu[1]:.2f} ({name} {comparison.environments[name].version}); wall time {wall[0]:.1f} vs {wall[1]:.1f} ms"
            comparison.board.add(
                make_result(
                    row,
                    [one["cpu"] / other["cpu"] for one, other in turns],
                    value=cpu[0],
                    unit="ms CPU per append",
                    goal=goal,
                    run="peers",
                    calibrations=calibrations,
                    detail=detail,
                )
            )
