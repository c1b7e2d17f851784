"""Providers and models as data, and the way from `provider/model` to a `Target`."""

from tenuto.catalog.model_rows import UNSUPPORTED, Price
from tenuto.catalog.models import (
    model_hosts,
    model_owners,
    model_traits,
    price_on,
    traits_for_dialect,
)
from tenuto.catalog.providers import (
    NO_PROVIDERS,
    PROVIDERS,
    add_provider,
    base_url,
    build_target,
    find_provider,
    fingerprint,
    is_known_provider,
    provider_for_dialect,
    provider_or_default,
    qualify_model,
    resolve,
)

__all__ = [
    "NO_PROVIDERS",
    "PROVIDERS",
    "UNSUPPORTED",
    "Price",
    "add_provider",
    "base_url",
    "build_target",
    "find_provider",
    "fingerprint",
    "is_known_provider",
    "model_hosts",
    "model_owners",
    "model_traits",
    "price_on",
    "provider_for_dialect",
    "provider_or_default",
    "qualify_model",
    "resolve",
    "traits_for_dialect",
]
