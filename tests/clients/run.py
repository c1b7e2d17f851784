"""Run real clients against `tenuto sim`, and `tenuto.Client` against foreign servers; print a table client x scenario.

Pinned versions are a gate: the exit code is 1 if one of them fails. The newest versions are only reported.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import tenuto
from clients import claude_code, codex, pi
from clients.agents import AgentClient, Session
from clients.checks import ScenarioError, check_refusals
from clients.client_scenarios import CLIENT_SCENARIOS, Conversation, list_scenarios
from clients.packages import Package, PackageError, install_from_npm, newest_on_npm
from clients.scenarios import SCENARIOS
from clients.servers import SERVERS, ForeignServer
from clients.simulation import start_simulation

CLIENTS: tuple[AgentClient, ...] = (*codex.CLIENTS, *claude_code.CLIENTS, *pi.CLIENTS)
TITLES = tuple(dict.fromkeys((*SCENARIOS, *CLIENT_SCENARIOS)))


class Cell(NamedTuple):
    """The result of one scenario: the seconds that it took, and why it failed."""

    seconds: float
    reason: str = ""


class Row:
    """A client with its results."""

    def __init__(self, name: str, version: str, published: str, *, is_gate: bool) -> None:
        self.name = name
        self.version = version
        self.published = published
        self.is_gate = is_gate
        self.cells: dict[str, Cell] = {}
        self.error = ""
        """The reason why the client could not be installed or started."""

    def run(self, title: str, scenario: Callable[[], None]) -> None:
        """Run a scenario; a failure is a result."""
        started = time.monotonic()
        reason = ""
        try:
            scenario()
        except ScenarioError as exc:
            reason = str(exc)
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}"
        self.cells[title] = Cell(time.monotonic() - started, reason)
        print(f"  {title}: {reason or 'ok'}", flush=True)

    @property
    def failures(self) -> list[str]:
        """The reasons of all failures."""
        reasons = [f"{title}: {cell.reason}" for title, cell in self.cells.items() if cell.reason]
        return [f"{self.name} {self.version}: {reason}" for reason in ([self.error] if self.error else []) + reasons]

    @property
    def texts(self) -> list[str]:
        """The fields of the table."""
        cells = [self.cells.get(title) for title in TITLES]
        texts = ["-" if cell is None else "FAIL" if cell.reason else f"{cell.seconds:.1f} s" for cell in cells]
        return [self.name, self.version, self.published or "-", *(["FAIL"] if self.error else texts)]


class Options(NamedTuple):
    only: str
    scenario: str
    pinned: bool
    keep: bool

    def selects(self, name: str) -> bool:
        return self.only in name

    def select(self, titles: Iterator[str] | list[str]) -> list[str]:
        return [title for title in titles if self.scenario in ("", title)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only clients whose name contains TEXT")
    parser.add_argument("--scenario", default="", choices=TITLES, help="only this scenario")
    parser.add_argument("--pinned", action="store_true", help="without the newest versions")
    parser.add_argument("--keep", action="store_true", help="keep the directory of each scenario")
    options = Options(**vars(parser.parse_args()))
    started = time.monotonic()
    rows = [*_run_agents(options), *_run_servers(options)]
    print(f"\ntenuto {tenuto.__version__}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}\n")
    _print_table([row for row in rows if row.is_gate])
    if newest := [row for row in rows if not row.is_gate]:
        print("\nnewest versions, reported only:\n")
        _print_table(newest)
    failures = [failure for row in rows for failure in row.failures]
    print("".join(f"\n{failure}" for failure in failures))
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if any(row.is_gate and row.failures for row in rows) else 0


def _print_table(rows: list[Row]) -> None:
    lines = [["client", "version", "published", *TITLES], *(row.texts for row in rows)]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*lines, fillvalue="")]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=False)).rstrip())


def _versions(pinned: str, newest: Callable[[], str], options: Options) -> Iterator[tuple[str, bool]]:
    """Yield the pinned version and, if it is another one, the newest; and whether it is a gate."""
    yield pinned, True
    if not options.pinned:
        try:
            version = newest()
        except PackageError:
            version = "newest"
        if version != pinned:
            yield version, False


def _run_agents(options: Options) -> Iterator[Row]:
    clients = [client for client in CLIENTS if options.selects(f"{client.program}, {client.variant}")]
    for client in clients:
        for version, is_gate in _versions(client.pinned, partial(newest_on_npm, client.package), options):
            row = Row(f"{client.program}, {client.variant}", version, "", is_gate=is_gate)
            print(f"{row.name} {version}", flush=True)
            try:
                package = install_from_npm(client.package, version)
            except PackageError as exc:
                row.error = f"cannot be installed: {exc}"
            else:
                row.published = package.published
                for title in options.select(list(SCENARIOS)):
                    row.run(title, partial(_play, client, package, title, options.keep))
            yield row


def _play(client: AgentClient, package: Package, title: str, keep: bool) -> None:
    """Play a scenario with a client and a simulator. Raise `ScenarioError`."""
    scenario = SCENARIOS[title]
    with _directory(keep) as root, start_simulation(scenario.scripts(client), root) as simulation:
        try:
            scenario.play(Session(client, package, root, simulation))
        except ScenarioError:  # a refusal explains it better
            check_refusals(simulation.exchanges, client.expected_refusals(title))
            raise
        finally:
            (root / "log.json").write_bytes(simulation.log)
        check_refusals(simulation.exchanges, client.expected_refusals(title))


def _run_servers(options: Options) -> Iterator[Row]:
    for server in SERVERS:
        names = {dialect: f"tenuto.Client, {server.name}, {dialect}" for dialect in server.models}
        dialects = [dialect for dialect, name in names.items() if options.selects(name)]
        for version, is_gate in _versions(server.pinned, server.newest, options) if dialects else ():
            rows = [Row(names[dialect], version, "", is_gate=is_gate) for dialect in dialects]
            try:
                package = server.install(version)
                with _directory(options.keep) as root, server.start(package, root) as url:
                    for row, dialect in zip(rows, dialects, strict=True):
                        row.published = package.published
                        print(f"{row.name} {version}", flush=True)
                        _run_dialect(row, server, dialect, url, options)
            except (PackageError, RuntimeError) as exc:
                for row in rows:
                    row.error = str(exc)
            yield from rows


def _run_dialect(row: Row, server: ForeignServer, dialect: tenuto.Dialect, url: str, options: Options) -> None:
    with Conversation(server, dialect, url) as conversation:
        for title in options.select(list_scenarios(server, dialect)):
            row.run(title, partial(CLIENT_SCENARIOS[title], conversation))


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    """Make a temporary directory; remove it at the end unless it is kept."""
    root = Path(tempfile.mkdtemp(prefix="tenuto-clients-"))
    try:
        yield root
    finally:
        if keep:
            print(f"  {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)
