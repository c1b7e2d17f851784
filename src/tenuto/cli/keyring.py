"""The keys that `tenuto keys set` keeps, in a file that only its owner can read. The library does not look into it.

What the environment holds wins. A key is never shown, nor a part of one.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tenuto import settings
from tenuto.cli.configuring import Misconfigured, config_path, loaded

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.core.provider import Provider

__all__ = [
    "forget_key",
    "keep_key",
    "kept_keys",
    "key_source",
    "keys_path",
    "provider_name",
    "read_keys",
    "stripped_key",
    "variables_of",
]


def keys_path() -> Path:
    """Return where the file is, or would be: beside the configuration."""
    return config_path().with_name("keys.json")


# --- what is kept -----------------------------------------------------------------------------------------------------


def read_keys(*, strict: bool = True) -> dict[str, str]:
    """Return every key in the file, by provider.

    Raise `Misconfigured` if it cannot be read; also, unless it is not `strict`, if others can read it.
    """
    path = keys_path()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as exc:
        raise _unusable(path, f"cannot be read: {exc.strerror or exc}") from None
    if strict and os.name == "posix" and mode & 0o077:
        raise Misconfigured(
            f"{path} can be read by others (its mode is {mode & 0o777:04o}), so its keys are not used",
            hint=f"chmod 600 {shlex.quote(str(path))}",
        )
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):  # what stands there is not said: there are keys in it
        raise _unusable(path, "is no JSON") from None
    if not isinstance(held, dict) or not all(isinstance(key, str) for key in held.values()):
        raise _unusable(path, "should be one object, with a text for each provider")
    return held


def _unusable(path: Path, why: str) -> Misconfigured:
    return Misconfigured(
        f"{path} {why}", hint="mend it or remove it, then give the keys again: tenuto keys set PROVIDER"
    )


def keep_key(name: str, key: str) -> bool:
    """Write a key into the file, whole or not at all; return whether there was one already.

    Raise `Misconfigured` if the file cannot be read, `TenutoError` if it cannot be written.
    """
    from tenuto.cli.keeping import alone

    with alone(keys_path()):
        held = read_keys(strict=False)
        _write({**held, name: key})
    return name in held


def forget_key(name: str) -> bool:
    """Take a key out of the file; return whether it was there. Raise as `keep_key` does."""
    from tenuto.cli.keeping import alone

    if name not in read_keys(strict=False):
        return False
    with alone(keys_path()):
        _write({other: key for other, key in read_keys(strict=False).items() if other != name})
    return True


def _write(held: dict[str, str]) -> None:
    from tenuto.cli.keeping import write

    write(keys_path(), json.dumps(held, indent=2) + "\n")


def stripped_key(text: str) -> str:
    """Return a key without the space and the line's end around it. Raise `ValueError`, which does not quote it, for what
    can be none.
    """
    key = text.strip()
    if not key:
        raise ValueError("no key was given: what came is empty")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError("that is no key: there is a space in it, or a character that no key has")
    return key


# --- whose they are ---------------------------------------------------------------------------------------------------


def provider_name(name: str) -> str:
    """Return what a provider, or a server of one's own, is called in the file: a row's name for any of its aliases.

    Raise `UnknownProvider`, with names that look like it, `Misconfigured` if nobody of that name is in the table and the
    configuration cannot be read.
    """
    from tenuto.catalog import PROVIDERS, find_provider, is_known_provider
    from tenuto.errors import UnknownProvider

    if is_known_provider(name):
        return find_provider(name).name
    own = loaded().document.get("providers", {})
    if name in own:
        return name
    import difflib

    raise UnknownProvider(name, tuple(difflib.get_close_matches(name.lower(), [*own, *PROVIDERS], n=3)))


def variables_of(name: str) -> tuple[str, ...]:
    """Return the variables that may hold a provider's key, the first to be looked at first.

    Those of a row do not count where its address is another: keys from the environment stay with their own.
    """
    from tenuto.catalog import find_provider, is_known_provider

    row = find_provider(name) if is_known_provider(name) else None
    table = _table(row.name if row else name)
    own = (table["key_env"],) if table.get("key_env") else ()
    if row is None or not _same_place(table.get("base_url", ""), row):
        return own
    return (*own, *row.key_env, *row.bearer_env)


def _table(name: str) -> dict[str, Any]:
    """What the configuration says of a provider, under whichever of its names."""
    from tenuto.catalog import find_provider, is_known_provider

    for called, table in loaded().document.get("providers", {}).items():
        if called == name or (is_known_provider(called) and find_provider(called).name == name):
            found: dict[str, Any] = table
            return found
    return {}


def _same_place(address: str, row: Provider) -> bool:
    places = {urlsplit(known).netloc for known in (row.base_url, *row.base_urls.values())}
    return not address or urlsplit(address).netloc in places


def key_source(name: str) -> str:
    """Say where the key of a provider comes from: a variable, `keys.json`, or nowhere, which is an empty text."""
    held = next((variable for variable in variables_of(name) if settings.getenv(variable)), "")
    return held or (keys_path().name if read_keys().get(name) else "")


def kept_keys() -> dict[str, str]:
    """Return the keys from the file, as `keys=` of a client takes them: those of providers that are known and have none
    in the environment. Raise `click.UsageError` for a file that cannot be used.
    """
    from tenuto.catalog import is_known_provider

    own = loaded().document.get("providers", {})
    return {
        name: key
        for name, key in read_keys().items()
        if (name in own or is_known_provider(name)) and not any(map(settings.getenv, variables_of(name)))
    }
