"""`tenuto models`: list models with limits and prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import click

from tenuto import catalog
from tenuto.cli.complete import complete_provider
from tenuto.cli.config import configured_providers
from tenuto.cli.errors import explain_error, plural
from tenuto.cli.keys_file import load_keys
from tenuto.cli.options import json_option
from tenuto.cli.session.models import ListedModel
from tenuto.cli.terminal.output import format_table, print_error, print_json, print_text
from tenuto.cli.terminal.text import one_line
from tenuto.core.provider import ModelInfo, ModelTraits

_EXAMPLES = """\b
Examples:
  tenuto models                          # the catalog
  tenuto models claude sonnet            # names with both words
  tenuto models --provider openai --all  # include retired models
  tenuto models --online --provider groq # the provider's own list
  tenuto models --json gpt-5 | jq -r '.[].id'
"""


@click.command("models", epilog=_EXAMPLES)
@click.argument("query", nargs=-1)
@click.option("-p", "--provider", metavar="NAME", shell_complete=complete_provider, help="Only this provider.")
@click.option("--online", is_flag=True, help="Fetch the list from the provider(s).")
@click.option("--all", "every", is_flag=True, help="Include retired models.")
@json_option
def command(query: tuple[str, ...], provider: str | None, online: bool, every: bool, as_json: bool) -> int:
    """List models whose names contain all words of QUERY: limits, efforts, USD per million tokens, retirement date.

    * default effort, + price rises with long prompts, - unknown. Dated IDs and other models that a provider serves work
    too. Offline unless --online. Exit 1 if nothing matches.
    """
    from datetime import UTC, datetime

    today = datetime.now(UTC).date()
    code = 0
    if online:
        found, code = _list_online(provider, today)
    else:
        found = _list_offline(provider, today)
    fitting = [facts for facts in found if facts.matches(query) and (every or not facts.is_retired)]
    _print_models(fitting, as_json=as_json)
    if fitting or code:
        return code
    _report_no_match(query, [facts for facts in found if facts.matches(query)])
    return 1


def _print_models(found: list[ModelDetails], *, as_json: bool) -> None:
    from tenuto.core import jsonio

    if as_json:
        print_json(jsonio.encode([facts.fields() for facts in found]))
    elif found:
        print_text(format_table([HEADS, *(facts.cells() for facts in found)]), escape=True)


def _report_no_match(query: tuple[str, ...], ended: list[ModelDetails]) -> None:
    """Say why there is nothing, and what there is instead."""
    from tenuto.cli.session.models import suggest_models

    if ended:
        click.echo(f"{plural(len(ended), 'match')}, all retired (use --all)", err=True)
        return
    near = suggest_models("-".join(query)) if query else []
    meant = f"did you mean {' or '.join(near)}?" if near else "list models with tenuto models; --online asks a provider"
    click.echo(one_line(f"no matching model: {meant}", 400), err=True)


def _list_offline(provider: str | None, today: date) -> list[ModelDetails]:
    from tenuto.catalog import find_provider as row_of
    from tenuto.cli.session.models import list_models

    name = row_of(provider).name if provider else ""
    return [model_details(known, today) for known in list_models() if not name or known.provider == name]


def _list_online(provider: str | None, today: date) -> tuple[list[ModelDetails], int]:
    """Ask the providers one after the other; return the models and the exit code of the first failure."""
    import asyncio

    from tenuto.cli.keys_file import providers_with_key

    asked = (provider,) if provider else tuple(providers_with_key())
    if not asked:
        raise click.UsageError("no API key is set: name a provider with --provider, or see tenuto providers")
    return asyncio.run(_query_providers(asked, today))


async def _query_providers(names: tuple[str, ...], today: date) -> tuple[list[ModelDetails], int]:
    from tenuto.client.client import AsyncClient
    from tenuto.errors import TenutoError

    found: list[ModelDetails] = []
    code = 0
    async with AsyncClient(keys=load_keys(), providers=configured_providers(), middleware=()) as client:  # no retries
        for name in names:
            try:
                found += online_details(name, await client.models(name), today)
            except TenutoError as exc:
                told = explain_error(exc)
                print_error(told, exc)
                code = code or int(told.code)
    return found, code


HEADS = ("MODEL", "CONTEXT", "OUTPUT", "EFFORTS, THINKING", "IN $/M", "OUT $/M", "RETIRES")


class ModelDetails(NamedTuple):
    """A model, with what the tables or its provider's own list say of it on a day."""

    id: str
    name: str
    traits: ModelTraits
    price: catalog.Price | None
    retires: str
    on: date

    @property
    def is_retired(self) -> bool:
        """Whether it is not served any more."""
        return bool(self.retires) and self.retires <= self.on.isoformat()

    def matches(self, words: Iterable[str]) -> bool:
        """Tell whether all the words occur in how it is called."""
        called = f"{self.id} {self.name}".lower()
        return all(word.lower() in called for word in words)

    def cells(self) -> tuple[str, ...]:
        """Return a line of the table."""
        cost = self.price or catalog.Price()
        more = "+" if cost.tiered else ""
        return (
            one_line(self.id, 200),
            _format_tokens(self.traits.context_window),
            _format_tokens(self.traits.max_output),
            _format_thinking(self.traits),
            _format_price(cost.input, more),
            _format_price(cost.output, more),
            f"{self.retires} (retired)" if self.is_retired else self.retires,
        )

    def fields(self) -> dict[str, Any]:
        """Return everything, to be written as JSON."""
        known, cost = self.traits, self.price
        provider, _, model = self.id.partition("/")
        return {
            "id": self.id,
            "provider": provider,
            "model": model,
            "name": self.name,
            "dialect": known.dialect,
            "context_window": known.context_window,
            "max_output": known.max_output,
            "thinking": known.thinking,
            "thinking_default": known.thinking_default or None,
            "efforts": known.efforts,
            "effort_default": known.effort_default or None,
            "tools": known.tools,
            "images": known.images_in,
            "audio": known.audio_in,
            "documents": known.documents_in,
            "price": None if cost is None else _price_fields(cost),
            "retires": self.retires or None,
            "ended": self.is_retired,
            "known": known.known,
            "confidence": known.confidence or None,
            "as_of": known.as_of or None,
            "notes": known.notes or None,
        }


