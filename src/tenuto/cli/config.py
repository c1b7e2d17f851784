"""Settings of the config file, its profiles and the environment.

Precedence: option, environment, profile, file, default.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tenuto import settings
from tenuto.cli.terminal.text import closest_names
from tenuto.errors import MissingKey

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.client.parameters import ProviderConfig


T = TypeVar("T")
_NAMES = """
model system effort max_tokens options allow_unverified fallback tools root approve allow deny max_turns max_usd
max_tokens_total timeout strict quiet hide_thinking usage store color
"""
DEFAULTS: dict[str, Any] = {  # the settings that stand for an option; `config_schema` has their types
    **dict.fromkeys(_NAMES.split()),
    **dict.fromkeys(("allow_unverified", "strict", "quiet", "hide_thinking", "usage"), False),
    "root": ".",
    "approve": "ask",
    "max_turns": 100,
    "color": "auto",
}
VARIABLES = {"model": "TENUTO_MODEL", "store": "TENUTO_STORE"}  # the environment variables that override settings
PARAMETERS = {"options": "option", "tools": "tool"}  # the parameters of options with another name
_FOR_ALL = ("store", "color")
_FOR_NEW_SESSIONS = ("model", "system", "effort", "max_tokens", "options", "allow_unverified")

BOM = "\ufeff"  # the byte order mark that some editors write at the start of a UTF-8 file
_BY_HAND = "fix it in an editor"
WORKS_WITH_BROKEN_CONFIG = ("config", "keys", "doctor", "completion")  # they report or fix its problems


class ConfigError(click.UsageError):
    """A setting cannot be used. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or "run tenuto config edit, tenuto config set or tenuto config show"


class Setting(NamedTuple):
    """A value and its source: `environment`, `profile`, `file` or `default`; `where` is the name of the source."""

    value: Any
    source: str
    where: str = ""


class Config(NamedTuple):
    """The content of the file; empty if there is no file."""

    path: Path
    document: dict[str, Any]
    exists: bool

    def profile(self, asked: str | None) -> str:
        """Return the profile to use: `asked`, else `TENUTO_PROFILE`, else the default of the file; empty if none."""
        name = asked
        if name is None:
            name = settings.getenv("TENUTO_PROFILE") or str(self.document.get("profile", ""))
        profiles = self.document.get("profiles", {})
        if name and name not in profiles:
            known = closest_names(name, profiles) if self.exists else "the file does not exist"
            raise ConfigError(f"{self.path} has no profile {name[:60]!r}: {known}")
        return name


def config_path() -> Path:
    """Return the path of the file. Raise `ConfigError` if there is no home directory."""
    try:
        return settings.config_home() / "config.toml"
    except RuntimeError as exc:
        raise ConfigError(str(exc), hint="set HOME or TENUTO_HOME to your own directory") from None


def parse_config(text: str, path: Path) -> dict[str, Any]:
    """Read and check the text of a file. Raise `ConfigError` with its problems."""
    document = read_toml(text, path)
    if document:
        from tenuto.cli.config_schema import find_problems

        if problems := list(find_problems(document)):
            raise ConfigError(f"{path}: {f'{chr(10)}  '.join(problems)}")
    return document


def read_toml(text: str, path: Path) -> dict[str, Any]:
    """Parse the text of a file. Raise `ConfigError`, with the line and column, if it is invalid TOML."""
    import tomllib

    try:
        return tomllib.loads(text.removeprefix(BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise ConfigError(f"{path} cannot be read as TOML: {exc}", hint=_BY_HAND) from None


def read_json(path: Path, type_: type[T], hint: str) -> T | None:
    """Return the content of a JSON file; None without a file. Raise `ConfigError`, which does not quote it: it may be secret."""
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror or exc}", hint=hint) from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is not a JSON object with the expected values", hint=hint) from None


def read_once(read: Callable[[], T]) -> Callable[[], T]:
    """Return `read`, called once per command: files may change while it runs."""

    @functools.wraps(read)
    def read_cache() -> T:
        context = click.get_current_context(silent=True)
        meta: dict[str, T] = {} if context is None else context.find_root().meta
        if (name := f"tenuto.{read.__name__}") not in meta:
            meta[name] = read()
        return meta[name]

    return read_cache


