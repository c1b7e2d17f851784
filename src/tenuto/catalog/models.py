"""Look up a model: what it accepts, what it costs and who serves it.

A model without a row has the traits `ModelTraits()`: nothing is known, so nothing is removed from its requests. A host
of other vendors' models uses the vendor's row and replaces some of its fields.
"""

import importlib
from datetime import date
from decimal import Decimal
from functools import lru_cache

from msgspec.structs import replace

from tenuto.catalog.model_rows import ANY_HOST, AS_OF, ModelRow, Price, Rows
from tenuto.catalog.provider_rows import ROWS
from tenuto.core.provider import Dialect, ModelTraits

_MAKERS = frozenset(row.name for row in ROWS if not row.hosts_others)
_FREE = frozenset(row.name for row in ROWS if row.auth == "none")  # local servers: without a key there is no bill
_FREE_PRICE = Price(input=Decimal(0), output=Decimal(0), source="doc", as_of=AS_OF, notes="runs on your machine")
_OWN_MODULE = ("anthropic", "openai", "google", "sim")
"""Providers whose rows are a module of their own, so that a request loads no other rows."""
_THINKING_MODES: dict[Dialect, set[str]] = {"openai-chat": {"effort", "toggle"}}
"""The thinking modes of a dialect that has only some of them."""


def model_traits(provider: str, model: str) -> ModelTraits:
    """Return what `model` accepts at `provider`, the name of a row; `ModelTraits()` if no row describes it."""
    match = _find(provider, model)
    return match[1] if match else ModelTraits()


def traits_for_dialect(traits: ModelTraits, dialect: Dialect) -> ModelTraits:
    """Return the traits in a dialect: a thinking mode that it does not have becomes an effort, or nothing."""
    if dialect not in _THINKING_MODES or _THINKING_MODES[dialect] & set(traits.thinking):
        return traits
    if traits.efforts:
        modes = ("effort", "always") if traits.thinking_default == "always" else ("effort",)
        return replace(traits, thinking=modes)
    return replace(traits, thinking=(), efforts=None) if "budget" in traits.thinking else traits


@lru_cache(maxsize=2048)
def price_on(provider: str, model: str, day: date) -> Price | None:
    """Return what `model` costs at `provider` on a day; None if unknown."""
    match = _find(provider, model)
    prices = [price for price in (match[0].prices if match else ()) if price.since <= day.isoformat()[:10]]
    if prices:
        return prices[-1]
    return _FREE_PRICE if provider in _FREE else None


def model_owners(model: str) -> tuple[str, ...]:
    """Return the vendors whose own API serves a model with this bare id."""
    names = (name for module in ("anthropic", "openai", "google", "vendors") for name in _load(module))
    return tuple(name for name in names if (traits := model_traits(name, model)).known and traits.served)


def model_hosts(model: str) -> tuple[str, ...]:
    """Return the hosts of other vendors' models that have a row of their own for this bare id."""
    hosts = {name: rows for name, rows in _load("hosts").items() if name != ANY_HOST}
    return tuple(name for name in hosts if any(row.match(model) and not row.vendor for row in hosts[name]))


def model_rows(provider: str) -> tuple[ModelRow, ...]:
    """Return the rows of a provider, in the order in which they are tried."""
    module = provider if provider in _OWN_MODULE else "vendors" if provider in _MAKERS else "hosts"
    return _load(module).get(provider, ())


def _load(module: str) -> Rows:
    rows: Rows = importlib.import_module(f"tenuto.catalog.model_rows.{module}").ROWS
    return rows


@lru_cache(maxsize=2048)
def _find(provider: str, model: str) -> tuple[ModelRow, ModelTraits] | None:
    rows = model_rows(provider)
    if provider not in _MAKERS:
        rows += model_rows(ANY_HOST)
    for row in rows:
        match = row.match(model)
        if match is None:
            continue
        if not row.vendor:
            return row, row.traits
        # Hosts write `4.6` where some vendors write `4-6`.
        for id in (match[1], match[1].replace(".", "-")):
            traits = model_traits(row.vendor, id)
            if traits.known:
                return row, _merge_traits(traits, row, provider)
    return None


def _merge_traits(traits: ModelTraits, row: ModelRow, provider: str) -> ModelTraits:
    """Replace fields of a vendor's traits by those of a host's row."""
    fields = dict(row.overrides)
    if traits.thinking_default == "always" and fields.get("efforts"):
        fields["efforts"] = tuple(effort for effort in fields["efforts"] if effort != "none")
        fields["thinking"] = ("effort", "always")
    if row.vendor != provider:
        fields.setdefault("retires", "")  # each platform retires models on its own days
        fields.setdefault("served", True)
    return replace(traits, **fields)
