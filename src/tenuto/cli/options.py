"""Click options that several commands share, and their values as `RunOptions`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from tenuto.cli.complete import (
    complete_directory,
    complete_fallback,
    complete_file,
    complete_model,
    complete_session,
    complete_tool,
)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The values of `core.request.Effort`, which would load msgspec for a help page."""
SESSION_HELP = "ID or unique prefix, name, `last`, or `~N` (N sessions ago)"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of `run`, `chat` and `resume`: typed ones, else configured ones, else these defaults."""

    session: str = ""
    """The session to continue; empty for a new one. `-c` is `last`."""
    name: str | None = None
    ephemeral: bool = False
    takeover: bool = False
    store: str | None = None
    prompt: str | None = None
    attach: tuple[str, ...] = ()
    schema: str | None = None
    model: str | None = None
    """For a continued session, the model to switch to."""
    no_key: bool = False
    """Whether the model is the simulator's because no API key is set."""
    system: str | None = None
    effort: str | None = None
    option: tuple[str, ...] = ()
    max_tokens: int | None = None
    allow_unverified: bool = False
    fallback: str | None = None
    tool: tuple[str, ...] = ()
    root: str = "."
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    approve: str = "ask"
    max_turns: int | None = None
    max_usd: str | None = None
    max_tokens_total: int | None = None
    timeout: float | None = None
    json: bool = False
    jsonl: bool = False
    out: str | None = None
    usage: bool = False
    hide_thinking: bool = False
    quiet: bool = False
    color: str = "auto"
    explicit: frozenset[str] = frozenset()
    """The names of the options that were typed."""


# --- checks -----------------------------------------------------------------------------------------------------------

CONFLICTS = (
    ("resume_last", "session"),
    ("resume_last", "which"),
    ("session", "which"),
    ("ephemeral", "resume_last"),
    ("ephemeral", "session"),
    ("ephemeral", "which"),
    ("ephemeral", "name"),
    ("ephemeral", "store"),
    ("json", "jsonl"),
    ("out", "jsonl"),
)
"""Options that contradict each other. `which` is the argument of `chat`."""
FIXED_AT_START = ("system", "effort", "option", "max_tokens", "allow_unverified")
"""Options that only a new session takes: it stores them."""
MUST_NOT_BE_EMPTY = ("session", "which", "name", "model", "fallback", "schema", "out", "root", "store")


