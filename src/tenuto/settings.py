"""The only reader of the environment.

Variables are read on use, not at import, so that a test or a program may change them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def getenv(name: str) -> str:
    """Return the value of a variable without surrounding space; empty if it is not set."""
    return os.environ.get(name, "").strip()


def first_set(names: Iterable[str]) -> str:
    """Return the value of the first variable that is set; empty if none is."""
    return next((value for name in names if (value := getenv(name))), "")


def set_default(name: str, value: str) -> None:
    """Set a variable for programs that are started, unless it has a value."""
    os.environ.setdefault(name, value)


def environment() -> dict[str, str]:
    """Return a copy of all variables, for a command to run. The caller must remove secrets from it."""
    return dict(os.environ)


def debug(topic: str) -> bool:
    """Tell whether the list of words in `TENUTO_DEBUG` contains a topic."""
    return topic in getenv("TENUTO_DEBUG").replace(",", " ").split()


def is_offline() -> bool:
    """Tell whether `TENUTO_OFFLINE` forbids this process to use the network."""
    return getenv("TENUTO_OFFLINE") not in ("", "0")


def proxy(url: str) -> str | None:
    """Return the proxy for a URL from the environment or the system's settings; None for no proxy.

    Local hosts never use a proxy.
    """
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass  # lazy: loads a dozen modules

    parts = urlsplit(url)
    if parts.hostname in LOCAL_HOSTS:
        return None
    proxies = getproxies()
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return address if "://" in address else f"http://{address}"


def home() -> Path:
    """Return the data directory: `TENUTO_HOME`, or the platform's directory for application data."""
    return _directory("LOCALAPPDATA", "AppData/Local", "XDG_DATA_HOME", ".local/share")


def config_home() -> Path:
    """Return the configuration directory: `TENUTO_HOME`, or the platform's directory for configuration."""
    return _directory("APPDATA", "AppData/Roaming", "XDG_CONFIG_HOME", ".config")


def _directory(windows_variable: str, windows_default: str, xdg_variable: str, xdg_default: str) -> Path:
    from pathlib import Path  # lazy: most programs store nothing

    if directory := getenv("TENUTO_HOME"):
        return Path(directory).expanduser()
    if sys.platform == "win32":
        return Path(getenv(windows_variable) or Path.home() / windows_default) / "tenuto"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "tenuto"
    base = getenv(xdg_variable)
    return (Path(base) if base.startswith("/") else Path.home() / xdg_default) / "tenuto"


def store() -> str:
    """Return the default session store: `TENUTO_STORE`, or a file in the data directory."""
    return getenv("TENUTO_STORE") or str(home() / "sessions.db")
