"""Who embeds where nobody is named: the rows say it, and completion offers them."""

from __future__ import annotations

from tenuto.catalog import PROVIDERS, resolve
from tenuto.cli.completing import _embedders
from tenuto.cli.embedding.asking import defaults


def test_a_default_is_one_that_can_be_asked_and_is_offered():
    """Nobody is named who has no embeddings."""
    found = defaults()

    assert {"openai", "google"} <= set(found)
    assert [] == [name for name in found if not PROVIDERS[name].embeddings.path]
    assert [*found] == [resolve(model).provider.name for model in found.values()]
    assert {found["google"]} == {item.value for item in _embedders(None, "google/")}
