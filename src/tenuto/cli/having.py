"""The providers that can be asked from here: the rows, the servers of one's own, and for which of them there is a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tenuto.catalog import PROVIDERS, find_provider, is_known_provider, provider_or_default
from tenuto.cli.configuring import own_providers
from tenuto.cli.keyring import key_source, keys_path, variables_of
from tenuto.core.provider import Provider

__all__ = ["Having", "all_providers", "with_key"]


class Having(NamedTuple):
    """A provider, and whether it can be asked. A key is never in here.

    `key` is `set` in the variable that `where` names, `kept` in the file of that name, `missing`, or `not needed`;
    `variables` would hold one. `own` ones are in the configuration.
    """

    name: str
    row: Provider
    address: str
    key: Literal["set", "kept", "missing", "not needed"]
    where: str
    variables: tuple[str, ...]
    own: bool

    @property
    def default_model(self) -> str:
        """What is asked if no model is named; empty if there is none."""
        return f"{self.name}/{self.row.default_model}" if self.row.default_model else ""


def all_providers() -> Iterator[Having]:
    """Yield the servers of one's own, then the rows of the table. Raise `click.UsageError` if what is configured cannot be
    used, or the file with the keys.
    """
    own = own_providers()
    for name, config in own.items():
        row = (
            find_provider(name)
            if is_known_provider(name)
            else provider_or_default(name, config.get("dialect") or "openai-chat")
        )
        needed = row.auth != "none" and ("api_key" in config or is_known_provider(name))
        yield _having(name, row, config.get("base_url") or row.base_url, own=True, needed=needed)
    for name, row in PROVIDERS.items():
        if name == row.name and name not in own:  # others are another word for a row
            yield _having(name, row, row.base_url, own=False, needed=row.auth != "none")


def with_key() -> Iterator[str]:
    """Yield the names of those for which there is a key, and of the servers of one's own that need none."""
    for having in all_providers():
        if having.key in ("set", "kept") or (having.own and having.key == "not needed"):
            yield having.name


def _having(name: str, row: Provider, address: str, *, own: bool, needed: bool) -> Having:
    where = key_source(name)
    key: Literal["set", "kept", "missing", "not needed"] = "missing" if needed else "not needed"
    if where:
        key = "kept" if where == keys_path().name else "set"
    return Having(name, row, address, key, where, variables_of(name), own)