@read_once
def load_config() -> Config:
    """Return the config file; empty if there is none. Raise `ConfigError` if it cannot be used. Do not change the result."""
    path = config_path()
    text = read_config_text(path)
    return Config(path, {}, exists=False) if text is None else Config(path, parse_config(text, path), exists=True)


def read_config_text(path: Path) -> str | None:
    """Return the text of the file with its byte order mark and line ends; None if there is no file."""
    try:
        return path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as exc:
        reason = f"not UTF-8 text (byte {exc.start})" if isinstance(exc, UnicodeDecodeError) else exc.strerror or exc
        raise ConfigError(f"{path} cannot be read: {reason}", hint=_BY_HAND) from None


def effective_settings(config: Config, profile: str | None) -> dict[str, Setting]:
    """Return the value of every setting without command-line options, and its source."""
    name = config.profile(profile)
    own = config.document.get("profiles", {}).get(name, {}) if name else {}
    found = {}
    for key, default in DEFAULTS.items():
        variable = VARIABLES.get(key, "")
        if value := variable and settings.getenv(variable):
            found[key] = Setting(value, "environment", variable)
        elif key in own:
            found[key] = Setting(own[key], "profile", name)
        elif key in config.document:
            found[key] = Setting(config.document[key], "file", str(config.path))
        else:
            found[key] = Setting(default, "default")
    return found


def default_options(verb: str, profile: str | None = None) -> dict[str, Any]:
    """Return the configured values of a command's options; of the environment if it works with a broken file."""
    try:
        found = effective_settings(load_config(), profile)
    except ConfigError:
        if verb not in WORKS_WITH_BROKEN_CONFIG:
            raise
        found = {key: Setting(settings.getenv(name) or None, "environment") for key, name in VARIABLES.items()}
    taken = {*_FOR_ALL} if verb not in ("run", "chat", "resume") else {*found}
    if verb == "resume":
        taken -= {*_FOR_NEW_SESSIONS}
    return {
        PARAMETERS.get(key, key): _option_value(key, setting.value)
        for key, setting in found.items()
        if key in taken and setting.source != "default" and setting.value is not None
    }


def _option_value(key: str, value: Any) -> Any:
    if key == "options":
        import json

        return tuple(f"{name}={json.dumps(one, ensure_ascii=False)}" for name, one in value.items())
    if key == "fallback":
        return ",".join(value)
    return tuple(value) if isinstance(value, list) else value


def default_map(command: click.Command, verb: str, profile: str | None) -> dict[str, Any]:
    """Return click's `default_map` for a command and its subcommands."""

    def defaults(command: click.Command) -> dict[str, Any]:
        names = {option.name for option in command.params if isinstance(option, click.Option)}
        below = command.commands.items() if isinstance(command, click.Group) else ()
        return {name: values[name] for name in names & values.keys() if name} | {
            name: defaults(subcommand) for name, subcommand in below
        }

    values = default_options(verb, profile)
    return defaults(command)


def configured_providers() -> dict[str, ProviderConfig]:
    """Return `providers=` of a client: custom servers and changes to known providers."""
    from tenuto.catalog import PROVIDERS, is_known_provider

    config = load_config()
    found: dict[str, ProviderConfig] = {}
    for name, table in config.document.get("providers", {}).items():
        if not is_known_provider(name) and "base_url" not in table:
            problem = f"{config.path}: providers.{name} is an unknown provider and has no base_url"
            raise ConfigError(f"{problem}: {closest_names(name, PROVIDERS)}")
        made: Any = {key: table[key] for key in ("base_url", "dialect", "headers") if key in table}
        variable = table.get("key_env", "")
        if key := variable and settings.getenv(variable):
            made["api_key"] = key
        elif variable and not is_known_provider(name):
            made["api_key"] = functools.partial(_raise_missing_key, name, variable)
        found[name] = made
    return found


def _raise_missing_key(name: str, variable: str) -> str:
    raise MissingKey(name, (variable,))
