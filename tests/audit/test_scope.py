"""What is asked of an origin is asked once of those that are alike."""

from __future__ import annotations

from tenuto.audit.scope import SCOPE
from tenuto.core.messages import Origin


def test_origins_are_alike_if_all_is_the_same_but_what_their_tokens_are_bound_to():
    """A new field of an origin is to be one of these, or nothing that is asked may depend on it."""
    unknown = "unknown_fields"  # what a later version wrote: nobody here can ask for it
    assert {*SCOPE, "prefix", unknown} == {*Origin.__struct_fields__}
