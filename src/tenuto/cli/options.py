"""Click options that several commands share, and their values as `RunOptions`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from tenuto.cli import complete
from tenuto.cli.config import load_config
from tenuto.cli.store import ANYWHERE, check_store_directory
from tenuto.cli.terminal.text import closest_names

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")  # of `Effort`, which would load msgspec
SESSION_HELP = "ID or unique prefix, name, `last`, or `~N` (N sessions ago)"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `run`, `chat` and `resume`: typed ones, else configured ones, else these defaults."""

    session: str = ""  # the session to continue; empty for a new one
    name: str | None = None
    ephemeral: bool = False
    takeover: bool = False
    store: str | None = None
    prompt: str | None = None
    attach: tuple[str, ...] = ()
    schema: str | None = None
    model: str | None = None  # for a continued session, the model to switch to
    system: str | None = None
    effort: str | None = None
    option: tuple[str, ...] = ()
    max_tokens: int | None = None
    allow_unverified: bool = False
    strict: bool = False
    fallback: str | None = None
    tool: tuple[str, ...] = ()
    root: str = "."
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    approve: str = "ask"
    max_turns: int | None = None
    max_usd: float | None = None
    max_tokens_total: int | None = None
    timeout: float | None = None
    json: bool = False
    jsonl: bool = False
    stream: bool = False
    out: str | None = None
    usage: bool = False
    show_thinking: bool = False
    hide_thinking: bool = False
    quiet: bool = False
    color: str = "auto"
    explicit: frozenset[str] = frozenset()  # the names of the options that were typed


# Options that contradict each other; `which` is the argument of `chat`
_CONFLICTS = (
    "resume_last session which ephemeral, ephemeral name, ephemeral store, json jsonl stream, out jsonl, out stream, "
    "schema stream, show_thinking hide_thinking"
)
FIXED_AT_START = ("system", "effort", "option", "max_tokens", "allow_unverified")  # a session stores them
MUST_NOT_BE_EMPTY = ("session", "which", "name", "model", "fallback", "schema", "out", "root", "store")


