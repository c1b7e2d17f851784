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
from tenuto.cli.complete import complete_setting
from tenuto.cli.config import (
    BOM,
    VARIABLES,
    Config,
    ConfigError,
    Setting,
    config_path,
    configured_providers,
    effective_settings,
    parse_config,
    read_config_text,
    read_toml,
)
from tenuto.cli.config_schema import find_problems, parse_value
from tenuto.cli.files import file_lock, write_private
from tenuto.cli.keys_file import canonical_provider
from tenuto.cli.main import CommandGroup
from tenuto.cli.options import expand_model, json_option
from tenuto.cli.terminal.output import confirm, format_table, print_json, print_text
from tenuto.cli.terminal.text import one_line

_EXAMPLES = """\b
Examples:
  tenuto config show --json | jq .settings.model
  tenuto config set model anthropic/claude-sonnet-5-5
  tenuto config unset profiles.work
  tenuto --profile work run "What is left to do?"
"""
_SET_EXAMPLES = """\b
Examples:
  tenuto config set model openai/gpt-6.1-sol
  tenuto config set tools read_file list_files     # a list: value after value
  tenuto config set options.temperature 0.2
  tenuto config set profiles.work.approve never
  tenuto config set profile work                   # the default of --profile
  tenuto config set aliases.fast groq/gpt-oss-120b:low
  tenuto config set providers.mine.base_url http://localhost:8000/v1
"""
_LENGTH = 100


@click.group("config", cls=CommandGroup, invoke_without_command=True, epilog=_EXAMPLES)
@click.pass_context
def command(ctx: click.Context) -> int:
    """View and edit settings. Without a command, show them.

    Settings are in config.toml, named like the options of run, chat and resume. [profiles.NAME] has the same keys for a
    profile; --profile NAME, TENUTO_PROFILE, or profile = "NAME" in the file selects it. [providers.NAME] is your own
    server: base_url, dialect, headers, key_env. [aliases] has your own names of models.

    Precedence: options, environment, profile, file. API keys are stored with tenuto keys.
    """
    return 0 if ctx.invoked_subcommand else _print_settings(ctx, as_json=False)


# --- show -------------------------------------------------------------------------------------------------------------


@command.command("show")
@json_option
@click.pass_context
def show_command(ctx: click.Context, as_json: bool) -> int:
    """Show effective settings and where each comes from.

    Passwords in URLs and the values of headers are hidden. Errors in the file are reported; exit 2.
    """
    return _print_settings(ctx, as_json=as_json)


def _print_settings(ctx: click.Context, *, as_json: bool) -> int:
    config, problems = _read_settings()
    requested = ctx.find_root().params.get("profile")
    profile, effective = config.profile(requested), _with_computed_defaults(effective_settings(config, requested))
    profiles: list[str] = list(config.document.get("profiles", {}))
    providers = {name: _mask_table(table, "headers") for name, table in config.document.get("providers", {}).items()}
    for problem in problems:
        click.echo(f"error: {one_line(problem, 600)}", err=True)
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
        return 2 if problems else 0
    others = ", ".join(name for name in profiles if name != profile)
    head = [
        ("file", f"{config.path}{'' if config.exists else ' (does not exist)'}"),
        ("profile", f"{profile or '-'}{f' (others: {others})' if others else ''}"),
    ]
    rows = [("KEY", "VALUE", "FROM")]
    for key, setting in effective.items():
        sources = {"environment": setting.where, "profile": f"profile {setting.where}", "file": config.path.name}
        rows.append((key, _format_value(setting.value), one_line(sources.get(setting.source, "default"), _LENGTH)))
    tables: dict[str, Mapping[str, Any]] = {f"providers.{name}": table for name, table in providers.items()}
    tables["aliases"] = config.document.get("aliases", {})
    for name, table in tables.items():
        rows += [
            (one_line(f"{name}.{key}", _LENGTH), _format_value(value), config.path.name) for key, value in table.items()
        ]
    lines = [(name, one_line(text, 4 * _LENGTH)) for name, text in head]
    print_text(f"{format_table(lines)}\n{format_table(rows)}{_format_remembered()}", escape=True)
    return 2 if problems else 0


def _format_value(value: object) -> str:
    return "-" if value is None else one_line(json.dumps(value, ensure_ascii=False), _LENGTH)


def _read_settings() -> tuple[Config, list[str]]:
    """Return the valid settings of the file, and the problems of the others."""
    path = config_path()
    try:
        text = read_config_text(path)
        document = read_toml(text or "", path)
    except ConfigError as exc:
        return Config(path, {}, exists=True), [exc.message]
    problems = list(find_problems(document))
    for steps, _ in problems:
        table: Any = document
        for step in steps[:-1]:
            table = table[step]
        table.pop(steps[-1], None)
    messages = [f"{path}: {problem}" for _, problem in problems]
    if not messages:
        try:
            configured_providers()
        except ConfigError as exc:
            messages = [exc.message]
    return Config(path, document, exists=text is not None), messages


def _with_computed_defaults(effective: dict[str, Setting]) -> dict[str, Setting]:
    """Add the computed defaults of the model and the store, and mask secrets."""
    from tenuto.cli.session.models import default_model

    store, model, options = effective["store"], effective["model"], effective["options"]
    if model.value is None:
        with suppress(ConfigError):  # the keys may be unreadable
            effective["model"] = Setting(default_model(None).model, "default")
    effective["store"] = store._replace(value=_mask_password(store.value or settings.store()))
    if options.value is not None:
        effective["options"] = options._replace(value=_mask_table(options.value, "extra_headers"))
    return effective


