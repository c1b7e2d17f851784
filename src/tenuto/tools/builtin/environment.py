"""The environment of a command: an allow-list, and what the user names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

__all__ = ["ALLOWED", "command_environment"]

ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME"),
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"),
    *("TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("XDG_RUNTIME_DIR", "EDITOR", "VISUAL", "PAGER", "CI"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYTHONPATH", "NVM_DIR", "NODE_PATH", "GOPATH", "GOROOT"),
    *("CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GEM_HOME", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CC", "CXX"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    # Windows
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH"),
    *("APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "NUMBER_OF_PROCESSORS"),
    *("PROCESSOR_ARCHITECTURE",),
)
"""Names, and globs of names, of variables that every command may see."""


def command_environment(environment: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a command may see: those of `ALLOWED` and of `pass_env`, and a `PATH` in any case.

    `pass_env` holds names and globs, as in `CARGO_*`. Raise `TypeError` if it is a single string.
    """
    if isinstance(pass_env, str):
        raise TypeError(f"pass_env={pass_env!r} is a single string: pass a list of names")
    patterns = (*ALLOWED, *pass_env)
    seen = {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(os.path.normcase(name), os.path.normcase(pattern)) for pattern in patterns)
    }
    return {"PATH": os.defpath, **seen}
