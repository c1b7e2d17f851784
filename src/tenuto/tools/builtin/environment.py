"""The environment that a command is given: without anything that looks like a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tenuto.providers import PROVIDERS

__all__ = ["scrubbed"]

_SECRET = re.compile(
    r"(^|_)(API_?KEY|KEYS?|TOKENS?|AUTH|PASS|PAT|CERT|DSN|JWT|COOKIES?)(_|$)"
    r"|SECRET|TOKEN|PASSW|PASSPHRASE|PASSFILE|CREDENTIAL|APIKEY|PRIVATE|^TENUTO_",
    re.IGNORECASE,
)
_WITH_PASSWORD = re.compile(r"\w+://[^/\s@]*:[^/\s@]+@")
_LONG_ENOUGH = 8
"""A value at least this long is a secret under any name."""


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command may see, and a `PATH` if there was none.

    Left out is what is called like a secret, what any provider's key is called, what holds the same value as one of
    those, and addresses with a password in them.
    """
    keys = {name for row in PROVIDERS.values() for name in (*row.key_env, *row.bearer_env)}
    secret = {name for name in environment if name in keys or _SECRET.search(name)}
    values = {environment[name] for name in secret if len(environment[name]) >= _LONG_ENOUGH}
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secret and value not in values and not _WITH_PASSWORD.search(value)
    }
    return {"PATH": os.defpath, **kept}
