"""`tenuto embed` with directories, and with files that are not text."""

from __future__ import annotations

import json


def test_directory_stands_for_its_text_files(here, tmp_path):
    for name, data in {
        "docs/a.md": b"one",
        "docs/sub/b.md": b"two",
        "docs/image.png": b"\x89PNG\0",
        "docs/empty.md": b"",
        "docs/.hidden/c.md": b"three",
        "docs/.d.md": b"four",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    done = here("embed", "docs", "-m", "sim/openai")
    again = json.loads(here("embed", "docs", "docs/a.md", "--json").out)
    named = here("embed", "docs/image.png")

    assert (done.code, named.code) == (0, 1)
    assert "2 embedded by sim/openai (768 dimensions); 2 skipped: " in done.err
    assert (again["unchanged"], again["skipped"], again["failed"]) == (3, ["docs/empty.md", "docs/image.png"], [])
    assert "failed: docs/image.png is binary or empty" in named.err
    ranked = json.loads(here("embed", "--similar", "two", "--json").out)
    assert sorted(row["id"] for row in ranked) == ["docs/a.md", "docs/sub/b.md"]