def model_details(known: ListedModel, on: date) -> ModelDetails:
    """Say what the tables know of a model."""
    told = catalog.model_traits(known.provider, known.model)
    return ModelDetails(
        known.id, told.family, told, catalog.price_on(known.provider, known.model, on), known.retires, on
    )


def online_details(provider: str, listed: Iterable[ModelInfo], on: date) -> Iterator[ModelDetails]:
    """Say what a provider's own list says, and what the tables know besides. The list is right where they differ."""
    import msgspec

    for info in listed:
        told = catalog.model_traits(provider, info.id)
        named = {"context_window": info.context_window, "max_output": info.max_output}
        told = msgspec.structs.replace(told, **{field: value for field, value in named.items() if value})
        price = catalog.price_on(provider, info.id, on)
        yield ModelDetails(f"{provider}/{info.id}", info.name or told.family, told, price, told.retires, on)


def _format_tokens(count: int | None) -> str:
    if count is None:
        return "-"
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1000:.3g}K"


def _format_thinking(told: ModelTraits) -> str:
    """The efforts, with a star at what is assumed; the modes, where there are no efforts."""
    if told.efforts:
        return " ".join(f"{word}*" if word == told.effort_default else word for word in told.efforts)
    return " ".join(told.thinking).replace("none", "-") or "-"


def _format_price(price: Decimal | None, more: str) -> str:
    return "-" if price is None else f"{price:f}{more}"


def _price_fields(cost: catalog.Price) -> dict[str, Any]:
    named = {name: getattr(cost, name) for name in ("input", "output", "cache_read", "cache_write")}
    told = {name: None if value is None else float(value) for name, value in named.items()}
    return {**told, "tiered": cost.tiered}