def parse_run_options(values: dict[str, Any]) -> RunOptions:
    """Check the values of a command's parameters. Raise `click.UsageError` for options that contradict each other."""
    context = click.get_current_context()
    explicit = frozenset(name for name in values if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    labels = {
        param.name or "": param.opts[-1] if isinstance(param, click.Option) else "SESSION"
        for param in context.command.params
    }
    for names in _CONFLICTS.split(", "):
        given = [name for name in names.split() if name in explicit and values[name] is not None]
        if len(given) > 1:
            raise click.UsageError(f"use either {labels[given[0]]} or {labels[given[1]]}")
    for name in explicit.intersection(MUST_NOT_BE_EMPTY):  # --session "$UNSET" would start a new session
        if values[name] == "":
            raise click.UsageError(f"{labels[name]} is empty")
    values["session"] = values.pop("which", None) or values.get("session") or ""
    if values.pop("resume_last", False):
        values["session"] = "last"
    if values["session"]:
        for name in FIXED_AT_START:
            if name in explicit:
                raise click.UsageError(f"{labels[name]} only applies to new sessions")
        # configured values are for new sessions too
        values["ephemeral"] = False
        values["model"] = values.get("model") if "model" in explicit else None
    elif "takeover" in explicit:
        raise click.UsageError("--takeover needs a session: add -c or --session")
    if values.pop("no_tools", False):
        values["tool"] = values["tool"] if "tool" in explicit else ()
    check_store_directory(values.get("store"))
    known = {field.name for field in fields(RunOptions)}
    return RunOptions(explicit=explicit, **{name: value for name, value in values.items() if name in known})


def expand_model(name: str) -> str:
    """Return the full name, with its effort, for an alias of the config file or a short name, such as `opus:low`."""
    from tenuto.catalog.providers import PROVIDERS, SHORT_NAMES, TAGGED
    from tenuto.cli.session.models import SIMULATOR_MODEL, model_ids, split_effort

    aliases = load_config().document.get("aliases", {})
    base, effort = split_effort(aliases.get(name, name))
    full = aliases.get(base, base)
    if full in SHORT_NAMES:
        provider = SHORT_NAMES[full]
        ids = [id for id in model_ids() if id.startswith(f"{provider}/") and full in id.split("-")]
        default = f"{provider}/{PROVIDERS[provider].default_model}" if provider else SIMULATOR_MODEL
        full = ids[0] if ids else default
    model, colon, suffix = full.rpartition(":")
    is_tag = model.partition("/")[0] in TAGGED
    if colon and not is_tag and effort is None and split_effort(full)[1] is None and model in model_ids():
        raise click.UsageError(f"unknown effort {suffix[:60]!r} ({', '.join(EFFORTS)})")
    return f"{full}:{effort}" if effort else full


class WholeNumber(click.IntRange):
    name = "whole number"  # in messages: 'x' is not a valid whole number


class _Amount(click.FloatRange):
    name = "number"


_POSITIVE, _AMOUNT = WholeNumber(min=1), _Amount(min=0, min_open=True)
_COMPLETERS: dict[str, complete.Completer] = {  # by metavar
    "FILE": complete.complete_path("file"),
    "DIR": complete.complete_path("dir"),
    "SESSION": complete.complete_session,
    "MODEL": complete.complete_model,
    "MODELS": complete.complete_fallback,
    "PROVIDER": complete.complete_provider,
    "TOOL": complete.complete_tool,
    "PATTERN": complete.complete_tool,
}


def option(*names: str, **settings: Any) -> Decorator:
    """Return a `click.option` that completes the values of its metavar."""
    settings.setdefault("shell_complete", _COMPLETERS.get(settings.get("metavar", "")))
    return click.option(*names, **settings)


def flag(*names: str, **settings: Any) -> Decorator:
    return click.option(*names, is_flag=True, **settings)


def _apply(*options: Decorator) -> Decorator:
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


anywhere_option = flag(
    "--anywhere",
    expose_value=False,
    callback=lambda context, _, value: context.meta.update({ANYWHERE: value}),
    help="`last` and `~N` of all directories, not of this one.",
)


def session_argument(name: str = "session", **settings: Any) -> Decorator:
    """Return the argument for one session, or for several with `nargs=-1`, and `--anywhere`."""
    argument = click.argument(name, shell_complete=complete.complete_session, **settings)
    return _apply(argument, anywhere_option)


store_option = option(
    "--store",
    metavar="FILE",
    help="Session database: file or postgresql:// URL.  [default: TENUTO_STORE, or a file in the data directory]",
)
_COLORS = click.Choice(["auto", "always", "never"])
color_option = option("--color", type=_COLORS, default="auto", help="Use color (auto: on a terminal without NO_COLOR).")
json_option = flag("--json", "as_json", help="Print JSON.")
yes_option = flag("-y", "--yes", help="Do not ask (required without a terminal).")
takeover_option = flag("--takeover", help="Take over a session in use; its process is stopped.")


_SESSION = (
    flag("-c", "--continue", "resume_last", help="Continue the last session of this directory."),
    option("--session", default="", metavar="SESSION", help="Continue this session (ID, name, last, ~N)."),
    option("-n", "--name", metavar="NAME", help="Session name."),
    flag("--ephemeral", help="Do not save the session."),
    takeover_option,
)


def _model_options(model_help: str, *, hidden: bool) -> Decorator:
    """Return `-m` and the options that a session stores; `hidden` for commands that only reject them."""
    own = functools.partial(option, hidden=hidden)
    return _apply(
        option("-m", "--model", metavar="MODEL", help=model_help),
        own("-s", "--system", metavar="TEXT", help="System prompt (@FILE reads a file)."),
        own("--effort", type=click.Choice(EFFORTS), help="Reasoning effort."),
        own(
            "-o",
            "--option",
            multiple=True,
            metavar="KEY=VALUE",
            help="Model parameter, as in temperature=0.2. Repeatable.",
        ),
        own("--max-tokens", type=_POSITIVE, metavar="N", help="Maximum tokens per reply."),
        own("--allow-unverified/--no-allow-unverified", is_flag=True, help="Allow a model that agents refuse; stored."),
        option("--fallback", metavar="MODELS", help="Models to try, in order, if the first fails (comma-separated)."),
    )


_MODEL = "Model: provider/model[:effort] or alias. Switches a continued session."
session_options = _apply(*_SESSION, _model_options(_MODEL, hidden=False))
resume_options = _apply(_model_options("Switch to this model first.", hidden=True), takeover_option)
io_options = _apply(
    option("-a", "--attach", multiple=True, metavar="FILE", help="Attach a file, URL, or - (stdin). Repeatable."),
    option(
        "--schema", metavar="FILE", help="Require JSON matching a schema file or MODULE:TYPE (exit 8 if it does not)."
    ),
    flag("--json", help="Print one JSON document instead of the answer."),
    flag("--jsonl", help="Stream events as JSON lines, result last."),
    flag("--stream", help="Write the answer to a pipe as it arrives."),
    option("--out", metavar="FILE", help="Write the answer to FILE atomically."),
)
_TOOLS = "a name, a group (files, read, all), MODULE:FUNCTION or FILE.py"
_APPROVE = "Other calls that need approval: ask (without a terminal: wait), auto (allow all), never (deny all)."
_RUN = _apply(
    flag("--strict/--no-strict", help="Refuse models missing from the model table."),
    option("-T", "--tool", multiple=True, metavar="TOOL", help=f"Tool the model may call: {_TOOLS}. Repeatable."),
    flag("--no-tools", help="No tools, whatever the settings have."),
    option("--root", default=".", metavar="DIR", help="Working directory for tools.  [default: the current one]"),
    option("--allow", multiple=True, metavar="PATTERN", help="Never ask for calls such as 'shell(git *)'. Repeatable."),
    option("--deny", multiple=True, metavar="PATTERN", help="Never run matching calls. Not a sandbox. Repeatable."),
    option("--approve", type=click.Choice(["ask", "auto", "never"]), default="ask", show_default=True, help=_APPROVE),
    option("--max-turns", type=_POSITIVE, metavar="N", help="Stop after N replies.  [default: 100]"),
    option("--max-usd", type=_AMOUNT, metavar="USD", help="Stop when this much is spent (checked after each reply)."),
    option("--max-tokens-total", type=_POSITIVE, metavar="N", help="Stop after N tokens (checked after each reply)."),
    option("--timeout", type=_AMOUNT, metavar="SECONDS", help="Stop after SECONDS."),
    store_option,
    flag("--usage/--no-usage", help="Print token usage and cost (default on a terminal)."),
    flag("--show-thinking", help="Show the model's thinking also without a terminal."),
    flag("--hide-thinking/--no-hide-thinking", help="Hide the model's thinking."),
    flag("-q", "--quiet/--no-quiet", help="Print only the answer."),
    color_option,
)


def run_options(command: Callable[[RunOptions], Any]) -> Callable[..., Any]:
    """Add the options of a command that runs a session, and call it with `RunOptions`."""
    return _RUN(functools.wraps(command)(lambda **values: command(parse_run_options(values))))


# parameters that `-o` does not take
OWN_OPTIONS = {"effort": "--effort", "max_tokens": "--max-tokens", "system": "-s", "tools": "-T", "model": "-m"}


def parse_parameters(options: Iterable[str]) -> dict[str, Any]:
    """Return model parameters from `KEY=VALUE` texts. A value is read as JSON if that is valid and fits, else as text."""
    import msgspec

    from tenuto.client.parameters import ModelParameters
    from tenuto.core.request import ChatRequest

    types = {field.name: field.type for field in msgspec.structs.fields(ChatRequest)}
    known = [name for name in ModelParameters.__annotations__ if name not in OWN_OPTIONS]
    parameters: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        name = key.strip().replace("-", "_")
        if not equals:
            raise click.UsageError(f"-o expects KEY=VALUE, such as temperature=0.2: got {option!r}")
        if name in OWN_OPTIONS:
            raise click.UsageError(f"-o {key}: use {OWN_OPTIONS[name]}")
        if name not in known:
            raise click.UsageError(f"-o: unknown parameter {key!r}; {closest_names(name, known)}")
        parameters[name] = _parameter_value(name, text, types[name])
    return parameters


_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "array": "a list"}


