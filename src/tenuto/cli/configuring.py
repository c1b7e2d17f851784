"""What is set once for all: `config.toml`, its profiles, and the variables that stand above it.

A flag wins over the environment, that over the profile, that over the rest of the file, that over what is built in. The
file is strict: what it says and nobody understands is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tenuto import settings
from tenuto.cli.config_keys import KEYS, faults, near

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.client.parameters import ProviderConfig

__all__ = [
    "MARK",
    "TOLERANT",
    "Config",
    "Held",
    "Misconfigured",
    "config_path",
    "default_map",
    "defaults",
    "held",
    "loaded",
    "own_providers",
    "parsed",
    "read_toml",
    "text_of",
]

MARK = "\ufeff"
"""What some editors put before a text in UTF-8."""
_BY_HAND = "mend it in an editor"
TOLERANT = ("config", "keys", "doctor", "completion")
"""Verbs that work although the file is wrong: they are there to mend it, or say themselves what is wrong with it."""


class Misconfigured(click.UsageError):
    """What is set cannot be used. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or "edit the file, or change it with tenuto config set; tenuto config show says what holds"


class Held(NamedTuple):
    """A value, and who says so: `environment`, `profile`, `file` or `default`; `where` is its name there."""

    value: Any
    source: str
    where: str = ""


class Config(NamedTuple):
    """The file as it was read; empty if there is none."""

    path: Path
    document: dict[str, Any]
    exists: bool

    def profile(self, asked: str | None) -> str:
        """Return which profile holds: the one asked for, else `TENUTO_PROFILE`, else the file's own; empty if none."""
        name = asked
        if name is None:
            name = settings.getenv("TENUTO_PROFILE") or str(self.document.get("profile", ""))
        profiles = self.document.get("profiles", {})
        if name and name not in profiles:
            known = near(name, profiles) if self.exists else "there is no such file"
            raise Misconfigured(f"{self.path} has no profile {name[:60]!r}: {known}")
        return name


def config_path() -> Path:
    """Return where the file is, or would be. Raise `Misconfigured` where nobody knows whose home this is."""
    try:
        return settings.config_home() / "config.toml"
    except RuntimeError as exc:
        raise Misconfigured(str(exc), hint="set HOME, or TENUTO_HOME to a folder that is yours") from None


@lru_cache(maxsize=1)  # one call of the command looks several times, and the text is what it is
def parsed(text: str, path: Path) -> dict[str, Any]:
    """Read the text of a file. Raise `Misconfigured`, with the line and column, or the first thing that is wrong."""
    document = read_toml(text, path)
    fault = next(faults(document), "")
    if fault:
        raise Misconfigured(f"{path}: {fault}")
    return document


def read_toml(text: str, path: Path) -> dict[str, Any]:
    """Read the text of a file whatever it says. Raise `Misconfigured`, with the line and column, if it is no TOML."""
    import tomllib  # only where there is a file

    try:
        return tomllib.loads(text.removeprefix(MARK))
    except tomllib.TOMLDecodeError as exc:
        end = f"(at line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))}, the end of the file)"
        said = str(exc).replace("(at end of document)", end)
        raise Misconfigured(f"{path} cannot be read as TOML: {said}", hint=_BY_HAND) from None
    except RecursionError:
        raise Misconfigured(f"{path} cannot be read as TOML: it is nested too deeply", hint=_BY_HAND) from None


def loaded() -> Config:
    """Read the file. Where there is none, nothing is set. Raise `Misconfigured` for one that cannot be used.

    What is returned is for looking at only.
    """
    path = config_path()
    text = text_of(path)
    return Config(path, {}, exists=False) if text is None else Config(path, parsed(text, path), exists=True)


