"""What is measured without the server: what loading costs, what an installation weighs, what keeping a session costs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.peers.driving import Failed
from bench.peers.environments import OURS, PEERS, environment
from bench.peers.sections import FEW, Field, still, unmeasured, wanting
from bench.results import calibration, judged

LOAD_GOALS = {"llm": 1 / 4}
COUNTS = (10, 100, 1_000, 10_000)
KEEPERS = {
    "openai-agents": ("openai-agents' add_items", 1.0),
    "langgraph": ("langgraph's SqliteSaver.put", None),
    "llm": ("llm's log_to_db", None),
}


def _loaded(python: Path, program: str) -> float:
    """CPU seconds of a fresh process."""
    process = subprocess.Popen([str(python), "-c", program], env=environment(), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{program} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def loading(field: Field) -> None:
    """`Client()` of this library beside the import of each peer; Python's own start is taken off everywhere."""
    ours = field.environments[OURS]
    for name, peer in PEERS.items():
        if name == OURS or not field.there(name):
            continue
        programs = [(ours.python, PEERS[OURS].loads), (field.environments[name].python, peer.loads)]
        goal = LOAD_GOALS.get(name)
        figures: tuple[list[dict], list[dict]] = ([], [])
        try:
            for one in programs:  # the first is to get warm
                _loaded(*one)
            while len(figures[0]) < FEW if goal is None else wanting(*figures):
                beside = calibration()
                for (who, program), found in zip(programs, figures, strict=True):
                    start = min(_loaded(who, "pass") for _ in range(3))
                    cpu = min(_loaded(who, program) for _ in range(1 if goal is None else 2)) - start
                    found.append({"cpu": cpu, "beside": beside, "turn": len(found)})
        except Failed as exc:
            field.board.add(unmeasured(f"loading: ours / {name}", str(exc), goal))
            continue
        kept, calibrations = still(*figures)
        least = [min(pair[at]["cpu"] for pair in kept) * 1e3 for at in (0, 1)]
        detail = f"{least[0]:.1f} ms for Client() against {least[1]:.0f} for {peer.loads}; {len(kept)} turns"
        field.board.add(
            judged(
                f"loading: ours / {name}",
                [one["cpu"] / other["cpu"] for one, other in kept],
                value=least[0],
                unit="ms CPU",
                goal=goal,
                run="peers",
                calibrations=calibrations,
                detail=detail,
            )
        )


def installed(field: Field) -> None:
    """Packages and megabytes of an installation; what Python's tools for installing weigh is not in it."""
    ours = field.environments[OURS]
    for name in PEERS:
        if name == OURS or not field.there(name):
            continue
        other = field.environments[name]
        told = f"{' '.join(PEERS[name].installs)}, {other.version}"
        for what, unit, one, two in (
            ("packages", "packages", ours.packages, other.packages),
            ("size", "MB", ours.megabytes, other.megabytes),
        ):
            detail = f"{one:.3g} against {two:.4g} of {told}"
            rest = {"unit": unit, "goal": None, "run": "peers", "calibrations": (), "detail": detail}
            field.board.add(judged(f"installed {what}: ours / {name}", [one / two], value=one, **rest))


def _wanted(name: str, figures: dict[str, list[dict]], turn: int) -> bool:
    """Whether somebody who keeps sessions is to be measured once more; ours is whenever another is."""
    if name == OURS:
        return False
    if KEEPERS[name][1] is None:
        return turn < FEW
    return wanting(figures.get(OURS, []), figures.get(name, []))


def keeping(field: Field) -> None:
    """One message of 4 KB more in a session of so many. Ours is on the disk when it is acknowledged."""
    for count in COUNTS:
        figures: dict[str, list[dict]] = {}
        who = [OURS, *(name for name in KEEPERS if field.there(name))]
        failed: dict[str, str] = {}
        turn = -1  # the first is to get warm
        while asked := [name for name in who if name not in failed and _wanted(name, figures, turn)]:
            for name in dict.fromkeys((OURS, *asked)):
                try:
                    came = field.driver(name).ask("save", count=count)
                except Failed as exc:
                    failed[name] = str(exc)
                else:
                    if turn >= 0:
                        figures.setdefault(name, []).append({**came, "turn": turn})
            if OURS in failed:
                break
            turn += 1
        for name, (what, goal) in KEEPERS.items():
            if name not in field.environments:
                continue
            row = f"checkpoint at {count:,} messages: ours / {what}"
            if name in failed or OURS in failed or not field.there(name):
                reason = failed.get(name) or failed.get(OURS) or field.environments[name].reason
                field.board.add(unmeasured(row, reason, goal))
                continue
            turns, calibrations = still(figures[OURS], figures[name])
            cpu, wall = ([min(pair[at][key] for pair in turns) * 1e3 for at in (0, 1)] for key in ("cpu", "wall"))
            detail = f"{cpu[0]:.2f} against {cpu[1]:.2f} of {name} {field.environments[name].version}; by the clock {wall[0]:.1f} against {wall[1]:.1f} ms"
            field.board.add(
                judged(
                    row,
                    [one["cpu"] / other["cpu"] for one, other in turns],
                    value=cpu[0],
                    unit="ms CPU per checkpoint",
                    goal=goal,
                    run="peers",
                    calibrations=calibrations,
                    detail=detail,
                )
            )
