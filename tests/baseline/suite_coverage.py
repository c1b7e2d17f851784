"""Line coverage of each package by the test suite, in whole percent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["measure"]

_ROOT = Path(__file__).parents[2]


def measure(tests: list[str], jobs: int = 2) -> dict[str, list[str]] | None:
    """Run tests under coverage; return the percentage of each package, or None if a test failed."""
    with tempfile.TemporaryDirectory() as made:
        report = Path(made) / "coverage.json"
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), *tests, "--cov"]
        command += [f"--cov-config={Path(__file__).with_name('coverage.ini')}", f"--cov-report=json:{report}"]
        environment = {**os.environ, "COVERAGE_FILE": str(Path(made) / "coverage")}
        if subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode != 0:
            return None
        return _percentages(json.loads(report.read_bytes())["files"])


def _percentages(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, list[str]]:
    covered: dict[str, list[int]] = {}
    for path, found in files.items():
        parts = Path(path).parts
        below = parts[parts.index("tenuto") + 1 :]
        counts = covered.setdefault(f"tenuto.{below[0]}" if len(below) > 1 else "tenuto", [0, 0])
        counts[0] += found["summary"]["covered_lines"]
        counts[1] += found["summary"]["num_statements"]
    return {name: [str(100 * lines // max(count, 1))] for name, (lines, count) in sorted(covered.items())}
