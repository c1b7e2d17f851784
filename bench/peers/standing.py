"""What is measured without the server: what loading costs, what an installation weighs, what keeping a session costs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.peers.driver import TURNS
from bench.peers.driving import Failed
from bench.peers.environments import OURS, PEERS, environment
from bench.peers.sections import FEW, Field, still, unmeasured
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
        python = field.environments[name].python
        turns = []
        try:
            judged_one = name in LOAD_GOALS
            for _ in range(TURNS + 1 if judged_one else FEW):
                beside = calibration()
                pair = []
                for who, program in ((ours.python, PEERS[OURS].loads), (python, peer.loads)):
                    start = min(_loaded(who, "pass") for _ in range(3))
                    pair.append(
                        {
                            "cpu": min(_loaded(who, program) for _ in range(2 if judged_one else 1)) - start,
                            "beside": beside,
                        }
                    )
                turns.append(pair)
        except Failed as exc:
            field.board.add(unmeasured(f"loading: ours / {name}", str(exc), LOAD_GOALS.get(name)))
            continue
        del turns[: len(turns) - TURNS if judged_one else 0]  # the first is to get warm
        kept, calibrations = still(*map(list, zip(*turns, strict=True)))
        least = [min(pair[at]["cpu"] for pair in kept) * 1e3 for at in (0, 1)]
        detail = f"{least[0]:.1f} ms for Client() against {least[1]:.0f} for {peer.loads}; {len(kept)} turns"
        field.board.add(
            judged(
                f"loading: ours / {name}",
                [one["cpu"] / other["cpu"] for one, other in kept],
                value=least[0],
                unit="ms CPU",
                goal=LOAD_GOALS.get(name),
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


def keeping(field: Field) -> None:
    """One message of 4 KB more in a session of so many. Ours is on the disk when it is acknowledged."""
    for count in COUNTS:
        figures: dict[str, list[dict]] = {}
        who = [OURS, *(name for name in KEEPERS if field.there(name))]
        failed = {}
        for turn in range(TURNS + 1):
            for name in who:
                if name in failed or (turn > FEW and KEEPERS.get(name, ("", 1.0))[1] is None):
                    continue
                try:
                    figures.setdefault(name, []).append(field.driver(name).ask("save", count=count))
                except Failed as exc:
                    failed[name] = str(exc)
        for name, (what, goal) in KEEPERS.items():
            if name not in field.environments:
                continue
            row = f"checkpoint at {count:,} messages: ours / {what}"
            if name in failed or OURS in failed or not field.there(name):
                reason = failed.get(name) or failed.get(OURS) or field.environments[name].reason
                field.board.add(unmeasured(row, reason, goal))
                continue
            turns, calibrations = still(figures[OURS][1:], figures[name][1:])  # the first is to get warm
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
