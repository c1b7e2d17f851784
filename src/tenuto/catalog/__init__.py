"""Providers and models as data, and the way from `provider/model` to a `Target`."""

from tenuto.catalog.model_rows import UNSUPPORTED as UNSUPPORTED
from tenuto.catalog.model_rows import Price as Price
from tenuto.catalog.models import model_hosts as model_hosts
from tenuto.catalog.models import model_owners as model_owners
from tenuto.catalog.models import model_traits as model_traits
from tenuto.catalog.models import price_on as price_on
from tenuto.catalog.models import traits_for_dialect as traits_for_dialect
from tenuto.catalog.providers import PROVIDERS as PROVIDERS
from tenuto.catalog.providers import add_provider as add_provider
from tenuto.catalog.providers import base_url as base_url
from tenuto.catalog.providers import build_target as build_target
from tenuto.catalog.providers import find_provider as find_provider
from tenuto.catalog.providers import is_known_provider as is_known_provider
from tenuto.catalog.providers import provider_for_dialect as provider_for_dialect
from tenuto.catalog.providers import provider_or_default as provider_or_default
from tenuto.catalog.providers import qualify_model as qualify_model
from tenuto.catalog.providers import resolve as resolve
