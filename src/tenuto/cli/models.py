"""`tenuto models`: what there is to ask, what it takes and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from datetime import date

    from tenuto.cli.model_facts import Facts

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  tenuto models                          # all that is known here
  tenuto models claude sonnet            # those with both words in their name
  tenuto models --provider openai --all  # with those that have ended
  tenuto models --online --provider groq # what Groq itself lists now
  tenuto models --json gpt-5 | jq -r '.[].id'
"""


@click.command("models", epilog=_EXAMPLES)
@click.argument("query", nargs=-1)
@click.option("-p", "--provider", metavar="NAME", help="Those of one provider only.")
@click.option("--online", is_flag=True, help="Ask the provider for its list: the one that is named, or all with a key.")
@click.option("--all", "every", is_flag=True, help="Also those that have ended.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, with all that is known.")
def command(query: tuple[str, ...], provider: str | None, online: bool, every: bool, as_json: bool) -> int:
    """List the models that have all words of QUERY in their names: how much they read and write, how they can be made to
    think, what a million tokens costs in USD today, and the day on which they end.

    A star stands at the effort that a model assumes, a plus at a price that rises with long prompts, a dash at what is not
    known. Ids with a date behind are not listed, and can be used all the same; so can any other that a provider serves.
    Nobody is asked, unless --online says so.

    The exit code is 1 if there is none.
    """
    from datetime import UTC, datetime

    today = datetime.now(UTC).date()
    code = 0
    if online:
        found, code = _online(provider, today)
    else:
        found = _known(provider, today)
    fitting = [facts for facts in found if facts.fits(query) and (every or not facts.ended)]
    _print(fitting, as_json=as_json)
    if fitting or code:
        return code
    _missed(query, [facts for facts in found if facts.fits(query)])
    return 1


def _print(found: list[Facts], *, as_json: bool) -> None:
    from tenuto.cli.columns import columns
    from tenuto.cli.model_facts import HEADS
    from tenuto.cli.screen import write_document, write_text
    from tenuto.core import jsonio

    if as_json:
        write_document(jsonio.encode([facts.fields() for facts in found]))
    elif found:
        write_text(columns([HEADS, *(facts.cells() for facts in found)]), escape=True)


def _missed(query: tuple[str, ...], ended: list[Facts]) -> None:
    """Say why there is nothing, and what there is instead."""
    from tenuto.cli.catalogue import near_models
    from tenuto.cli.escaping import one_line

    if ended:
        click.echo(f"{len(ended)} of them, and all have ended: --all lists them", err=True)
        return
    near = near_models("-".join(query)) if query else []
    meant = (
        f"did you mean {' or '.join(near)}?" if near else "tenuto models lists what is known; --online asks a provider"
    )
    click.echo(one_line(f"no model is called like this: {meant}", 400), err=True)


def _known(provider: str | None, today: date) -> list[Facts]:
    from tenuto.catalog import find_provider as row_of
    from tenuto.cli.catalogue import known_models
    from tenuto.cli.model_facts import facts_of

    name = row_of(provider).name if provider else ""
    return [facts_of(known, today) for known in known_models() if not name or known.provider == name]


def _online(provider: str | None, today: date) -> tuple[list[Facts], int]:
    """Ask those that are meant, one after the other; who does not answer is told, and the first to fail gives the code."""
    import asyncio

    from tenuto.cli.having import with_key

    asked = (provider,) if provider else tuple(with_key())
    if not asked:
        raise click.UsageError(
            "there is no key here for anybody: name whom to ask with --provider, or see tenuto providers"
        )
    return asyncio.run(_asked(asked, today))


async def _asked(names: tuple[str, ...], today: date) -> tuple[list[Facts], int]:
    from tenuto.cli.configuring import own_providers
    from tenuto.cli.exits import explained
    from tenuto.cli.keyring import kept_keys
    from tenuto.cli.model_facts import listed_facts
    from tenuto.cli.screen import complain
    from tenuto.client.client import AsyncClient
    from tenuto.errors import TenutoError

    found: list[Facts] = []
    code = 0
    async with AsyncClient(keys=kept_keys(), providers=own_providers(), middleware=()) as client:  # nobody asks again
        for name in names:
            try:
                found += listed_facts(name, await client.models(name), today)
            except TenutoError as exc:
                told = explained(exc)
                complain(told, exc)
                code = code or int(told.code)
    return found, code
