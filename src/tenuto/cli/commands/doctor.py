"""`tenuto doctor`: check the installation."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from shlex import quote
from typing import Literal, NamedTuple

import click

import tenuto
from tenuto import errors, settings
from tenuto.cli.config import config_path, configured_providers, default_options, load_config
from tenuto.cli.errors import ExitCode, explain_error, plural
from tenuto.cli.keys_file import fetch_models, keys_path, provider_statuses, providers_with_key
from tenuto.cli.options import expand_model, flag, json_option, store_option
from tenuto.cli.store import store_file, use_store
from tenuto.cli.terminal.output import STATE_STYLES, ansi_style, detect_terminal, print_json, print_text
from tenuto.cli.terminal.text import one_line

_EXAMPLES = """\b
Examples:
  tenuto doctor --online         # and whether the providers accept the keys
  tenuto doctor --json | jq '.findings[] | select(.state == "problem")'
"""
_LIBRARIES = ("msgspec", "aiohttp", "click", "rich", "markdown-it-py", "tomlkit")
_EXTRAS = {"postgres": "psycopg", "prices": "genai_prices", "pydantic": "pydantic"}
_ONLINE_TIMEOUT = 15.0


class DoctorCheck(NamedTuple):
    name: str
    status: Literal["ok", "note", "warning", "problem"]
    message: str
    fix: str = ""
    code: ExitCode = ExitCode.FAILED


@click.command("doctor", epilog=_EXAMPLES)
@flag("--online", help="Fetch the model list of each provider that has a key.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, online: bool, as_json: bool, store: str | None) -> int:
    """Check versions, paths, settings, keys, default model, permissions and the session database.

    Each line: ok, note, warning or problem, with a fix. Read-only and offline unless --online. tenuto store verify checks
    every entry for damage. Exit 1 on a problem, 7 if the database cannot be read.
    """
    code = ExitCode.OK
    results: dict[str, DoctorCheck] = {}
    for check in _checks(store, ctx.find_root().params.get("profile"), online=online):
        message = f"{check.name}: {check.message}" if check.status == "ok" else check.message
        if message in results:
            continue  # one broken file fails several checks
        results[message] = check
        code = max(code, check.code) if check.status == "problem" else code
        if not as_json:
            line = one_line(f"{check.name}: {check.message}{f'; {check.fix}' if check.fix else ''}", 600)
            status = ansi_style(
                f"{check.status:7}", STATE_STYLES.get(check.status, ""), color=detect_terminal().out_color
            )
            print_text(f"{status}  {line}\n", escape=False)
    if as_json:
        names = ("about", "state", "what", "todo")
        findings = [dict(zip(names, check, strict=False)) for check in results.values()]
        print_json({"exit_code": int(code), "findings": findings})
    return code


def _checks(place: str | None, profile: str | None, *, online: bool) -> Iterator[DoctorCheck]:
    checks: dict[str, Callable[[], Iterable[DoctorCheck]]] = {
        "tenuto": _check_versions,
        "settings": partial(_check_settings, profile),
        "keys": _check_keys,
        "model": partial(_check_model, profile),
        "permissions": partial(_check_permissions, place),
        "store": partial(_check_store, place),
        "online": _check_providers if online else tuple,
    }
    for name, check in checks.items():
        try:
            yield from check()
        except click.ClickException as exc:
            yield DoctorCheck(name, "problem", exc.format_message(), str(getattr(exc, "hint", "")))
        except errors.StoreError as exc:
            yield DoctorCheck(name, "problem", str(exc), code=ExitCode.SESSION)
        except (errors.TenutoError, OSError, RuntimeError) as exc:  # RuntimeError: no home directory
            yield DoctorCheck(name, "problem", f"cannot be checked: {exc or type(exc).__name__}")


def _check_versions() -> Iterator[DoctorCheck]:
    system = f"{platform.system()} {platform.release()} {platform.machine()}".strip()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield DoctorCheck("tenuto", "ok", f"{tenuto.__version__}, {python}, SQLite {sqlite3.sqlite_version}, {system}")
    yield DoctorCheck("libraries", "ok", ", ".join(f"{name} {version(name)}" for name in _LIBRARIES))
    extras = [extra for extra, module in _EXTRAS.items() if find_spec(module) is not None]
    yield DoctorCheck("extras", "ok", f"{', '.join(extras) or 'none'} (of {', '.join(_EXTRAS)})")


def _check_settings(profile: str | None) -> Iterator[DoctorCheck]:
    config, custom = load_config(), configured_providers()
    name = config.profile(profile)
    if not config.exists:
        yield DoctorCheck("settings", "ok", f"no config file ({config.path})")
        return
    details = [f"profile {name}" if name else "", f"custom providers: {', '.join(custom)}" if custom else ""]
    yield DoctorCheck("settings", "ok", ", ".join(filter(None, (str(config.path), *details))))


def _check_keys() -> Iterator[DoctorCheck]:
    keys = [f"{status.name} ({status.where})" for status in provider_statuses() if status.key in ("set", "kept")]
    if keys:
        yield DoctorCheck("keys", "ok", f"{', '.join(keys)}; file {keys_path()}")
    else:
        yield DoctorCheck("keys", "note", f"none ({keys_path()})", "add one with tenuto keys set PROVIDER")


def _check_model(profile: str | None) -> Iterator[DoctorCheck]:
    from tenuto.catalog import resolve
    from tenuto.cli.session.models import default_model, split_effort, suggest_models

    configured = default_options("run", profile).get("model")
    choice = default_model(expand_model(str(configured)) if configured else None)
    model, _ = split_effort(choice.model)
    try:
        if model.partition("/")[0] not in configured_providers():
            resolve(model)
    except errors.TenutoError as exc:
        near = suggest_models(model)
        fix = f"did you mean {' or '.join(near)}?" if near else "list models with tenuto models"
        yield DoctorCheck("model", "problem", f"{model}: {exc}", fix)
        return
    yield DoctorCheck("model", "note" if choice.note else "ok", choice.note or f"default model: {choice.model}")


def _check_permissions(place: str | None) -> Iterator[DoctorCheck]:
    """Check that other users cannot read keys, sessions and history, or change settings. Not on Windows."""
    if os.name != "posix":
        return
    files = {keys_path(): 0o077, config_path(): 0o022, settings.home() / "history": 0o077}
    if store := store_file(place):
        files[store] = 0o077
    found = []
    for path, forbidden in {**files, **{path.parent: 0o022 for path in files}}.items():
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0
        if not mode & forbidden or mode & 0o1000:  # sticky, as /tmp: others cannot replace files
            continue
        action, change = ("written", "go-w") if forbidden == 0o022 else ("read", "600")
        message, fix = f"{path} can be {action} by others (mode {mode:04o})", f"chmod {change} {quote(str(path))}"
        found.append(DoctorCheck("permissions", "problem" if path == keys_path() else "warning", message, fix))
    yield from found or [DoctorCheck("permissions", "ok", "files are private")]


def _check_store(place: str | None) -> Iterator[DoctorCheck]:
    where = place or settings.store()
    if where.startswith("memory:"):
        yield DoctorCheck("store", "note", "memory: nothing is saved", "set TENUTO_STORE to a file")
        return
    file = store_file(where)
    if file is None or file.exists():
        if file is not None and not os.access(file, os.W_OK):
            yield DoctorCheck("store", "problem", f"{file} cannot be written", "change its permissions")
        elif stats := use_store(where, lambda store: store.stats(), None):
            counts = f"{plural(stats.sessions, 'session')}, {plural(stats.entries, 'entry')}"
            yield DoctorCheck("store", "ok", f"{file or stats.backend}: {counts}")
        return
    parent = next((parent for parent in file.parents if os.path.lexists(parent)), file.parent)
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        yield DoctorCheck("store", "ok", f"no sessions yet ({file})")
    else:
        why = "cannot be written" if parent.is_dir() else "is not a directory"
        yield DoctorCheck("store", "problem", f"{parent} {why}", "set TENUTO_STORE or TENUTO_HOME to another place")


def _check_providers() -> Iterator[DoctorCheck]:
    if settings.is_offline():
        yield DoctorCheck("online", "note", "skipped: TENUTO_OFFLINE forbids the network")
        return
    names = list(providers_with_key())
    if not names:
        yield DoctorCheck("online", "note", "skipped: no key")
    with_key = {status.name for status in provider_statuses() if status.key in ("set", "kept")}
    for name, reply in fetch_models(names, _ONLINE_TIMEOUT).items():
        match reply:
            case errors.UnsupportedModel():
                yield DoctorCheck(name, "note", "not checked: it has no model list")
            case errors.AuthenticationFailed(status=status, message=message):
                problem = f"key rejected ({status}): {message}"
                yield DoctorCheck(name, "problem", problem, "check or replace the key")
            case errors.RateLimited(message=message) | errors.Unavailable(message=message):
                yield DoctorCheck(name, "warning", f"reachable but busy: {message}", "try again later")
            case errors.TenutoError():
                network = "check your network, any proxy, the system clock and SSL_CERT_FILE"
                fix = network if isinstance(reply, errors.ConnectionFailed) else ""
                yield DoctorCheck(name, "problem", explain_error(reply).message, fix)
            case _:
                key = "key accepted" if name in with_key else "no key needed"
                yield DoctorCheck(name, "ok", f"reachable, {key}, {plural(len(reply), 'model')}")
