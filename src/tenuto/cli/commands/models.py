"""`tenuto models`: list models with limits and prices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import click
import msgspec

from tenuto import catalog
from tenuto.catalog.model_list import list_models
from tenuto.cli.errors import explain_error, plural
from tenuto.cli.keys_file import canonical_provider, fetch_models, providers_with_key
from tenuto.cli.options import flag, json_option, option
from tenuto.cli.session.models import suggest_models
from tenuto.cli.terminal.output import print_error, print_table
from tenuto.cli.terminal.text import one_line
from tenuto.core.provider import ModelInfo, ModelTraits
from tenuto.errors import TenutoError

_EXAMPLES = """\b
Examples:
  tenuto models claude sonnet            # names with both words
  tenuto models --online --provider groq # the provider's own list
"""


@click.command("models", epilog=_EXAMPLES)
@click.argument("query", nargs=-1)
@option("-p", "--provider", metavar="PROVIDER", help="Only this provider.")
@flag("--online", help="Fetch the list from the provider(s).")
@flag("--all", "every", help="Include retired models.")
@json_option
def command(query: tuple[str, ...], provider: str | None, online: bool, every: bool, as_json: bool) -> int:
    """List models whose names contain all words of QUERY: limits, efforts, USD per million tokens, retirement date.

    * default effort, + price rises with long prompts, - unknown. Dated IDs and other models that a provider serves work
    too. Offline unless --online. Exit 1 if nothing matches.
    """
    today = datetime.now(UTC).date()
    found: list[ModelDetails] = []
    code = 0  # of the first failure
    if online:
        names = (provider,) if provider else tuple(providers_with_key())
        if not names:
            raise click.UsageError("no API key is set: name a provider with --provider, or see tenuto providers")
        for name, reply in fetch_models(names).items():
            if isinstance(reply, TenutoError):
                print_error(explanation := explain_error(reply), reply)
                code = code or int(explanation.code)
            else:
                found += [model_details(name, info.id, today, info=info) for info in reply]
    else:
        only = canonical_provider(provider) if provider else ""
        listed = [one for one in list_models() if only in ("", one.provider)]
        found = [model_details(one.provider, one.model, today, retires=one.retires) for one in listed]
    matches = [model for model in found if model.matches(query)]
    shown = [model for model in matches if every or not model.is_retired]
    rows, fields = [model.cells() for model in shown], [model.fields() for model in shown]
    print_table(_HEADS, rows, fields, as_json=as_json, drop=("EFFORTS, THINKING", "OUTPUT"))
    if shown or code:
        return code
    near = suggest_models("-".join(query)) if query else []
    hint = f"did you mean {' or '.join(near)}?" if near else "list models with tenuto models; --online asks a provider"
    if not found:
        hint = f"the catalog has none of {provider}; use --online"
    elif matches:
        hint = f"{plural(len(matches), 'match')}, all retired (use --all)"
    click.echo(one_line(f"no matching model: {hint}", 400), err=True)
    return 1


_HEADS = ("MODEL", "CONTEXT", "OUTPUT", "EFFORTS, THINKING", "IN $/M", "OUT $/M", "RETIRES")


class ModelDetails(NamedTuple):
    id: str
    name: str
    traits: ModelTraits
    price: catalog.Price | None
    retires: str
    on: date

    @property
    def is_retired(self) -> bool:
        return bool(self.retires) and self.retires <= self.on.isoformat()

    def matches(self, words: Iterable[str]) -> bool:
        names = f"{self.id} {self.name}".lower()
        return all(word.lower() in names for word in words)

    def cells(self) -> tuple[str, ...]:
        traits, price = self.traits, self.price or catalog.Price()
        efforts = [f"{effort}*" if effort == traits.effort_default else effort for effort in traits.efforts or ()]
        return (
            one_line(self.id, 200),
            _format_tokens(traits.context_window),
            _format_tokens(traits.max_output),
            " ".join(efforts) or " ".join(traits.thinking).replace("none", "-") or "-",
            *("-" if cost is None else f"{cost:f}{'+' * price.tiered}" for cost in (price.input, price.output)),
            f"{self.retires} (retired)" if self.is_retired else self.retires,
        )

    def fields(self) -> dict[str, Any]:
        traits, price = self.traits, self.price
        provider, _, model = self.id.partition("/")
        costs = {name: getattr(price, name, None) for name in ("input", "output", "cache_read", "cache_write")}
        always = ("dialect", "context_window", "max_output", "thinking", "efforts", "tools", "known")
        optional = ("thinking_default", "effort_default", "confidence", "as_of", "notes")
        return {
            "id": self.id,
            "provider": provider,
            "model": model,
            "name": self.name,
            **{name: getattr(traits, name) for name in always},
            **{name: getattr(traits, name) or None for name in optional},
            "images": traits.images_in,
            "audio": traits.audio_in,
            "documents": traits.documents_in,
            "price": price
            and {name: cost if cost is None else float(cost) for name, cost in costs.items()}
            | {"tiered": price.tiered},
            "retires": self.retires or None,
            "ended": self.is_retired,
        }


def model_details(
    provider: str, model: str, on: date, *, retires: str | None = None, info: ModelInfo | None = None
) -> ModelDetails:
    """Return what the catalog knows about a model. The provider's own list (`info`) overrides it."""
    traits = catalog.model_traits(provider, model)
    if info is not None:
        limits = {"context_window": info.context_window, "max_output": info.max_output}
        traits = msgspec.structs.replace(traits, **{name: value for name, value in limits.items() if value})
    name = (info and info.name) or traits.family
    price = catalog.price_on(provider, model, on)
    return ModelDetails(f"{provider}/{model}", name, traits, price, traits.retires if retires is None else retires, on)


def _format_tokens(count: int | None) -> str:
    if count is None:
        return "-"
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1000:.3g}K"
