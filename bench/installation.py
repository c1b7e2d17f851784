"""Count the packages and megabytes of `pip install .` in a new environment.

The goal applies to the files of the packages, as in the comparison with other libraries. The size with the files that
pip compiles afterwards (uv does not) is a separate row without a goal: the four dependencies alone would exceed it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bench.results import Board, Result, make_result

PACKAGES = 17
MEGABYTES = 25
ROOT = Path(__file__).parents[1]


def _sizes(folder: Path) -> tuple[list[str], float, float, float]:
    """Return the packages and the megabytes: with compiled files, without, and those of tenuto with them."""
    site = next(folder.rglob("site-packages"))
    packages = sorted(path.name.partition("-")[0] for path in site.glob("*.dist-info"))
    sizes = {path: path.lstat().st_size / 1e6 for path in site.rglob("*") if path.is_file()}
    tenuto_size = sum(size for path, size in sizes.items() if path.is_relative_to(site / "tenuto"))
    return (
        packages,
        sum(sizes.values()),
        sum(size for path, size in sizes.items() if path.suffix != ".pyc"),
        tenuto_size,
    )


def run(board: Board) -> None:
    """Install, count and add the rows; without a package index, the rows have no figure and fail."""
    with tempfile.TemporaryDirectory() as name:
        venv.create(name, with_pip=False)
        python = Path(name) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-warn-script-location"]
        process = subprocess.run([*pip, str(ROOT)], capture_output=True, text=True, check=False)
        if process.returncode:
            lines = [line.strip() for line in process.stderr.splitlines()]
            reason = next((line for line in lines if line.startswith("ERROR")), "no message from pip")
            for figure, unit, goal in (("packages", "packages", PACKAGES), ("size", "MB", MEGABYTES)):
                board.add(
                    Result(
                        name=f"installed: {figure}",
                        value=0,
                        unit=unit,
                        goal=goal,
                        passed=False,
                        run="bench",
                        detail=f"not measured, `pip install .` failed: {reason}"[:200],
                    )
                )
            return
        packages, compiled_size, size, tenuto_size = _sizes(Path(name))
    for figure, value, unit, goal, detail in (
        ("packages", len(packages), "packages", PACKAGES, ", ".join(packages)),
        ("size", size, "MB", MEGABYTES, "without compiled files"),
        ("size with compiled files", compiled_size, "MB", None, f"tenuto: {tenuto_size:.1f}"),
    ):
        board.add(
            make_result(
                f"installed: {figure}",
                [],
                value=value,
                unit=unit,
                goal=goal,
                run="bench",
                calibrations=[],
                detail=detail,
            )
        )
