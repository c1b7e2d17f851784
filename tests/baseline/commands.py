"""The command: exit code, stdout and stderr of each recorded command line, with masked values."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from baseline.command_lines import FILES, SCENES, SCRIPTS, CommandLine
from baseline.plain_form import Masker, Names, digest

__all__ = ["NAMES", "record", "run_scene"]

_NOW = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
"""The time of the commands: prices and retirement dates are those of this day."""
_NUMBERED = {"key": "key", "digest": "digest", "prefix": "prefix", "account": "account"}
_MASKED = (
    *(
        "at",
        "created_at",
        "updated_at",
        "pid",
        "host",
        "holder",
        "bytes",
        "blob_bytes",
        "backend",
        "encoder",
        "version",
    ),
    *("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens"),
    *("signature", "encrypted_content", "thought_signature", "thoughtSignature", "score", "vector", "seconds"),
)
_SESSION = re.compile(r"\b01[0-9a-z]{8,30}\b")
_PATTERNS = (
    (re.compile(r"\b(?:toolu|call|msg|resp|chatcmpl|rs|fc|gen|req)_[-\w]{8,}"), "id"),
    (re.compile(r'(?<="id": ")[-\w]{20,}(?=")'), "id"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds)\b"), "<duration>"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "<version>"),
    (re.compile(r"\b(bytes +)[\d,]+"), r"\1<count>"),
    (re.compile(r"\b[\d,]+ (tokens|in|out|bytes)\b"), r"<count> \1"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"\b(process|pid) \d+"), r"\1 <pid>"),
)
_LINES = 300
"""Longer output is shortened to its start and a digest; so are longer lines."""
_TIMEOUT = 120
_LENGTH = 400


def _names() -> list[tuple[str, str, CommandLine]]:
    found: list[tuple[str, str, CommandLine]] = []
    for scene, lines in SCENES.items():
        for line in lines:
            name = f"{scene}: tenuto {line.text}"
            again = sum(1 for other, _, other_line in found if (other, other_line.text) == (scene, line.text))
            found.append((scene, f"{name} ({again + 1})" if again else name, line))
    return found


_ALL = _names()
NAMES = tuple(name for _, name, _ in _ALL)


def record(jobs: int = 1, names: Names | None = None) -> dict[str, list[str]]:
    """Run every command line; return the lines of each by its name."""
    with ThreadPoolExecutor(jobs) as workers:
        scenes = sorted(SCENES, key=lambda scene: -len(SCENES[scene]))
        found = {k: v for part in workers.map(lambda scene: run_scene(scene, names), scenes) for k, v in part.items()}
    return {name: found[name] for name in NAMES}


def run_scene(
    scene: str,
    names: Names | None = None,
    command: Callable[[float], list[str]] | None = None,
    only: Callable[[str], bool] = lambda name: True,
) -> dict[str, list[str]]:
    """Run the command lines of a scene in a new directory. `command` replaces how the command is started."""
    names = names or Names()
    offset = _NOW - time.time()
    start = (
        command(offset) if command else [sys.executable, str(Path(__file__).with_name("command_at.py")), str(offset)]
    )
    found = {}
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made).resolve()
        environment = _environment(directory)
        masks = _Masks(directory, names)
        for other, name, line in _ALL:
            if other != scene or not only(name):
                continue
            arguments = names.arguments(tuple(shlex.split(line.text)))
            code, out, err = _run([*start, *arguments], line.stdin, directory / "work", environment)
            found[name] = [f"exit {code}"]
            if not line.code_only:
                found[name] += _block("out", names.text(masks.mask(out)))
                found[name] += _block("err", names.text(masks.mask(err)))
    return found


def _run(command: list[str], stdin: str, directory: Path, environment: dict[str, str]) -> tuple[int | str, str, str]:
    """Run a command without a terminal; return exit code, stdout and stderr."""
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=directory,
            env=environment,
            start_new_session=True,  # it must not prompt on the terminal of this process
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timeout", "", ""
    return done.returncode, done.stdout, done.stderr


def _environment(directory: Path) -> dict[str, str]:
    """Make the files of a scene; return the environment, without keys, settings or optional packages."""
    work, plain = directory / "work", directory / "plain"
    for made in (work, plain):
        made.mkdir()
    for name, text in FILES.items():
        (work / name).write_text(text)
    (plain / "genai_prices.py").write_text("raise ImportError")  # prices are those of the tables
    script = directory / "script.json"
    script.write_text(json.dumps(SCRIPTS))
    inherited = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return inherited | {
        "HOME": str(directory),
        "TENUTO_HOME": str(directory / "home"),
        "TENUTO_SIM_SCRIPT": str(script),
        "TENUTO_MODEL": "sim/anthropic",
        "COLUMNS": "100",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONPATH": str(plain),
        "PYTHONUTF8": "1",
    }


class _Masks:
    """Masks the output of one scene; ids keep their numbers from line to line."""

    def __init__(self, directory: Path, names: Names) -> None:
        self._directory = str(directory)
        self._names = names
        self._masker = Masker(_NUMBERED, _MASKED)
        self._ids: list[str] = []

    def mask(self, text: str) -> str:
        text = self._json(text).replace(self._directory, "$DIR")
        text = _SESSION.sub(lambda match: self._session(match[0]), text)
        for pattern, put in _PATTERNS:
            if put == "id":
                text = pattern.sub(lambda match: self._masker.number("id", match[0]), text)
            else:
                text = pattern.sub(put, text)
        return re.sub(r"(?<=\S) {2,}", "  ", text)  # the width of a column depends on its content

    def _session(self, id: str) -> str:
        """Number an id; the unique beginning of one has its number."""
        at = next((at for at, one in enumerate(self._ids) if one.startswith(id) or id.startswith(one)), len(self._ids))
        self._ids[at : at + 1] = [max(id, *self._ids[at : at + 1], key=len) if at < len(self._ids) else id]
        return f"<session {at + 1}>"

    def _json(self, text: str) -> str:
        """Mask a JSON document, or each line that is one."""
        try:
            return json.dumps(self._plain(text), ensure_ascii=False, indent=1)
        except ValueError:
            return "\n".join(map(self._json_line, text.splitlines()))

    def _json_line(self, line: str) -> str:
        if not line.startswith("{"):
            return line
        try:
            return json.dumps(self._plain(line), ensure_ascii=False)
        except ValueError:
            return line

    def _plain(self, text: str) -> Any:
        return self._masker.mask(self._names.document(json.loads(text)))


def _block(option: str, text: str) -> list[str]:
    lines = [f"{option} {_shortened(line)}".rstrip() for line in text.splitlines()]
    if len(lines) > _LINES:
        return [*lines[:_LINES], f"{option} … {len(lines) - _LINES} more lines {digest(lines)}"]
    return lines


def _shortened(line: str) -> str:
    return line if len(line) <= _LENGTH else f"{line[:_LENGTH]}… {digest(line)}"