def parse_run_options(values: dict[str, Any]) -> RunOptions:
    """Check the values of a command's parameters. Raise `click.UsageError` for options that contradict each other."""
    context = click.get_current_context()
    explicit = frozenset(name for name in values if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    labels = {param.name or "": _label(param) for param in context.command.params}
    for first, second in CONFLICTS:
        if {first, second} <= explicit and values[first] is not None and values[second] is not None:
            raise click.UsageError(f"use either {labels[first]} or {labels[second]}")
    reject_empty_values(values, explicit, labels)
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
    known = {field.name for field in fields(RunOptions)}
    return RunOptions(explicit=explicit, **{name: value for name, value in values.items() if name in known})


def _label(param: click.Parameter) -> str:
    if not isinstance(param, click.Option):
        return "SESSION"
    short = {"resume_last": "-c", "system": "-s", "option": "-o"}
    return short.get(param.name or "", param.opts[-1])


def reject_empty_values(values: dict[str, Any], explicit: frozenset[str], labels: dict[str, str]) -> None:
    """Reject empty option values.

    `--session "$UNSET"` would otherwise silently start a new session.
    """
    for name in MUST_NOT_BE_EMPTY:
        if name in explicit and values[name] == "":
            raise click.UsageError(f"{labels[name]} is empty")


# --- options ----------------------------------------------------------------------------------------------------------

_POSITIVE = click.IntRange(min=1)
store_option = click.option(
    "--store",
    metavar="PLACE",
    shell_complete=complete_file,
    help="Session database: file or postgresql:// URL.  [default: TENUTO_STORE, or a file in the data directory]",
)
color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="When to use color (auto: on a terminal, unless NO_COLOR is set).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
takeover_option = click.option("--takeover", is_flag=True, help="Take over a session in use; its process is stopped.")


def session_argument(name: str = "session", **settings: Any) -> Decorator:
    """Return the argument for one session, or for several with `nargs=-1`."""
    return click.argument(name, shell_complete=complete_session, **settings)


_SESSION = (
    click.option("-c", "--continue", "resume_last", is_flag=True, help="Continue the last session."),
    click.option(
        "--session",
        default="",
        metavar="SESSION",
        shell_complete=complete_session,
        help="Continue this session (ID, name, last, ~N).",
    ),
    click.option("-n", "--name", metavar="NAME", help="Session name."),
    click.option("--ephemeral", is_flag=True, help="Do not save the session."),
    takeover_option,
)
_FALLBACK = click.option(
    "--fallback",
    metavar="MODELS",
    shell_complete=complete_fallback,
    help="Models to try, in order, if the first fails (comma-separated).",
)


def _model_options(model_help: str, *, hidden: bool) -> tuple[Decorator, ...]:
    """Return `-m` and the options that a session stores; `hidden` for commands that only reject them."""
    return (
        click.option("-m", "--model", metavar="MODEL", shell_complete=complete_model, help=model_help),
        click.option("-s", "--system", metavar="TEXT", hidden=hidden, help="System prompt (@FILE reads a file)."),
        click.option("--effort", type=click.Choice(EFFORTS), hidden=hidden, help="Reasoning effort."),
        click.option(
            "-o",
            "--option",
            multiple=True,
            metavar="KEY=VALUE",
            hidden=hidden,
            help="Model parameter; repeatable: -o temperature=0.2 -o 'stop=[\"END\"]'.",
        ),
        click.option("--max-tokens", type=_POSITIVE, metavar="N", hidden=hidden, help="Maximum tokens per reply."),
        click.option(
            "--allow-unverified",
            is_flag=True,
            hidden=hidden,
            help="Allow a model that agents refuse. Stored with the session.",
        ),
        _FALLBACK,
    )


_INPUT = (
    click.option(
        "-a",
        "--attach",
        multiple=True,
        metavar="FILE",
        shell_complete=complete_file,
        help="Attach an image, audio file, document, URL, or - (stdin). Repeatable.",
    ),
    click.option(
        "--schema",
        metavar="FILE",
        shell_complete=complete_file,
        help="Require JSON matching a schema: file or MODULE:TYPE (exit 8 if it does not match).",
    ),
)
_OUTPUT = (
    click.option("--json", is_flag=True, help="Print one JSON document instead of the answer."),
    click.option("--jsonl", is_flag=True, help="Stream events as JSON lines, result last."),
    click.option("--out", metavar="FILE", shell_complete=complete_file, help="Write the answer to FILE atomically."),
)
_RUN = (
    click.option(
        "-T",
        "--tool",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_tool,
        help="Tool the model may call; repeatable: read_file, write_file, edit_file, list_files, search_files, shell, "
        "or MODULE:FUNCTION.",
    ),
    click.option(
        "--root",
        default=".",
        metavar="DIR",
        shell_complete=complete_directory,
        help="Working directory for tools.  [default: the current one]",
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="PATTERN",
        shell_complete=complete_tool,
        help="Run matching tool calls without asking. Repeatable. Example: 'shell(git *)'.",
    ),
    click.option(
        "--deny",
        multiple=True,
        metavar="PATTERN",
        shell_complete=complete_tool,
        help="Never run matching calls. Repeatable. Best effort for shell; not a sandbox.",
    ),
    click.option(
        "--approve",
        type=click.Choice(["ask", "auto", "never"]),
        default="ask",
        show_default=True,
        help="Other calls that need approval: ask (without a terminal: wait), auto (allow all), never (deny all).",
    ),
    click.option("--max-turns", type=_POSITIVE, metavar="N", help="Stop after N replies.  [default: 100]"),
    click.option("--max-usd", metavar="USD", help="Stop when this much is spent (checked after each reply)."),
    click.option(
        "--max-tokens-total",
        type=_POSITIVE,
        metavar="N",
        help="Stop after N tokens in total (checked after each reply).",
    ),
    click.option("--timeout", type=float, metavar="SECONDS", help="Stop after SECONDS."),
    store_option,
    click.option("--usage", is_flag=True, help="Print token usage and cost (default on a terminal)."),
    click.option("--hide-thinking", is_flag=True, help="Hide the model's thinking."),
    click.option("-q", "--quiet", is_flag=True, help="Print only the answer."),
    color_option,
)


def _apply(*options: Decorator) -> Decorator:
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


session_options = _apply(*_SESSION)
model_options = _apply(
    *_model_options("Model, as provider/model[:effort]. Switches a continued session.", hidden=False)
)
resume_options = _apply(*_model_options("Switch to this model first.", hidden=True), takeover_option)
input_options = _apply(*_INPUT)
output_options = _apply(*_OUTPUT)


def run_options(command: Callable[[RunOptions], Any]) -> Callable[..., Any]:
    """Add the options of a command that runs a session, and call it with `RunOptions`."""

    @functools.wraps(command)
    def call(**values: Any) -> Any:
        return command(parse_run_options(values))

    return _apply(*_RUN)(call)


# --- -o KEY=VALUE -----------------------------------------------------------------------------------------------------

OWN_OPTIONS = {"effort": "--effort", "max_tokens": "--max-tokens", "system": "-s", "tools": "-T", "model": "-m"}
"""Parameters that `-o` does not take, because they have their own option."""


def parse_parameters(options: Iterable[str]) -> dict[str, Any]:
    """Return model parameters from `KEY=VALUE` texts; the last one of a key wins.

    A value is read as JSON if that is valid and fits, else as text. Raise `click.UsageError` for an unknown key or a value
    of the wrong type.
    """
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
            import difflib

            near = difflib.get_close_matches(name, known, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
            raise click.UsageError(f"-o: unknown parameter {key!r}; {hint}")
        parameters[name] = _parameter_value(name, text, types[name])
    return parameters


def _parameter_value(name: str, text: str, type_: Any) -> Any:
    import msgspec

    from tenuto.core import jsonio

    readings: list[Any] = [text]
    if not jsonio.problem(text):
        readings.insert(0, jsonio.parse(text))
    problems: list[str] = []
    for reading in readings:
        try:
            return msgspec.convert(reading, type_)
        except msgspec.ValidationError as exc:
            problems.append(str(exc).replace("`", ""))
    raise click.UsageError(f"-o {name}={text[:80]}: {problems[0]}")


# --- help -------------------------------------------------------------------------------------------------------------

_SECTIONS = {
    "Session": ("resume_last", "session", "name", "ephemeral", "takeover", "store"),
    "Model": ("model", "system", "effort", "option", "max_tokens", "fallback", "allow_unverified"),
    "Input": ("attach", "schema"),
    "Tools": ("tool", "root", "allow", "deny", "approve"),
    "Limits": ("max_turns", "max_usd", "max_tokens_total", "timeout"),
    "Output": ("json", "jsonl", "out", "usage", "hide_thinking", "quiet", "color"),
}


class GroupedHelpCommand(click.Command):
    """A command whose help lists its options by subject."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            option.name or "": record
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx))
        }
        grouped = {name for names in _SECTIONS.values() for name in names}
        other = tuple(name for name in records if name not in grouped)
        for title, names in (*_SECTIONS.items(), ("Other", other)):
            rows = [records[name] for name in names if name in records]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
