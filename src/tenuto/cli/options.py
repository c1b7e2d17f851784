"""The options that several verbs have, and what becomes of them.

`run`, `chat` and `resume` share them by groups. What a verb is called with comes to it as `Given`, made sense of once: what
cannot be meant together is refused, `-c` is a session like any other, and what is only configured does not concern a
session that goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar, cast

import click
from click.core import ParameterSource

from tenuto.cli.config_keys import EFFORTS

__all__ = [
    "AskingCommand",
    "Given",
    "asking_options",
    "color_option",
    "fixed_options",
    "input_options",
    "model_option",
    "model_options",
    "printing_options",
    "session_options",
    "store_option",
]

F = TypeVar("F", bound=Callable[..., Any])


class Given(TypedDict, total=False):
    """What was typed to `run`, `chat` or `resume`, with what is configured behind it: by the names of click's parameters."""

    session: str
    """Which one goes on; empty: one begins. `-c` stands here as `last`."""
    resume_last: bool
    name: str | None
    ephemeral: bool
    prompt: str | None
    attach: tuple[str, ...]
    model: str | None
    """Of a session that goes on: whom it is handed over to."""
    system: str | None
    effort: str | None
    max_tokens: int | None
    allow_unverified: bool
    option: tuple[str, ...]
    fallback: str | None
    schema: str | None
    tool: tuple[str, ...]
    root: str
    approve: str
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    max_turns: int | None
    max_usd: str | None
    max_tokens_total: int | None
    timeout: float | None
    store: str | None
    quiet: bool
    hide_thinking: bool
    json: bool
    jsonl: bool
    usage: bool
    out: str | None
    color: str
    take: bool
    typed: frozenset[str]
    """Which of these were typed: the others are configured, or stand there by default."""


# --- what cannot be meant ---------------------------------------------------------------------------------------------

_APART = (
    ("resume_last", "session", "-c goes on with the last session, --session with the one that it names"),
    ("ephemeral", "resume_last", "--ephemeral keeps nothing, and -c goes on with what is kept"),
    ("ephemeral", "session", "--ephemeral keeps nothing, and --session goes on with what is kept"),
    ("ephemeral", "name", "--ephemeral keeps nothing, so there is nothing to name"),
    ("ephemeral", "store", "--ephemeral keeps nothing, and --store says where it is kept"),
    ("json", "jsonl", "--json prints one document, --jsonl a line for each event and the document last"),
    ("out", "jsonl", "--out writes the answer once it is whole, --jsonl a line as it happens: use --jsonl > FILE"),
)
_FIXED = {
    "system": "-s",
    "effort": "--effort",
    "option": "-o",
    "max_tokens": "--max-tokens",
    "allow_unverified": "--allow-unverified",
}
"""What a session is begun with, and keeps."""
_NAMES = ("session", "which", "name", "model", "fallback", "schema", "out", "root", "store")
"""What names something."""


