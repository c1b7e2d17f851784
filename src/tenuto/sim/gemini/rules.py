"""The rules of Gemini, in the order in which they are tried; and those that no request can break here."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.sim.gemini import shape_rules, signature_rules, turn_rules
from tenuto.sim.gemini.opening import Opened, size
from tenuto.sim.judging import Broken, Checks

__all__ = ["CHECKS", "UNCHECKED"]

CHECKS = Checks({**shape_rules.CHECKS, **turn_rules.CHECKS, **signature_rules.CHECKS})
UNCHECKED = {
    "GEM-PARAM-12": "every key is taken: each is an account of its own",
    "GEM-RESP-01": "no fault of a request: a scripted `refuse` is answered in this form",
    "GEM-INT-01": "the Interactions API is not played",
}


@CHECKS.holds("GEM-PARAM-10")
def _window(opened: Opened) -> Iterator[Broken | None]:
    asked, limit = size(opened), opened.facts.window or opened.request.style.window
    yield Broken("GEM-PARAM-10", {"n": asked, "max": limit}) if asked > limit else None
