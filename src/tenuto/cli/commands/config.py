"""`tenuto config`: view and edit settings."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from tenuto import settings
from tenuto.cli import config as settings_file
from tenuto.cli.complete import complete_setting
from tenuto.cli.config import ConfigError, Setting, config_path, parse_config, read_config_text, read_toml
from tenuto.cli.config_schema import find_problems
from tenuto.cli.files import file_lock, write_private
from tenuto.cli.main import CommandGroup
from tenuto.cli.options import json_option
from tenuto.cli.terminal.output import confirm, format_table, print_json, print_text
from tenuto.cli.terminal.text import one_line

_EXAMPLES = """\b
Examples:
  tenuto config show --json | jq .settings.model
  tenuto config unset profiles.work
"""
_SET_EXAMPLES = """\b
Examples:
  tenuto config set tools read_file list_files     # a list: value after value
  tenuto config set profiles.work.approve never
"""
_LENGTH = 100


@click.group("config", cls=CommandGroup, invoke_without_command=True, epilog=_EXAMPLES)
@click.pass_context
def command(ctx: click.Context) -> None:
    """View and edit settings. Without a command, show them.

    Settings are in config.toml, named like the options of run, chat and resume. [profiles.NAME] has the same keys for a
    profile; --profile NAME, TENUTO_PROFILE, or profile = "NAME" in the file selects it. [providers.NAME] is your own
    server: base_url, dialect, headers, key_env. [aliases] has your own names of models.

    Precedence: options, environment, profile, file. API keys are stored with tenuto keys.
    """
    if not ctx.invoked_subcommand:
        ctx.invoke(show_command)


@command.command("show")
@json_option
@click.pass_context
def show_command(ctx: click.Context, as_json: bool) -> None:
    """Show effective settings and where each comes from.

    Passwords in URLs and the values of headers are hidden. Exit 2 if the file is invalid.
    """
    from tenuto.cli.session.approval_store import approvals_file, remembered_patterns

    config = settings_file.load_config()
    settings_file.configured_providers()  # checks them
    requested = ctx.find_root().params.get("profile")
    profile, effective = config.profile(requested), _effective_settings(config, requested)
    profiles: list[str] = list(config.document.get("profiles", {}))
    providers = {name: _mask_table(table, "headers") for name, table in config.document.get("providers", {}).items()}
    if as_json:
        document = {
            "path": str(config.path),
            "exists": config.exists,
            "profile": profile or None,
            "profiles": profiles,
            "settings": {key: {**one._asdict(), "where": one.where or None} for key, one in effective.items()},
            "providers": providers,
        }
        print_json(document)
        return
    others = ", ".join(name for name in profiles if name != profile)
    file = f"{config.path}{'' if config.exists else ' (does not exist)'}"
    selected = f"{profile or '-'}{f' (others: {others})' if others else ''}"
    head = [("file", one_line(file, 4 * _LENGTH)), ("profile", one_line(selected, 4 * _LENGTH))]
    rows = [("KEY", "VALUE", "FROM")]
    for key, setting in effective.items():
        sources = {"environment": setting.where, "profile": f"profile {setting.where}", "file": config.path.name}
        rows.append((key, _format_value(setting.value), one_line(sources.get(setting.source, "default"), _LENGTH)))
    tables = {f"providers.{name}": table for name, table in providers.items()}
    for name, table in (*tables.items(), ("aliases", config.document.get("aliases", {}))):
        for key, value in table.items():
            rows.append((one_line(f"{name}.{key}", _LENGTH), _format_value(value), config.path.name))
    print_text(f"{format_table(head)}\n{format_table(rows)}", escape=True)
    if allowed := [("allow", one_line(pattern, 4 * _LENGTH), "remembered") for pattern in remembered_patterns(".")]:
        print_text(f"\n{format_table(allowed)}in {approvals_file()}\n", escape=True)


def _format_value(value: object) -> str:
    return "-" if value is None else one_line(json.dumps(value, ensure_ascii=False), _LENGTH)


def _effective_settings(config: settings_file.Config, profile: str | None) -> dict[str, Setting]:
    """Return the settings with the computed defaults of the model and the store, and without secrets."""
    from tenuto.cli.session.models import default_model

    effective = settings_file.effective_settings(config, profile)
    store, options = effective["store"], effective["options"]
    if effective["model"].value is None:
        with suppress(ConfigError):  # the keys may be unreadable
            effective["model"] = Setting(default_model(None).model, "default")
    effective["store"] = store._replace(value=_mask_password(store.value or settings.store()))
    if options.value is not None:
        effective["options"] = options._replace(value=_mask_table(options.value, "extra_headers"))
    return effective


def _mask_table(table: Mapping[str, Any], headers: str) -> dict[str, Any]:
    """Mask the values of headers and the password of a URL, which are secrets."""
    masked = dict(table)
    if headers in masked:
        masked[headers] = dict.fromkeys(masked[headers], "***")
    if "base_url" in masked:
        masked["base_url"] = _mask_password(masked["base_url"])
    return masked


def _mask_password(place: str) -> str:
    from tenuto.client.http import safe_url

    return safe_url(place) if "://" in place else place


@command.command("set", epilog=_SET_EXAMPLES)
@click.argument("key", shell_complete=complete_setting)
@click.argument("value", nargs=-1, required=True)
def set_command(key: str, value: tuple[str, ...]) -> None:
    """Set KEY in the config file. A list takes several values.

    KEY is an option's name with _ for -, or profiles.NAME.KEY, providers.NAME.KEY, options.NAME, aliases.NAME. Put -- before
    values that start with -.
    """
    readings: list[Any] = [list(value)]
    if len(value) == 1:
        readings.insert(0, value[0])
        with suppress(ValueError):
            [reading] = tomllib.loads(f"value = {value[0]}").values()
            readings.insert(0, reading)
    _change(key, [reading for reading in readings if not isinstance(reading, dict)])
    click.echo(one_line(f"{key} set in {config_path()}", 600), err=True)


@command.command("unset")
@click.argument("key", shell_complete=complete_setting)
def unset_command(key: str) -> None:
    """Remove KEY, or a whole table, from the config file."""
    _change(key, [None])
    click.echo(one_line(f"{key} removed from {config_path()}", 600), err=True)


@command.command("edit")
def edit_command() -> int:
    """Edit the config file in $EDITOR. It is checked before it is saved."""
    path = config_path()
    text = edited = read_config_text(path) or ""
    while True:
        edited = click.edit(edited, extension=".toml") or text
        if edited == text:
            click.echo("unchanged", err=True)
            return 0
        try:
            parse_config(edited, path)
        except ConfigError as exc:
            click.echo(f"error: {one_line(exc.message, 600)}", err=True)
            if not confirm("edit again?", "nothing was changed"):
                return 2
            continue
        with file_lock(path):
            write_private(path, edited)
        return 0


def _change(key: str, readings: Sequence[Any]) -> None:
    """Set the first valid reading of a value, or remove it (None)."""
    path = config_path()
    with file_lock(path):
        text = read_config_text(path) or ""
        known = list(find_problems(read_toml(text, path)))
        found: list[str] = []
        for value in readings:
            try:
                edited = _edit_text(path, text, tuple(key.split(".")), value)
                problems = [one for one in find_problems(read_toml(edited, path)) if one not in known]
                if not problems:
                    write_private(path, edited)
                    return
            except UnicodeEncodeError:
                raise click.UsageError("the value is not UTF-8 text") from None
            found += problems
    raise click.UsageError(f"{found[0]}; nothing was changed")


def _edit_text(path: Path, text: str, steps: tuple[str, ...], value: object) -> str:
    import tomlkit

    if text.startswith(settings_file.BOM) or "\r\n" in text:  # tomlkit would change its line ends
        raise ConfigError(f"{path} has a byte order mark or CRLF line ends", hint="use tenuto config edit")
    document, expected = tomlkit.parse(text), read_toml(text, path)
    try:
        for changed in (document, expected):
            _set_value(changed, steps, value)
    except (KeyError, TypeError):
        raise click.UsageError(f"{'.'.join(steps)} is not set in {path}") from None
    edited = tomlkit.dumps(document)
    if read_toml(edited, path) != expected:
        raise ConfigError(f"{'.'.join(steps)} cannot be changed in {path}", hint="use tenuto config edit")
    return edited


def _set_value(table: Any, steps: Sequence[str], value: object) -> None:
    """Set a value in nested tables; None removes it. Raise `KeyError` or `TypeError` if there is none."""
    first, *below = steps
    if below:
        inner = table[first] if value is None else table.setdefault(first, {})
        _set_value(inner, below, value)
        if value is None and not inner:
            del table[first]
    elif value is None:
        del table[first]
    else:
        table[first] = value


@command.command("forget")
@click.argument("pattern")
def forget_command(pattern: str) -> None:
    """Remove a PATTERN that an approval remembered for the current directory."""
    from tenuto.cli.session.approval_store import forget_pattern

    if not forget_pattern(".", pattern):
        raise click.UsageError(f"not remembered for this directory: {pattern[:200]!r}; list with tenuto config show")
    click.echo(one_line(f"{pattern} removed", 600), err=True)
