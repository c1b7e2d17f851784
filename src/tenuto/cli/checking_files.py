"""What the doctor finds in folders and files: where things are, who can read them, and whether there is room."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tenuto import settings
from tenuto.cli.checking import Finding

__all__ = [
    "config_findings",
    "key_findings",
    "model_findings",
    "permission_findings",
    "place_findings",
    "room_findings",
]

_OCTAL = re.compile(r"\\([0-7]{3})")
_LITTLE, _NONE = 200_000_000, 10_000_000
_NETWORKS = (
    *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "afpfs", "ncpfs", "davfs"),
    *("ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
    *("9p", "drvfs", "virtiofs", "vboxsf", "prl_fs", "vmhgfs"),
    *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.davfs", "fuse.glusterfs", "fuse.vmhgfs-fuse"),
)
"""File systems whose memory-mapped files are not shared by all who use them."""


# --- what is set ------------------------------------------------------------------------------------------------------


def config_findings(profile: str | None) -> Iterator[Finding]:
    """Whether what is configured can be used; what is typed for each command lies over it."""
    from tenuto.cli.configuring import loaded, own_providers

    config, own = loaded(), own_providers()
    name = config.profile(profile)
    if not config.exists:
        yield Finding("configuration", "ok", f"none, which is fine; it would be {config.path}")
    else:
        held = f", profile {name}" if name else ""
        servers = f", servers of your own: {', '.join(own)}" if own else ""
        yield Finding("configuration", "ok", f"{config.path}{held}{servers}")


def model_findings(profile: str | None) -> Iterator[Finding]:
    """Who answers if nobody is named, and whether there is such a model."""
    from tenuto.catalog import resolve
    from tenuto.cli.catalogue import near_models
    from tenuto.cli.choosing import chosen, split_effort
    from tenuto.cli.configuring import defaults, own_providers
    from tenuto.errors import TenutoError

    named = defaults("run", profile).get("model")  # the profile, and the variables
    choice = chosen(str(named) if named else None)
    model, _ = split_effort(choice.model)
    try:
        if model.partition("/")[0] not in own_providers():
            resolve(model)
    except TenutoError as exc:
        near = near_models(model)
        todo = f"did you mean {' or '.join(near)}?" if near else "tenuto models lists what there is"
        yield Finding("model", "problem", f"{model}: {exc}", todo)
        return
    yield Finding("model", "note" if choice.note else "ok", choice.note or f"{choice.model}, unless -m says otherwise")


def key_findings() -> Iterator[Finding]:
    """For whom there is a key. No key is ever shown, nor a part of one."""
    from tenuto.cli.having import all_providers

    held = [f"{one.name} ({one.where})" for one in all_providers() if one.key in ("set", "kept")]
    if held:
        yield Finding("keys", "ok", ", ".join(held))
    else:
        yield Finding("keys", "note", "none, so only the simulator can be asked", "tenuto keys set PROVIDER keeps one")


# --- who can read it --------------------------------------------------------------------------------------------------


def permission_findings(store: Path | None) -> Iterator[Finding]:
    """Whether others can read what is yours. Where modes mean nothing (Windows), nothing is said."""
    from tenuto.cli.configuring import config_path
    from tenuto.cli.keyring import keys_path

    if os.name != "posix":
        return
    history = settings.home() / "history"
    held = [
        *_open("keys", keys_path(), 0o077, "problem"),
        *_open("configuration", config_path(), 0o022, "warning"),
        *_open("history", history, 0o077, "warning"),
        *(_open("store", store, 0o077, "warning") if store is not None else ()),
    ]
    folders = dict.fromkeys([keys_path().parent, history.parent, *([store.parent] if store is not None else [])])
    for folder in folders:
        held += _open("folder", folder, 0o022, "warning")
    yield from held
    if not held:
        yield Finding("permissions", "ok", "nobody else can read your keys, sessions and history")


def _open(what: str, path: Path, bits: int, state: str) -> Iterator[Finding]:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    mode = found.st_mode & 0o7777
    sticky = mode & 0o1000  # as /tmp is: others can add, and not take away
    if mode & bits and not sticky:
        can = "written" if bits == 0o022 else "read"
        todo = f"chmod {'go-w' if bits == 0o022 else '600'} {shlex.quote(str(path))}"
        unused = "; its keys are not used" if state == "problem" else ""
        yield Finding(
            "permissions",
            "problem" if state == "problem" else "warning",
            f"{what} {path} can be {can} by others (mode {mode & 0o777:04o}){unused}",
            todo,
        )


# --- where it is ------------------------------------------------------------------------------------------------------


def place_findings(store: Path) -> Iterator[Finding]:
    """Whether a file can be made or changed there, and whether it is a place for a database."""
    folder = _existing(store.parent)
    closed = None if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) else folder
    if closed is None and store.exists() and not os.access(store, os.W_OK):
        closed = store
    if closed is not None:
        why = "cannot be written" if closed.is_dir() or closed == store else "is no folder"
        what = f"{closed} {why}: no session can be kept"
        yield Finding(
            "place", "problem", what, "change its permissions, or set TENUTO_STORE or TENUTO_HOME to another place"
        )
        return
    kind = _file_system(folder)
    if kind in _NETWORKS or str(folder).startswith("\\\\"):
        what = f"{folder} is on a network file system ({kind or 'a share'}): there a SQLite file can be damaged"
        yield Finding("place", "warning", what, "set TENUTO_STORE to a local disk, or to postgresql://...")
    else:
        yield Finding("place", "ok", f"{folder}{f' ({kind})' if kind else ''} can be written")


def room_findings(store: Path) -> Iterator[Finding]:
    """Whether there is room for more."""
    folder = _existing(store.parent)
    if not folder.is_dir():  # that is said already
        return
    free = shutil.disk_usage(folder).free
    what = f"{_bytes(free)} free at {folder}"
    if free < _LITTLE:
        yield Finding(
            "room", "problem" if free < _NONE else "warning", what, "make room: nothing can be kept on a full disk"
        )
    else:
        yield Finding("room", "ok", what)


def _existing(folder: Path) -> Path:
    """Return the folder, or what is nearest above it and there: that need not be a folder."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place)), folder)


def _file_system(folder: Path) -> str:
    """Return what kind of file system a folder is on; empty where that cannot be told."""
    if sys.platform != "linux":
        return ""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    return mounted(lines, folder.resolve())


def mounted(lines: list[str], folder: Path) -> str:
    """Return the kind of the file system that holds a folder, by the lines of a `mountinfo`; the last one wins."""
    found, depth = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        at = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]))  # spaces are written \040
        if (at == folder or at in folder.parents) and len(at.parts) >= depth:
            found, depth = after.split(" ")[0], len(at.parts)
    return found


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
