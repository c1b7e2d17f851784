"""What a plain installation brings along: packages and megabytes of `pip install .` in a fresh environment.

The goal is for what the packages hold, as beside the others. What pip compiles of it afterwards (uv does not) has a row of
its own, without one: with those files the four dependencies alone are above the goal.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bench.results import Board, Result, judged

PACKAGES = 17
MEGABYTES = 25
HERE = Path(__file__).parents[1]


def _sizes(folder: Path) -> tuple[list[str], float, float, float]:
    """The packages, and the megabytes: with compiled files, without, and of those with them our own."""
    site = next(folder.rglob("site-packages"))
    packages = sorted(path.name.partition("-")[0] for path in site.glob("*.dist-info"))
    sizes = {path: path.lstat().st_size / 1e6 for path in site.rglob("*") if path.is_file()}
    own = sum(size for path, size in sizes.items() if path.is_relative_to(site / "tenuto"))
    return packages, sum(sizes.values()), sum(size for path, size in sizes.items() if path.suffix != ".pyc"), own


def run(board: Board) -> None:
    """Install, count, and add the rows; where no index can be reached, say so in rows that pass nothing."""
    with tempfile.TemporaryDirectory() as name:
        venv.create(name, with_pip=False)
        python = Path(name) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-warn-script-location"]
        done = subprocess.run([*pip, str(HERE)], capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines()]
            why = next((line for line in lines if line.startswith("ERROR")), "pip said nothing")
            for what, unit, goal in (("packages", "packages", PACKAGES), ("size", "MB", MEGABYTES)):
                board.add(
                    Result(name=f"installed: {what}", value=0, unit=unit, goal=goal, passed=False, run="bench",
                           detail=f"not measured, `pip install .` failed: {why}"[:200])
                )  # fmt: skip
            return
        packages, whole, plain, own = _sizes(Path(name))
    for what, value, unit, goal, detail in (
        ("packages", len(packages), "packages", PACKAGES, ", ".join(packages)),
        ("size", plain, "MB", MEGABYTES, "as the packages hold it"),
        ("size, with what pip compiles", whole, "MB", None, f"{own:.1f} of it are ours"),
    ):
        board.add(
            judged(f"installed: {what}", [], value=value, unit=unit, goal=goal, run="bench", calibrations=[],
                   detail=detail)
        )  # fmt: skip