def _meant(given: dict[str, Any]) -> dict[str, Any]:
    """Make sense of what was typed. Raise `click.UsageError` for what cannot be meant."""
    context = click.get_current_context()
    typed = frozenset(name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    for one, other, why in _APART:
        if one in typed and other in typed:
            raise click.UsageError(f"{why}: give one of them")
    _refuse_empty(context)
    meant = {**given, "typed": typed}
    if meant.pop("resume_last", False):
        meant["session"] = "last"
    if not meant.get("session"):
        if "take" in typed:
            raise click.UsageError("--take is for a session that goes on: say which one, with -c or --session")
        return meant
    for name, flag in _FIXED.items():
        if name in typed:
            raise click.UsageError(
                f"{flag} cannot be changed: a session that goes on keeps what it was begun with; begin one with tenuto run"
            )
    beginning = ("ephemeral",) if "model" in typed else ("ephemeral", "model")
    return {name: value for name, value in meant.items() if name not in beginning}


def _refuse_empty(context: click.Context) -> None:
    """Refuse a name that is empty, such as that of a variable which is not set: it would mean another than was meant."""
    for given in context.command.params:
        name = given.name or ""
        source = context.get_parameter_source(name)
        if name in _NAMES and source is ParameterSource.COMMANDLINE and context.params.get(name) == "":
            label = given.opts[-1] if isinstance(given, click.Option) else "SESSION"
            raise click.UsageError(f"{label} is empty: say what it is to be, or leave it out")


# --- the options ------------------------------------------------------------------------------------------------------

Options = Sequence[Callable[[F], F]]


def _all(options: Options[F]) -> Callable[[F], F]:
    return lambda command: functools.reduce(lambda made, option: option(made), reversed(options), command)


_WHOLE = click.IntRange(min=1)
store_option = click.option(
    "--store",
    metavar="PLACE",
    help="Where sessions are kept: a file, or postgresql://...  [default: TENUTO_STORE, or a file in the data folder]",
)
color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Whether there is color; auto: on a terminal, unless NO_COLOR is set.",
)
_take_option = click.option("--take", is_flag=True, help="Take the session from a process that has it; that one stops.")
model_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    help="Whom to ask: provider/model, or provider/model:EFFORT. A session that goes on is handed over to it.",
)
_handover_option = click.option(
    "-m", "--model", metavar="MODEL", help="Hand the session over to this one first: provider/model."
)
_fallback_option = click.option(
    "--fallback",
    metavar="MODELS",
    help="Whom to go on with where the model does not answer: provider/model, several with commas between.",
)

_SESSION: Options[Any] = (
    click.option("-c", "--continue", "resume_last", is_flag=True, help="Go on with the last session."),
    click.option(
        "--session",
        default="",
        metavar="SESSION",
        help="Go on with this one: an id, how one begins, a name, last, or ~N for the N-th before the last.",
    ),
    click.option("-n", "--name", metavar="NAME", help="What the session is called."),
    click.option("--ephemeral", is_flag=True, help="Keep nothing: the session is gone when the command ends."),
    _take_option,
)


def _fixed(*, hidden: bool = False) -> Options[Any]:
    return (
        click.option(
            "-s",
            "--system",
            metavar="TEXT",
            hidden=hidden,
            help="What the model is told before anything else; @FILE reads it from a file.",
        ),
        click.option("--effort", type=click.Choice(EFFORTS), hidden=hidden, help="How much the model is to think."),
        click.option(
            "-o",
            "--option",
            multiple=True,
            metavar="KEY=VALUE",
            hidden=hidden,
            help="A parameter of the model, as often as you like: -o temperature=0.2 -o 'stop=[\"END\"]'.",
        ),
        click.option(
            "--max-tokens", type=_WHOLE, metavar="N", hidden=hidden, help="How long one reply may be, in tokens."
        ),
        click.option(
            "--allow-unverified",
            is_flag=True,
            hidden=hidden,
            help="Allow a model that agents refuse. Stored with the session.",
        ),
    )


