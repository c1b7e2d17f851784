"""Run many sessions on SQLite and Postgres, and an HTTP service with two workers (`make load`)."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import real_postgres
from load import service, waves


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/load", description=__doc__)
    parser.add_argument("--runs", type=int, default=3000, help="short runs per store and interface")
    parser.add_argument("--conversations", type=int, default=200, help="conversations with the HTTP service")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, real_postgres.using(Path(folder) / "postgres") as server:
        for name, store in (("sqlite", f"{folder}/load.db"), ("postgres", server.url("load"))):
            for kind, play in (("async", waves.async_waves), ("sync", waves.sync_waves)):
                started = time.monotonic()
                found = play(f"{store}", options.runs)
                print(f"{name} {kind}: {options.runs} runs in {time.monotonic() - started:.0f} s: {found}")
            started = time.monotonic()
            path = f"{folder}/service.db" if name == "sqlite" else server.url("service")
            results = service.run(path, options.conversations)
            print(
                f"{name} service: {options.conversations} conversations in {time.monotonic() - started:.0f} s: {results}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
