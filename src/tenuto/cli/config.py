"""`tenuto config`: what is set once for all."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tenuto.cli.configuring import Config, Held

__all__ = ["command"]

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
_PATH_EXAMPLES = """\b
Examples:
  tenuto config path
  $EDITOR "$(tenuto config path)"
"""
_SET_EXAMPLES = """\b
Examples:
  tenuto config set model openai/gpt-6.1-sol
  tenuto config set tools read_file list_files     # a list: value after value
  tenuto config set options.temperature 0.2
  tenuto config set profiles.work.approve never
  tenuto config set profile work                   # what holds without --profile
  tenuto config set providers.mine.base_url http://localhost:8000/v1
  tenuto config set --unset tools
"""
_HEADS = ("KEY", "VALUE", "FROM")
_WIDE = 100


@click.group("config", epilog=_EXAMPLES)
def command() -> None:
    """Show and change what is set once for all.

    It is kept in config.toml, whose keys are called like the options of run, chat and resume. [profiles.NAME] holds the
    same keys for a profile, which --profile NAME, TENUTO_PROFILE, or profile = "NAME" in the file turns on.
    [providers.NAME] is a server of your own: base_url, dialect, headers, key_env.

    An option that is typed wins over the environment, that over the profile, that over the rest of the file. Keys are not
    kept here: see tenuto keys.
    """


@command.command("path", epilog=_PATH_EXAMPLES)
def path_command() -> int:
    """Print where the file is, or would be."""
    from tenuto.cli.configuring import config_path
    from tenuto.cli.screen import write_text

    write_text(f"{config_path()}\n")
    return 0


# --- show -------------------------------------------------------------------------------------------------------------


@command.command("show", epilog=_SHOW_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def show_command(ctx: click.Context, as_json: bool) -> int:
    """Show what holds where no option is typed, and who says so: a variable, the profile, the file, or nobody.

    Passwords in addresses and the values of headers are not shown. If something is wrong with the file, that is said, the
    rest is shown, and the exit code is 2.
    """
    from tenuto.cli.configuring import held
    from tenuto.cli.escaping import one_line
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    config, wrong = _readable()
    asked = ctx.find_root().params.get("profile")
    profile, holds = config.profile(asked), _settled(held(config, asked))
    for fault in wrong:
        click.echo(f"error: {one_line(fault, 600)}", err=True)
    if as_json:
        write_document(jsonio.encode(_document(config, profile, holds)))
    else:
        write_text(_page(config, profile, holds), escape=True)
    return 2 if wrong else 0


def _readable() -> tuple[Config, list[str]]:
    """Return the file as far as it can be used, and what is wrong with it."""
    from tenuto.cli.config_keys import faults, fitting
    from tenuto.cli.configuring import Config, Misconfigured, config_path, own_providers, read_toml, text_of

    path = config_path()
    try:
        text = text_of(path)
        document = read_toml(text or "", path)
    except Misconfigured as exc:
        return Config(path, {}, exists=True), [exc.message]
    wrong = [f"{path}: {fault}" for fault in faults(document)]
    if not wrong:
        try:
            own_providers()
        except Misconfigured as exc:
            wrong = [exc.message]
    return Config(path, fitting(document), exists=text is not None), wrong


def _settled(holds: Mapping[str, Held]) -> dict[str, Held]:
    """What holds, with what comes of nothing being said: the model that is asked then, and where sessions are kept."""
    from tenuto import settings
    from tenuto.cli.choosing import chosen
    from tenuto.cli.configuring import Held, Misconfigured

    found = dict(holds)
    if found["store"].source == "default":
        found["store"] = Held(settings.store(), "default")
    if found["model"].source == "default":
        with suppress(Misconfigured):  # which one that is may depend on what cannot be read
            found["model"] = Held(chosen(None).model, "default")
    found["store"] = found["store"]._replace(value=_address(found["store"].value))
    if isinstance(options := found["options"].value, dict):
        found["options"] = found["options"]._replace(value=_covered(options, "extra_headers"))
    return found


def _covered(table: Mapping[str, Any], headers: str) -> dict[str, Any]:
    """A table without the values of its headers, which may be secrets."""
    held = table.get(headers)
    return {**table, headers: dict.fromkeys(held, "***")} if isinstance(held, dict) else dict(table)


def _address(place: str) -> str:
    from tenuto.client.http import safe_url

    return safe_url(place) if "://" in place else place


def _servers(config: Config) -> dict[str, dict[str, Any]]:
    """The servers of one's own, without what may be a secret."""
    found = {}
    for name, table in config.document.get("providers", {}).items():
        found[name] = _covered(table, "headers")
        if "base_url" in table:
            found[name]["base_url"] = _address(table["base_url"])
    return found


def _document(config: Config, profile: str, holds: Mapping[str, Held]) -> dict[str, Any]:
    return {
        "path": str(config.path),
        "exists": config.exists,
        "profile": profile or None,
        "profiles": list(config.document.get("profiles", {})),
        "settings": {
            key: {"value": one.value, "source": one.source, "where": one.where or None} for key, one in holds.items()
        },
        "providers": _servers(config),
    }