_INPUT: Options[Any] = (
    click.option(
        "-a",
        "--attach",
        multiple=True,
        metavar="FILE",
        help="A picture, a sound or a document that goes along: a file, an address, or - for stdin. As often as you like.",
    ),
    click.option(
        "--schema",
        metavar="FILE",
        help="The answer is JSON of this schema: a file with a JSON Schema, or a type as MODULE:TYPE. One that does not "
        "fit ends with exit code 8.",
    ),
)
_PRINTING: Options[Any] = (
    click.option("--json", is_flag=True, help="One JSON document at the end, instead of the answer."),
    click.option("--jsonl", is_flag=True, help="A line of JSON for each thing that happens, and the document last."),
    click.option("--out", metavar="FILE", help="Write the answer to a file, whole or not at all."),
)
_ASKING: Options[Any] = (
    click.option(
        "-T",
        "--tool",
        multiple=True,
        metavar="NAME",
        help="A tool the model may call, as often as you like: read_file, write_file, edit_file, list_files, "
        "search_files, shell, or your own as MODULE:FUNCTION.",
    ),
    click.option(
        "--root", default=".", metavar="DIR", help="The folder that the tools work in.  [default: the current one]"
    ),
    click.option(
        "--allow",
        multiple=True,
        metavar="PATTERN",
        help="Calls that need nobody's word, as often as you like: a tool, or 'shell(git *)'.",
    ),
    click.option(
        "--deny",
        multiple=True,
        metavar="PATTERN",
        help="Calls that are never run, whatever else is allowed, as often as you like.",
    ),
    click.option(
        "--approve",
        type=click.Choice(["ask", "auto", "never"]),
        default="ask",
        show_default=True,
        help="What becomes of other calls that need somebody's word: ask on the terminal (without one the session "
        "waits), allow all, or deny all.",
    ),
    click.option("--max-turns", type=_WHOLE, metavar="N", help="Stop after so many replies.  [default: 100]"),
    click.option("--max-usd", metavar="USD", help="Stop when so much is spent."),
    click.option("--max-tokens-total", type=_WHOLE, metavar="N", help="Stop when so many tokens are used."),
    click.option("--timeout", type=float, metavar="SECONDS", help="Stop after so long."),
    store_option,
    click.option(
        "--usage", is_flag=True, help="Say what was used and what it cost; on a terminal that is said anyway."
    ),
    click.option("--hide-thinking", is_flag=True, help="Do not show what the model thinks."),
    click.option("-q", "--quiet", is_flag=True, help="The answer only."),
    color_option,
)


def session_options(command: F) -> F:
    """Give a command the options that say which session it is: a new one, or one that goes on."""
    return _all(cast("Options[F]", _SESSION))(command)


def model_options(command: F) -> F:
    """Give a command the options that say whom a session asks, and how."""
    return _all(cast("Options[F]", (model_option, *_fixed(), _fallback_option)))(command)


def fixed_options(command: F) -> F:
    """Give a command that only goes on with sessions its choice of a model, and words for what cannot be changed."""
    return _all(cast("Options[F]", (_handover_option, *_fixed(hidden=True), _fallback_option, _take_option)))(command)


def input_options(command: F) -> F:
    """Give a command the options for what goes along with a prompt, and what is to come back."""
    return _all(cast("Options[F]", _INPUT))(command)


def printing_options(command: F) -> F:
    """Give a command the options of one that prints an answer and ends."""
    return _all(cast("Options[F]", _PRINTING))(command)


def asking_options(command: F) -> F:
    """Give a command the options of whatever asks a model: tools, limits, and how much is told. It is called with `Given`."""

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        return command(**_meant(given))

    return _all(cast("Options[F]", _ASKING))(cast("F", called))


# --- the help ---------------------------------------------------------------------------------------------------------

_SECTIONS = {
    "Session": ("resume_last", "session", "name", "ephemeral", "take", "store"),
    "Model": ("model", "system", "effort", "option", "max_tokens", "fallback", "allow_unverified"),
    "Input": ("attach", "schema"),
    "Tools": ("tool", "root", "allow", "deny", "approve"),
    "Limits": ("max_turns", "max_usd", "max_tokens_total", "timeout"),
    "Output": ("json", "jsonl", "out", "usage", "hide_thinking", "quiet", "color"),
}


class AskingCommand(click.Command):
    """A command whose many options stand in its help by what they are about."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section; what has none stands at the end."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        lines = {option.name or "": option.get_help_record(ctx) for option in options}
        known = {name for names in _SECTIONS.values() for name in names}
        rest = tuple(name for name in lines if name not in known)
        for title, names in (*_SECTIONS.items(), ("Other", rest)):
            found = [line for name in names if (line := lines.get(name)) is not None]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
