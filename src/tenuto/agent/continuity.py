"""Decide whether an agent can use a model, before any request is sent.

An agent sends the turns of a model back to it. The specification names models that do not support that; they are refused
on the endpoints of their vendors. Every other model is accepted: a known one with its replay policy, an unknown one with
the policy that its reasoning is sent back as received.
"""

from __future__ import annotations

import logging

from tenuto import catalog
from tenuto.catalog import find_provider, is_known_provider, provider_for_dialect
from tenuto.core.provider import Target
from tenuto.errors import UnsupportedModel
from tenuto.wire.registry import codec_for

__all__ = ["admit", "refusal", "warn_unknown"]

_REMEDY = "; pass allow_unverified=True to use it anyway"
_warned: set[str] = set()

logger = logging.getLogger("tenuto")


def admit(named: str, target: Target, *, allow_unverified: bool, tools: bool) -> None:
    """Raise `UnsupportedModel`, with the reason, if an agent does not accept the model; warn once if it is unknown.

    `named` is the model as the user wrote it; `tools` tells whether the agent has tools.
    """
    reason = refusal(target)
    if reason and not allow_unverified:
        raise UnsupportedModel(named, f"{reason}{_REMEDY}")
    warn_unknown(named, target, tools=tools)


def refusal(target: Target) -> str:
    """Return why an agent refuses a model; empty if it accepts it."""
    traits, name = target.traits, target.provider.name
    if "text" not in traits.output_modalities:
        return f"it returns {' and '.join(traits.output_modalities)} only"
    if traits.continuity in catalog.UNSUPPORTED and name in catalog.model_owners(target.model):
        return traits.continuity.removeprefix("no: ")
    home = find_provider(name).dialect if is_known_provider(name) else target.provider.dialect
    if home != target.dialect and codec_for(home).encrypts_reasoning and traits.continuity == "yes":
        use = provider_for_dialect(name, home)
        return f"agents need the Responses API for {name} models{f': use {use}/{target.model}' if use else ''}"
    return ""


def warn_unknown(named: str, target: Target, *, tools: bool) -> None:
    """Log one WARNING for a model that the catalog does not know, or that takes no tools although the agent has some."""
    if named in _warned:
        return
    if not target.traits.continuity:
        _warned.add(named)
        logger.warning("%s is not in the catalog; its reasoning is sent back as received", named)
    elif tools and not target.traits.tools:
        _warned.add(named)
        logger.warning("%s takes no tools; they are not sent", named)
