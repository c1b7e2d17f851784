"""The recorded files: named sections of lines."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DATA", "read", "write"]

DATA = Path(__file__).parent / "data"
_HEAD = "# Written by `make baseline`; compared by `make baseline-check`.\n"


def write(part: str, sections: dict[str, list[str]], directory: Path = DATA) -> Path:
    """Write a part; return its file."""
    path = directory / f"{part}.txt"
    directory.mkdir(parents=True, exist_ok=True)
    text = [_HEAD, *(f"\n## {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items())]
    path.write_text("".join(text), encoding="utf-8", newline="\n")
    return path


def read(part: str, directory: Path = DATA) -> dict[str, list[str]] | None:
    """Read a part; None if it was never written."""
    path = directory / f"{part}.txt"
    if not path.exists():
        return None
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text("utf-8").split("\n")[:-1]:
        if line.startswith("## "):
            lines = sections[line[3:]] = []
        elif sections and line:
            lines.append(line)
    return sections
