"""The only reader of the environment.

What is set there is read when it is needed, not when the package is imported, so that a test or a program may still
change it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["config_home", "debug", "environment", "first_set", "getenv", "home", "proxy", "store"]


_HERE = ("localhost", "127.0.0.1", "::1")


def getenv(name: str) -> str:
    """Return what a variable holds, without the space around it; empty if it is not set."""
    return os.environ.get(name, "").strip()


def first_set(names: Iterable[str]) -> str:
    """Return what the first of these variables that is set holds; empty if none is."""
    return next((held for name in names if (held := getenv(name))), "")


def environment() -> dict[str, str]:
    """Return a copy of all variables: for a command that is run. Whoever passes it on takes the secrets out of it."""
    return dict(os.environ)


def debug(topic: str) -> bool:
    """Tell whether `TENUTO_DEBUG`, a list of words, asks for this one."""
    return topic in getenv("TENUTO_DEBUG").replace(",", " ").split()


def proxy(url: str) -> str | None:
    """Return the proxy that the environment, or the system's settings, want for an address; None if none.

    What runs on this very machine is never asked through a proxy.
    """
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass  # loads a dozen modules: only where something is sent

    parts = urlsplit(url)
    if parts.hostname in _HERE:
        return None
    proxies = getproxies()
    wanted = proxies.get(parts.scheme) or proxies.get("all")
    if not wanted or not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return wanted if "://" in wanted else f"http://{wanted}"


def home() -> Path:
    """Return the folder for what is kept: `TENUTO_HOME`, or the place that the platform has for a program's data."""
    from pathlib import Path  # only who keeps something needs it

    if named := getenv("TENUTO_HOME"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(getenv("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tenuto"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "tenuto"
    shared = getenv("XDG_DATA_HOME")
    return (Path(shared) if shared.startswith("/") else Path.home() / ".local" / "share") / "tenuto"


def config_home() -> Path:
    """Return the folder for what is set once for all: `TENUTO_HOME`, or the platform's place for configuration."""
    from pathlib import Path

    if getenv("TENUTO_HOME") or sys.platform == "darwin":
        return home()
    if sys.platform == "win32":
        return Path(getenv("APPDATA") or Path.home() / "AppData" / "Roaming") / "tenuto"
    shared = getenv("XDG_CONFIG_HOME")
    return (Path(shared) if shared.startswith("/") else Path.home() / ".config") / "tenuto"


def store() -> str:
    """Return where sessions are kept unless somebody says otherwise: `TENUTO_STORE`, or a file in the folder above."""
    return getenv("TENUTO_STORE") or str(home() / "sessions.db")