def text_of(path: Path) -> str | None:
    """Return what is in the file, mark of its encoding and ends of lines as they are; None if there is none."""
    try:
        return path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise Misconfigured(f"{path} cannot be read: {exc.strerror or exc}", hint=_BY_HAND) from None
    except UnicodeDecodeError as exc:
        raise Misconfigured(f"{path} cannot be read: it is no UTF-8 text (byte {exc.start})", hint=_BY_HAND) from None


def held(config: Config, profile: str | None) -> dict[str, Held]:
    """Return what holds for every key without a flag, and where that comes from."""
    name = config.profile(profile)
    own = config.document.get("profiles", {}).get(name, {}) if name else {}
    found = {}
    for key, of in KEYS.items():
        variable = settings.getenv(of.variable) if of.variable else ""
        if variable:
            found[key] = Held(variable, "environment", of.variable)
        elif key in own:
            found[key] = Held(own[key], "profile", name)
        elif key in config.document:
            found[key] = Held(config.document[key], "file", str(config.path))
        else:
            found[key] = Held(of.usual, "default")
    return found


def defaults(verb: str, profile: str | None = None) -> dict[str, Any]:
    """Return what is set for a verb's options, by click's names for them: from the environment, a profile, the file.

    Raise `Misconfigured` for a file, or the name of a profile, that cannot be used; a verb that is `TOLERANT` gets what
    the environment says then.
    """
    try:
        config = loaded()
        holds = held(config, profile)
    except Misconfigured:
        if verb not in TOLERANT:
            raise
        from pathlib import Path

        holds = held(Config(Path("config.toml"), {}, exists=False), "")
    return {
        of.parameter: _given(key, holds[key].value)
        for key, of in KEYS.items()
        if holds[key].source != "default" and (not of.verbs or verb in of.verbs)
    }


def _given(key: str, value: Any) -> Any:
    """Return a value as the option takes it."""
    match key:
        case "options":
            import json

            return tuple(f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in value.items())
        case "fallback":
            return ",".join(value)
        case "max_usd":
            return str(value)
        case _:
            return tuple(value) if isinstance(value, list) else value


def default_map(command: click.Command, verb: str, profile: str | None) -> dict[str, Any]:
    """Return click's `default_map` for a verb, and for the verbs below it: what is set for the options that it has."""
    return _mapped(command, defaults(verb, profile))


def _mapped(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {option.name for option in command.params if isinstance(option, click.Option)}
    found = {name: value for name, value in values.items() if name in names}
    if isinstance(command, click.Group):
        found |= {name: _mapped(below, values) for name, below in command.commands.items()}
    return found


def own_providers() -> dict[str, ProviderConfig]:
    """Return the servers of one's own, and what is changed of known ones, as `providers=` of a client takes them.

    Raise `Misconfigured` for what cannot be used.
    """
    config = loaded()
    tables: Mapping[str, Mapping[str, Any]] = config.document.get("providers", {})
    return {name: _configured(config.path, name, table) for name, table in tables.items()}


def _configured(path: Path, name: str, table: Mapping[str, Any]) -> ProviderConfig:
    from tenuto.catalog import PROVIDERS, is_known_provider

    if not is_known_provider(name) and "base_url" not in table:
        raise Misconfigured(
            f"{path}: providers.{name} is no known provider and has no base_url: {near(name, PROVIDERS)}"
        )
    made: ProviderConfig = {}
    if "base_url" in table:
        made["base_url"] = table["base_url"]
    if "dialect" in table:
        made["dialect"] = table["dialect"]
    if "headers" in table:
        made["headers"] = dict(table["headers"])
    variable = table.get("key_env", "")
    if key := variable and settings.getenv(variable):
        made["api_key"] = key
    elif variable and not is_known_provider(name):
        made["api_key"] = _missing(name, variable)
    return made


def _missing(name: str, variable: str) -> Any:
    """A key that is wanted and not there: that is said when it is needed, and not to whoever asks somebody else."""

    def key() -> str:
        from tenuto.errors import MissingKey

        raise MissingKey(name, (variable,))

    return key