def _parameter_value(name: str, text: str, type_: Any) -> Any:
    import msgspec

    from tenuto.core import jsonio

    problem = ""
    for reading in (text,) if jsonio.problem(text) else (jsonio.parse(text), text):
        try:
            return msgspec.convert(reading, type_)
        except msgspec.ValidationError as exc:
            problem = problem or str(exc)
    found = re.match(r"Expected `(.+?)( \| .*)?`, got", problem)
    reason = f"should be {_KINDS.get(found[1], 'an object')}" if found else problem.replace("`", "")
    raise click.UsageError(f"-o {name}={text[:80]}: {reason}")


_SECTIONS = {
    "Session": ("resume_last", "session", "anywhere", "name", "ephemeral", "takeover", "store"),
    "Model": ("model", "system", "effort", "option", "max_tokens", "fallback", "allow_unverified", "strict"),
    "Input": ("attach", "schema"),
    "Tools": ("tool", "no_tools", "root", "allow", "deny", "approve"),
    "Limits": ("max_turns", "max_usd", "max_tokens_total", "timeout"),
    "Output": ("json", "jsonl", "stream", "out", "usage", "show_thinking", "hide_thinking", "quiet", "color"),
}


class GroupedHelpCommand(click.Command):
    """A command whose help lists its options by subject."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*_SECTIONS, "Other")}
        for option in self.get_params(ctx):
            title = next((title for title, names in _SECTIONS.items() if option.name in names), "Other")
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
                sections[title].append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
