"""`tenuto config`: view and edit settings."""

from __future__ import annotations

import copy
import json
import tomllib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tenuto import settings
from tenuto.cli.complete import complete_setting
from tenuto.cli.config import (
    BOM,
    KEYS,
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
from tenuto.cli.group import CommandGroup
from tenuto.cli.keys_file import canonical_provider
from tenuto.cli.terminal.output import confirm, format_table, print_json, print_text
from tenuto.cli.terminal.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


_EXAMPLES = """\b
Examples:
  tenuto config show
  tenuto config set model anthropic/claude-sonnet-5-5
  tenuto config set profiles.work.tools read_file shell
  tenuto --profile work run "What is left to do?"
"""
_SHOW_EXAMPLES = """\b
Examples:
  tenuto config show
  tenuto --profile work config show
  tenuto config show --json | jq .settings.model
"""
_UNSET_EXAMPLES = """\b
Examples:
  tenuto config unset tools
  tenuto config unset profiles.work
"""
_EDIT_EXAMPLES = """\b
Examples:
  tenuto config edit
"""
_SET_EXAMPLES = """\b
Examples:
  tenuto config set model openai/gpt-6.1-sol
  tenuto config set tools read_file list_files     # a list: value after value
  tenuto config set options.temperature 0.2
  tenuto config set profiles.work.approve never
  tenuto config set profile work                   # the default of --profile
  tenuto config set providers.mine.base_url http://localhost:8000/v1
"""
_HEADS = ("KEY", "VALUE", "FROM")
_WIDE = 100


@click.group("config", cls=CommandGroup, invoke_without_command=True, epilog=_EXAMPLES)
@click.pass_context
def command(ctx: click.Context) -> int:
    """View and edit settings. Without a command, show them.

    Settings are in config.toml, named like the options of run, chat and resume. [profiles.NAME] has the same keys for a
    profile; --profile NAME, TENUTO_PROFILE, or profile = "NAME" in the file selects it. [providers.NAME] is your own
    server: base_url, dialect, headers, key_env.

    Precedence: options, environment, profile, file. API keys are stored with tenuto keys.
    """
    return 0 if ctx.invoked_subcommand else _print_settings(ctx, as_json=False)


# --- show -------------------------------------------------------------------------------------------------------------


@command.command("show", epilog=_SHOW_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def show_command(ctx: click.Context, as_json: bool) -> int:
    """Show effective settings and where each comes from.

    Passwords in URLs and the values of headers are hidden. Errors in the file are reported; exit 2.
    """
    return _print_settings(ctx, as_json=as_json)


def _print_settings(ctx: click.Context, *, as_json: bool) -> int:
    from tenuto.core import jsonio

    config, wrong = _read_settings()
    asked = ctx.find_root().params.get("profile")
    profile, effective = config.profile(asked), _with_computed_defaults(effective_settings(config, asked))
    for problem in wrong:
        click.echo(f"error: {one_line(problem, 600)}", err=True)
    if as_json:
        print_json(jsonio.encode(_document(config, profile, effective)))
    else:
        print_text(_format_settings(config, profile, effective) + _format_remembered(), escape=True)
    return 2 if wrong else 0


def _read_settings() -> tuple[Config, list[str]]:
    """Return the file as far as it can be used, and what is wrong with it."""

    path = config_path()
    try:
        text = read_config_text(path)
        document = read_toml(text or "", path)
    except ConfigError as exc:
        return Config(path, {}, exists=True), [exc.message]
    problems = list(find_problems(document))
    wrong = [f"{path}: {problem}" for _, problem in problems]
    for steps, _ in problems:
        table: Any = document
        for step in steps[:-1]:
            table = table[step]
        table.pop(steps[-1], None)
    if not wrong:
        try:
            configured_providers()
        except ConfigError as exc:
            wrong = [exc.message]
    return Config(path, document, exists=text is not None), wrong


def _with_computed_defaults(holds: Mapping[str, Setting]) -> dict[str, Setting]:
    """Add the computed defaults of the model and the store, and mask secrets."""
    from tenuto.cli.session.models import default_model

    found = dict(holds)
    if found["store"].source == "default":
        found["store"] = Setting(settings.store(), "default")
    if found["model"].source == "default":
        with suppress(ConfigError):  # which one that is may depend on what cannot be read
            found["model"] = Setting(default_model(None).model, "default")
    found["store"] = found["store"]._replace(value=_mask_password(found["store"].value))
    if isinstance(options := found["options"].value, dict):
        found["options"] = found["options"]._replace(value=_mask_headers(options, "extra_headers"))
    return found


def _mask_headers(table: Mapping[str, Any], headers: str) -> dict[str, Any]:
    """Mask the values of headers, which may be secrets."""
    held = table.get(headers)
    return {**table, headers: dict.fromkeys(held, "***")} if isinstance(held, dict) else dict(table)


def _mask_password(place: str) -> str:
    from tenuto.client.http import safe_url

    return safe_url(place) if "://" in place else place


def _custom_providers(config: Config) -> dict[str, dict[str, Any]]:
    """Return the configured providers with their secrets masked."""
    found = {}
    for name, table in config.document.get("providers", {}).items():
        found[name] = _mask_headers(table, "headers")
        if "base_url" in table:
            found[name]["base_url"] = _mask_password(table["base_url"])
    return found


def _document(config: Config, profile: str, holds: Mapping[str, Setting]) -> dict[str, Any]:
    return {
        "path": str(config.path),
        "exists": config.exists,
        "profile": profile or None,
        "profiles": list(config.document.get("profiles", {})),
        "settings": {
            key: {"value": one.value, "source": one.source, "where": one.where or None} for key, one in holds.items()
        },
        "providers": _custom_providers(config),
    }


def _format_settings(config: Config, profile: str, holds: Mapping[str, Setting]) -> str:

    others = ", ".join(name for name in config.document.get("profiles", {}) if name != profile)
    head = [
        ("file", f"{config.path}{'' if config.exists else ' (there is none)'}"),
        ("profile", f"{profile or '-'}{f' (others: {others})' if others else ''}"),
    ]
    rows = [_HEADS]
    for key, one in holds.items():
        source = {"environment": one.where, "profile": f"profile {one.where}", "file": config.path.name}
        value = "-" if one.value is None else one_line(_format_value(one.value), _WIDE)
        rows.append((key, value, one_line(source.get(one.source, one.source), _WIDE)))
    for name, table in _custom_providers(config).items():
        rows += [
            (one_line(f"providers.{name}.{key}", _WIDE), one_line(_format_value(value), _WIDE), config.path.name)
            for key, value in table.items()
        ]
    lines = [(name, one_line(said, 4 * _WIDE)) for name, said in head]
    return f"{format_table(lines)}\n{format_table(rows)}"


def _format_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- set --------------------------------------------------------------------------------------------------------------


@command.command("set", epilog=_SET_EXAMPLES)
@click.argument("key", shell_complete=complete_setting)
@click.argument("value", nargs=-1)
def set_command(key: str, value: tuple[str, ...]) -> int:
    """Set KEY in the config file. A list takes several values.

    KEY is an option's name with _ for -, or profiles.NAME.KEY, providers.NAME.KEY, options.NAME. Put -- before values
    that start with -.
    """
    steps = _split_key(key)
    parsed = _value(steps, value)
    with file_lock(config_path()):
        _change(config_path(), steps, parsed)
    click.echo(one_line(f"{key} set in {config_path()}", 600), err=True)
    warn_if_overridden(steps)
    return 0


@command.command("unset", epilog=_UNSET_EXAMPLES)
@click.argument("key", shell_complete=complete_setting)
def unset_command(key: str) -> int:
    """Remove KEY, or a whole table, from the config file."""
    with file_lock(config_path()):
        _change(config_path(), _split_key(key), None)
    click.echo(one_line(f"{key} removed from {config_path()}", 600), err=True)
    return 0


@command.command("edit", epilog=_EDIT_EXAMPLES)
def edit_command() -> int:
    """Edit the config file in $EDITOR. It is checked before it is saved."""
    path = config_path()
    text = read_config_text(path) or ""
    while True:
        edited = click.edit(text, extension=".toml")
        if edited is None or edited == text:
            click.echo("unchanged", err=True)
            return 0
        try:
            parse_config(edited, path)
        except ConfigError as exc:
            click.echo(f"error: {one_line(exc.message, 600)}", err=True)
            if not confirm("edit again?", "nothing was changed"):
                return 2
            text = edited
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


def _value(steps: tuple[str, ...], words: Sequence[str]) -> object:
    """Return the value of a setting. Raise `click.UsageError` if it is wrong."""
    try:
        value = parse_value(steps, words)
    except (LookupError, ValueError) as exc:
        raise click.UsageError(exc.args[0]) from None
    if steps[-1] in ("model", "fallback"):
        _check_models(value if isinstance(value, list) else [value])
    return value


def _check_models(models: Sequence[Any]) -> None:
    """Refuse a model name without a known provider when it is set, not when it is used."""
    from tenuto.catalog import qualify_model
    from tenuto.cli.session.models import split_effort

    for model in filter(None, models):
        name, _, rest = qualify_model(split_effort(model)[0]).partition("/")
        if not rest:
            raise click.UsageError(f"{model[:80]!r} is not a model name: use provider/model")
        canonical_provider(name)


def _change(path: Path, steps: tuple[str, ...], value: object) -> None:
    """Set a value, or remove it (None). Raise `click.UsageError` and leave the file as it is if that cannot be done."""
    import tomlkit

    text, key = read_config_text(path) or "", ".".join(steps)
    if text.startswith(BOM) or "\r\n" in text:  # tomlkit would change its line ends
        raise ConfigError(f"{path} has a byte order mark or CRLF line ends", hint="use tenuto config edit")
    before = read_toml(text, path)
    document = tomlkit.parse(text)
    try:
        expected = copy.deepcopy(before)
        for root in (expected, document):
            table: Any = root
            for step in steps[:-1]:
                if step not in table and value is not None:
                    table[step] = {} if root is expected else tomlkit.table()
                table = table[step]
            if value is None:
                del table[steps[-1]]
            else:
                table[steps[-1]] = value
    except (KeyError, TypeError):
        raise click.UsageError(f"{key} is not set in {path}") from None
    edited = tomlkit.dumps(document)
    if _without_empty_tables(read_toml(edited, path)) != _without_empty_tables(expected):
        raise ConfigError(f"{key} cannot be changed in {path} as it is written", hint="use tenuto config edit")
    known = list(find_problems(before))
    for problem in find_problems(expected):
        if problem not in known:
            raise click.UsageError(f"{problem[1]}; nothing was changed")
    try:
        write_private(path, edited)
    except UnicodeEncodeError:
        raise click.UsageError("the value is not UTF-8 text") from None


def _without_empty_tables(table: dict[str, Any]) -> dict[str, Any]:
    pruned = {key: _without_empty_tables(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {key: value for key, value in pruned.items() if value != {}}


def warn_if_overridden(steps: tuple[str, ...]) -> None:

    variable = KEYS[steps[-1]].variable if steps[-1] in KEYS and steps[0] != "providers" else ""
    if variable and settings.getenv(variable):
        click.echo(f"note: {variable} is set in the environment and overrides it", err=True)


# --- remembered approvals ---------------------------------------------------------------------------------------------


def _format_remembered() -> str:
    """Return the approvals that are remembered for the current directory; empty without any."""
    from tenuto.cli.session.approval_store import approvals_file, remembered_patterns

    rows = [("allow", one_line(pattern, 4 * _WIDE), "remembered") for pattern in remembered_patterns(".")]
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