def _page(config: Config, profile: str, holds: Mapping[str, Held]) -> str:
    from tenuto.cli.columns import columns
    from tenuto.cli.escaping import one_line
    from tenuto.cli.toml_lines import written

    others = ", ".join(name for name in config.document.get("profiles", {}) if name != profile)
    head = [
        ("file", f"{config.path}{'' if config.exists else ' (there is none)'}"),
        ("profile", f"{profile or '-'}{f' (others: {others})' if others else ''}"),
    ]
    rows = [_HEADS]
    for key, one in holds.items():
        source = {"environment": one.where, "profile": f"profile {one.where}", "file": config.path.name}
        value = "-" if one.value is None else one_line(written(one.value), _WIDE)
        rows.append((key, value, one_line(source.get(one.source, one.source), _WIDE)))
    for name, table in _servers(config).items():
        rows += [
            (one_line(f"providers.{name}.{key}", _WIDE), one_line(written(value), _WIDE), config.path.name)
            for key, value in table.items()
        ]
    lines = [(name, one_line(said, 4 * _WIDE)) for name, said in head]
    return f"{columns(lines)}\n{columns(rows)}"


# --- set --------------------------------------------------------------------------------------------------------------


@command.command("set", epilog=_SET_EXAMPLES)
@click.argument("key")
@click.argument("value", nargs=-1)
@click.option("--unset", is_flag=True, help="Take KEY out of the file; a table goes with all that is in it.")
def set_command(key: str, value: tuple[str, ...], unset: bool) -> int:
    """Set KEY to VALUE in the file; a list takes several. Nothing else in the file is touched, no comment lost.

    KEY is an option's name with _ for -, or profiles.NAME.KEY, providers.NAME.KEY, options.NAME. A VALUE that begins with
    - stands behind --. The file is written whole or not at all, and only its owner can read it.
    """
    from tenuto.cli.configuring import config_path
    from tenuto.cli.escaping import one_line
    from tenuto.cli.keeping import alone

    path, steps = config_path(), _steps(key)
    if unset and value:
        raise click.UsageError("--unset takes a key and no value")
    wanted = None if unset else _value(steps, value)
    with alone(path):
        done = _change(path, steps, wanted)
    click.echo(one_line(f"{key} is {done} {path}", 600), err=True)
    if not unset:
        _note_winner(steps)
    return 0


def _steps(key: str) -> tuple[str, ...]:
    from tenuto.cli.toml_lines import key_path

    try:
        return key_path(key)
    except ValueError:  # signs that would want quotes in the file
        return tuple(key.split("."))


def _value(steps: tuple[str, ...], words: Sequence[str]) -> object:
    """Make a value of what was typed. Raise `click.UsageError` if it is none for this key."""
    from tenuto.cli.config_keys import kind_of, unfit

    try:
        kind = kind_of(steps)
    except LookupError as exc:
        raise click.UsageError(exc.args[0]) from None
    name = ".".join(steps)
    if not words:
        raise click.UsageError(f"nothing is said of what {name} should be: {kind.says}; --unset takes it out")
    if len(words) > 1 and not kind.many:
        raise click.UsageError(
            f"{name} should be {kind.says}, not {len(words)} values: quote one that has spaces in it"
        )
    try:
        value = list(words) if kind.many else kind.read(words[0])
    except ValueError:
        raise click.UsageError(f"{name} should be {kind.says}, not {words[0][:60]!r}") from None
    if not kind.fits(value):
        raise click.UsageError(unfit(name, kind, value))
    if steps[-1] in ("model", "fallback"):
        _check_models(value if isinstance(value, list) else [value])
    return value


def _check_models(models: Sequence[Any]) -> None:
    """Refuse a model name without a known provider when it is set, not when it is used."""
    from tenuto.catalog import qualify_model
    from tenuto.cli.choosing import split_effort
    from tenuto.cli.keyring import provider_name

    for model in filter(None, models):
        name, _, rest = qualify_model(split_effort(model)[0]).partition("/")
        if not rest:
            raise click.UsageError(f"{model[:80]!r} is not a model name: use provider/model")
        provider_name(name)


def _change(path: Path, steps: tuple[str, ...], value: object) -> str:
    """Change the file; return what was done. Raise `click.UsageError` for what cannot be, and leave it as it was then."""
    from tenuto.cli.config_keys import faults
    from tenuto.cli.configuring import MARK, Misconfigured, read_toml, text_of
    from tenuto.cli.keeping import write
    from tenuto.cli.toml_lines import Unchangeable, changed, removed

    held = text_of(path) or ""
    text = held.removeprefix(MARK)
    before = read_toml(text, path)
    try:
        made = removed(text, steps) if value is None else changed(text, steps, value)
        after = read_toml(made, path)
        worse = [fault for fault in faults(after) if fault not in set(faults(before))]
        if worse:
            raise click.UsageError(f"{worse[0]}; nothing was changed")
        write(path, held[: len(held) - len(text)] + made)
    except (KeyError, TypeError):
        raise click.UsageError(f"{'.'.join(steps)} is not set in {path}") from None
    except Unchangeable:
        raise Misconfigured(
            f"{'.'.join(steps)} stands in {path} in a way that is not changed here; nothing was changed",
            hint="edit the file by hand",
        ) from None
    except UnicodeEncodeError:
        raise click.UsageError("the value is no text in UTF-8") from None
    return "taken out of" if value is None else "set in"


def _note_winner(steps: tuple[str, ...]) -> None:
    from tenuto import settings
    from tenuto.cli.config_keys import KEYS

    variable = KEYS[steps[-1]].variable if steps[-1] in KEYS and steps[0] != "providers" else ""
    if variable and settings.getenv(variable):
        click.echo(f"note: {variable} is set in the environment, and wins", err=True)
