"""What is said of a model in a list: what it takes, what it costs, when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from tenuto import catalog
from tenuto.cli.catalogue import Known
from tenuto.cli.escaping import one_line
from tenuto.core.provider import ModelInfo, ModelTraits

__all__ = ["HEADS", "Facts", "facts_of", "listed_facts"]

HEADS = ("MODEL", "CONTEXT", "OUTPUT", "EFFORTS, THINKING", "IN $/M", "OUT $/M", "ENDS")


class Facts(NamedTuple):
    """A model, with what the tables or its provider's own list say of it on a day."""

    id: str
    name: str
    traits: ModelTraits
    price: catalog.Price | None
    retires: str
    on: date

    @property
    def ended(self) -> bool:
        """Whether it is not served any more."""
        return bool(self.retires) and self.retires <= self.on.isoformat()

    def fits(self, words: Iterable[str]) -> bool:
        """Tell whether all the words occur in how it is called."""
        called = f"{self.id} {self.name}".lower()
        return all(word.lower() in called for word in words)

    def cells(self) -> tuple[str, ...]:
        """Return a line of the table."""
        cost = self.price or catalog.Price()
        more = "+" if cost.tiered else ""
        return (
            one_line(self.id, 200),
            _tokens(self.traits.context_window),
            _tokens(self.traits.max_output),
            _thinking(self.traits),
            _dollars(cost.input, more),
            _dollars(cost.output, more),
            f"{self.retires} (ended)" if self.ended else self.retires,
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
            "price": None if cost is None else _prices(cost),
            "retires": self.retires or None,
            "ended": self.ended,
            "known": known.known,
            "confidence": known.confidence or None,
            "as_of": known.as_of or None,
            "notes": known.notes or None,
        }


def facts_of(known: Known, on: date) -> Facts:
    """Say what the tables know of a model."""
    told = catalog.model_traits(known.provider, known.model)
    return Facts(known.id, told.family, told, catalog.price_on(known.provider, known.model, on), known.retires, on)


def listed_facts(provider: str, listed: Iterable[ModelInfo], on: date) -> Iterator[Facts]:
    """Say what a provider's own list says, and what the tables know besides. The list is right where they differ."""
    import msgspec

    for info in listed:
        told = catalog.model_traits(provider, info.id)
        named = {"context_window": info.context_window, "max_output": info.max_output}
        told = msgspec.structs.replace(told, **{field: value for field, value in named.items() if value})
        price = catalog.price_on(provider, info.id, on)
        yield Facts(f"{provider}/{info.id}", info.name or told.family, told, price, told.retires, on)


def _tokens(count: int | None) -> str:
    if count is None:
        return "-"
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1000:.3g}K"


def _thinking(told: ModelTraits) -> str:
    """The efforts, with a star at what is assumed; the modes, where there are no efforts."""
    if told.efforts:
        return " ".join(f"{word}*" if word == told.effort_default else word for word in told.efforts)
    return " ".join(told.thinking).replace("none", "-") or "-"


def _dollars(price: Decimal | None, more: str) -> str:
    return "-" if price is None else f"{price:f}{more}"


def _prices(cost: catalog.Price) -> dict[str, Any]:
    named = {name: getattr(cost, name) for name in ("input", "output", "cache_read", "cache_write")}
    told = {name: None if value is None else float(value) for name, value in named.items()}
    return {**told, "tiered": cost.tiered}
