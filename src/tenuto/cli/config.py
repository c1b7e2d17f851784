"""Settings of the config file, its profiles and the environment.

Precedence: option, environment, profile, file, default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tenuto import settings
from tenuto.cli.terminal.text import closest_names

if TYPE_CHECKING:
    from pathlib import Path

    from tenuto.client.parameters import ProviderConfig


_NEW = ("run", "chat")
_RUN = ("run", "chat", "resume")


class Key(NamedTuple):
    """A setting that stands for an option."""

    commands: tuple[str, ...] = ()
    """The commands with the option; empty for all that have it."""
    parameter: str = ""
    """The parameter of the option if it has another name."""
    variable: str = ""
    """The environment variable that overrides the setting."""
    default: object = None


KEYS = {
    "model": Key(_NEW, variable="TENUTO_MODEL"),
    "system": Key(_NEW),
    "effort": Key(_NEW),
    "max_tokens": Key(_NEW),
    "options": Key(_NEW, "option"),
    "allow_unverified": Key(_NEW, default=False),
    "fallback": Key(_RUN),
    "tools": Key(_RUN, "tool"),
    "root": Key(_RUN, default="."),
    "approve": Key(_RUN, default="ask"),
    "allow": Key(_RUN),
    "deny": Key(_RUN),
    "max_turns": Key(_RUN, default=100),
    "max_usd": Key(_RUN),
    "max_tokens_total": Key(_RUN),
    "timeout": Key(_RUN),
    "quiet": Key(_RUN, default=False),
    "hide_thinking": Key(_RUN, default=False),
    "usage": Key(_RUN, default=False),
    "store": Key(variable="TENUTO_STORE"),
    "color": Key(default="auto"),
}
"""The settings of the file and of each profile; `config_schema` has their types."""

BOM = "\ufeff"
"""The byte order mark that some editors write at the start of a UTF-8 file."""
_BY_HAND = "fix it in an editor"
WORKS_WITH_BROKEN_CONFIG = ("config", "keys", "doctor", "completion")
"""Commands that work with a broken file: they report or fix its problems."""


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
    """Read and check the text of a file. Raise `ConfigError` with its first problem."""
    document = read_toml(text, path)
    if document:
        from tenuto.cli.config_schema import find_problems

        for _, problem in find_problems(document):
            raise ConfigError(f"{path}: {problem}")
    return document


def read_toml(text: str, path: Path) -> dict[str, Any]:
    """Parse the text of a file. Raise `ConfigError`, with the line and column, if it is invalid TOML."""
    import tomllib

    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as exc:
        end = f"(at line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))}, the end of the file)"
        said = str(exc).replace("(at end of document)", end)
        raise ConfigError(f"{path} cannot be read as TOML: {said}", hint=_BY_HAND) from None
    except RecursionError:
        raise ConfigError(f"{path} cannot be read as TOML: it is nested too deeply", hint=_BY_HAND) from None


def read_once(name: str, read: Callable[[], Any]) -> Any:
    """Return the result of `read`, which is called once per command: files may change while it runs."""
    context = click.get_current_context(silent=True)
    if context is None:
        return read()
    meta = context.find_root().meta
    if name not in meta:
        meta[name] = read()
    return meta[name]


def load_config() -> Config:
    """Return the config file; empty if there is none. Raise `ConfigError` if it cannot be used. Do not change the result."""
    config: Config = read_once("tenuto.config", _read_config)
    return config


def _read_config() -> Config:
    path = config_path()
    text = read_config_text(path)
    return Config(path, {}, exists=False) if text is None else Config(path, parse_config(text, path), exists=True)


def read_config_text(path: Path) -> str | None:
    """Return the text of the file with its byte order mark and line ends; None if there is no file."""
    try:
        return path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror or exc}", hint=_BY_HAND) from None
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} cannot be read: not UTF-8 text (byte {exc.start})", hint=_BY_HAND) from None


def effective_settings(config: Config, profile: str | None) -> dict[str, Setting]:
    """Return the value of every setting without command-line options, and its source."""
    name = config.profile(profile)
    own = config.document.get("profiles", {}).get(name, {}) if name else {}
    found = {}
    for key, of in KEYS.items():
        variable = settings.getenv(of.variable) if of.variable else ""
        if variable:
            found[key] = Setting(variable, "environment", of.variable)
        elif key in own:
            found[key] = Setting(own[key], "profile", name)
        elif key in config.document:
            found[key] = Setting(config.document[key], "file", str(config.path))
        else:
            found[key] = Setting(of.default, "default")
    return found


def default_options(verb: str, profile: str | None = None) -> dict[str, Any]:
    """Return the configured values of a command's options by parameter name.

    Raise `ConfigError` for an invalid file or an unknown profile, except for `WORKS_WITH_BROKEN_CONFIG`: these get the
    values of the environment.
    """
    try:
        config = load_config()
        holds = effective_settings(config, profile)
    except ConfigError:
        if verb not in WORKS_WITH_BROKEN_CONFIG:
            raise
        from pathlib import Path

        holds = effective_settings(Config(Path("config.toml"), {}, exists=False), "")
    return {
        of.parameter or key: _option_value(key, holds[key].value)
        for key, of in KEYS.items()
        if holds[key].source != "default" and (not of.commands or verb in of.commands)
    }


def _option_value(key: str, value: Any) -> Any:
    """Convert a setting to the value of its option."""
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
    """Return click's `default_map` for a command and its subcommands."""
    return _command_defaults(command, default_options(verb, profile))


def _command_defaults(command: click.Command, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {option.name for option in command.params if isinstance(option, click.Option)}
    found = {name: value for name, value in values.items() if name in names}
    if isinstance(command, click.Group):
        found |= {name: _command_defaults(below, values) for name, below in command.commands.items()}
    return found


def configured_providers() -> dict[str, ProviderConfig]:
    """Return `providers=` of a client: custom servers and changes to known providers.

    Raise `ConfigError` for an unknown provider without `base_url`.
    """
    config = load_config()
    tables: Mapping[str, Mapping[str, Any]] = config.document.get("providers", {})
    return {name: _provider_config(config.path, name, table) for name, table in tables.items()}


def _provider_config(path: Path, name: str, table: Mapping[str, Any]) -> ProviderConfig:
    from tenuto.catalog import PROVIDERS, is_known_provider

    if not is_known_provider(name) and "base_url" not in table:
        raise ConfigError(
            f"{path}: providers.{name} is an unknown provider and has no base_url: {closest_names(name, PROVIDERS)}"
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
        made["api_key"] = _missing_key(name, variable)
    return made


def _missing_key(name: str, variable: str) -> Any:
    """Return a key function that raises `MissingKey`: only a request to this provider needs the key."""

    def key() -> str:
        from tenuto.errors import MissingKey

        raise MissingKey(name, (variable,))

    return key