def _mask_table(table: Mapping[str, Any], headers: str) -> dict[str, Any]:
    """Mask the values of headers and the password of a URL, which are secrets."""
    masked = {headers: dict.fromkeys(table[headers], "***")} if isinstance(table.get(headers), dict) else {}
    url = {"base_url": _mask_password(table["base_url"])} if "base_url" in table else {}
    return {**table, **masked, **url}


def _mask_password(place: str) -> str:
    from tenuto.client.http import safe_url

    return safe_url(place) if "://" in place else place


# --- set --------------------------------------------------------------------------------------------------------------


@command.command("set", epilog=_SET_EXAMPLES)
@click.argument("key", shell_complete=complete_setting)
@click.argument("value", nargs=-1, required=True)
def set_command(key: str, value: tuple[str, ...]) -> int:
    """Set KEY in the config file. A list takes several values.

    KEY is an option's name with _ for -, or profiles.NAME.KEY, providers.NAME.KEY, options.NAME, aliases.NAME. Put -- before
    values that start with -.
    """
    steps = _split_key(key)
    try:
        parsed = parse_value(steps, value)
    except ValueError as exc:
        raise click.UsageError(exc.args[0]) from None
    if steps[-1] in ("model", "fallback") or steps[0] == "aliases":
        _check_models(parsed if isinstance(parsed, list) else [parsed])
    _change(steps, parsed)
    click.echo(one_line(f"{key} set in {config_path()}", 600), err=True)
    variable = VARIABLES.get(steps[-1], "") if steps[0] != "providers" else ""
    if variable and settings.getenv(variable):
        click.echo(f"note: {variable} is set in the environment and overrides it", err=True)
    return 0


@command.command("unset")
@click.argument("key", shell_complete=complete_setting)
def unset_command(key: str) -> int:
    """Remove KEY, or a whole table, from the config file."""
    _change(_split_key(key), None)
    click.echo(one_line(f"{key} removed from {config_path()}", 600), err=True)
    return 0


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


def _split_key(key: str) -> tuple[str, ...]:
    """Return the steps of a dotted TOML key, such as `profiles."my work".model`."""
    try:
        value: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return tuple(key.split("."))
    steps = []
    while isinstance(value, dict):
        [(name, value)] = value.items()
        steps.append(name)
    return tuple(steps)


def _check_models(models: Sequence[Any]) -> None:
    """Reject a model name without a known provider when it is set, not when it is used."""
    from tenuto.catalog import qualify_model
    from tenuto.cli.session.models import split_effort

    for model in filter(None, models):
        name, _, rest = qualify_model(split_effort(expand_model(model))[0]).partition("/")
        if not rest:
            raise click.UsageError(f"{model[:80]!r} is not a model name: use provider/model")
        canonical_provider(name)


def _change(steps: tuple[str, ...], value: object) -> None:
    """Set a value, or remove it (None). Raise `click.UsageError` and leave the file unchanged if that is impossible."""
    path = config_path()
    with file_lock(path):
        edited = _edit_text(path, read_config_text(path) or "", steps, value)
        try:
            write_private(path, edited)
        except UnicodeEncodeError:
            raise click.UsageError("the value is not UTF-8 text") from None


def _edit_text(path: Path, text: str, steps: tuple[str, ...], value: object) -> str:
    import tomlkit

    key = ".".join(steps)
    if text.startswith(BOM) or "\r\n" in text:  # tomlkit would change its line ends
        raise ConfigError(f"{path} has a byte order mark or CRLF line ends", hint="use tenuto config edit")
    before = read_toml(text, path)
    document = tomlkit.parse(text)
    table: Any = document
    try:
        for step in steps[:-1]:
            if step not in table and value is not None:
                table[step] = tomlkit.table()
            table = table[step]
        if value is None:
            del table[steps[-1]]
        else:
            table[steps[-1]] = value
    except (KeyError, TypeError):
        raise click.UsageError(f"{key} is not set in {path}") from None
    edited = tomlkit.dumps(document)
    after = read_toml(edited, path)
    expected = {leaf: held for leaf, held in _leaves(before).items() if leaf[: len(steps)] != steps}
    if _leaves(after) != (expected if value is None else {**expected, steps: value}):
        raise ConfigError(f"{key} cannot be changed in {path} as it is written", hint="use tenuto config edit")
    known = list(find_problems(before))
    for problem in find_problems(after):
        if problem not in known:
            raise click.UsageError(f"{problem[1]}; nothing was changed")
    return edited


def _leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return the values of a document that are not tables, by path."""
    if not isinstance(value, dict):
        return {path: value}
    return {leaf: held for name, below in value.items() for leaf, held in _leaves(below, (*path, name)).items()}


# --- remembered approvals ---------------------------------------------------------------------------------------------


def _format_remembered() -> str:
    """Return the approvals that are remembered for the current directory; empty without any."""
    from tenuto.cli.session.approval_store import approvals_file, remembered_patterns

    rows = [("allow", one_line(pattern, 4 * _LENGTH), "remembered") for pattern in remembered_patterns(".")]
    return f"\n{format_table(rows)}in {approvals_file()}\n" if rows else ""


@command.command("forget")
@click.argument("pattern")
def forget_command(pattern: str) -> int:
    """Remove a PATTERN that an approval remembered for the current directory."""
    from tenuto.cli.session.approval_store import forget_pattern

    if not forget_pattern(".", pattern):
        raise click.UsageError(f"not remembered for this directory: {pattern[:200]!r}; list with tenuto config show")
    click.echo(one_line(f"{pattern} removed", 600), err=True)
    return 0
