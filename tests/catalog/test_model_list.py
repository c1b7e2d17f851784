"""The list of all models."""

from __future__ import annotations

from tenuto.catalog import PROVIDERS, resolve
from tenuto.catalog.model_list import list_models


def test_each_listed_model_resolves_to_itself():
    for listed in list_models():
        target = resolve(listed.id)
        assert (target.provider.name, target.model) == (listed.provider, listed.model)


def test_list_has_each_model_once_and_each_default():
    ids = [listed.id for listed in list_models()]

    assert len(ids) == len(set(ids))
    assert {f"{row.name}/{row.default_model}" for row in PROVIDERS.values() if row.default_model} <= set(ids)


def test_retirement_dates_are_listed():
    retires = {listed.id: listed.retires for listed in list_models()}

    assert retires["anthropic/claude-sonnet-5-5"] == ""
    assert all(len(day) == len("2026-11-19") for day in retires.values() if day)
    assert any(retires.values())
