"""Programs from npm and PyPI, each in its own directory of the cache."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

CACHE = Path(__file__).parents[2] / ".interop"
_TIMEOUT = 900
_MARKER = "installed"
"""The file that an installation writes last. It contains the publication date."""


class PackageError(Exception):
    """A package cannot be installed: the reason."""


class Package(NamedTuple):
    """An installed package: its directory, its version and the day of its publication."""

    root: Path
    version: str
    published: str


def install_from_npm(name: str, version: str) -> Package:
    """Install a package and its dependencies, or return the earlier installation. Raise `PackageError`."""
    root = _directory(name, version)
    if not (root / _MARKER).exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        options = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
        _run("npm", "install", "--prefix", str(root), *options, f"{name}@{version}")
        (root / _MARKER).write_text(_npm_times(name).get(version, "")[:10])
    return Package(root, version, (root / _MARKER).read_text())


@functools.cache
def newest_on_npm(name: str) -> str:
    """Return the version with the tag `latest`. Raise `PackageError`."""
    return str(json.loads(_run("npm", "view", name, "version", "--json")))


def install_from_pypi(name: str, version: str) -> Package:
    """Unpack the wheel of a package, or return the earlier installation. Raise `PackageError`."""
    root = _directory(name, version)
    if not (root / _MARKER).exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(root), f"{name}=={version}")
        for wheel in root.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(root)
            wheel.unlink()
        (root / _MARKER).write_text(_pypi_date(name, version))
    return Package(root, version, (root / _MARKER).read_text())


@functools.cache
def newest_on_pypi(name: str) -> str:
    """Return the newest version. Raise `PackageError`."""
    text = _run(sys.executable, "-m", "pip", "index", "versions", name)
    return text.partition("(")[2].partition(")")[0]


def _directory(name: str, version: str) -> Path:
    return CACHE / f"{name.rpartition('/')[2]}-{version}"


@functools.cache
def _npm_times(name: str) -> dict[str, str]:
    times: dict[str, str] = json.loads(_run("npm", "view", name, "time", "--json"))
    return times


def _pypi_date(name: str, version: str) -> str:
    """Return the date of publication; empty if the index does not tell."""
    try:
        with urllib.request.urlopen(f"https://pypi.org/pypi/{name}/json", timeout=30) as response:
            return str(json.load(response)["releases"][version][0]["upload_time"])[:10]
    except (OSError, ValueError, LookupError):
        return ""


def _run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("npm_config_")}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PackageError(f"{command[0]}: {exc}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "A complete log" not in line]
        raise PackageError("; ".join(line.removeprefix("npm error ") for line in lines if line.strip())[:300])
    return done.stdout
