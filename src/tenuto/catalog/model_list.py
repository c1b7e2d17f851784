"""The list of all models of the catalog."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tenuto.catalog.models import model_rows, model_traits
from tenuto.catalog.providers import PROVIDERS


class ListedModel(NamedTuple):
    """A model of the catalog: its provider, its name there, and its retirement date (ISO) if known."""

    provider: str
    model: str
    retires: str = ""

    @property
    def id(self) -> str:
        """The name that `-m` takes."""
        return f"{self.provider}/{self.model}"


@cache
def list_models() -> tuple[ListedModel, ...]:
    """Return every model that the catalog lists, in its order, including retired ones."""
    found: list[ListedModel] = []
    for name, row in PROVIDERS.items():
        if name != row.name:  # an alias
            continue
        ids = list(row.plays) or [id for model in model_rows(name) for id in model.ids]
        if default := row.default_model:  # its spelling is the vendor's own
            ids = [default if id.lower() == default.lower() else id for id in ids]
            ids += [] if default in ids else [default]
        for id in ids:
            days = filter(None, (row.retired, model_traits(name, id).retires))
            found.append(ListedModel(name, id, min(days, default="")))
    return tuple(found)
