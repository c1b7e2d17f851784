"""The official SDK as judge of lowered schemas."""

from __future__ import annotations

from google.genai import types
from hypothesis import given

from schema.test_openapi import NODES
from tenuto.schema.openapi import to_openapi


@given(NODES)
def test_any_schema_gives_one_that_the_sdk_takes(schema):
    """Whatever JSON Schema says, what is made of it is valid to the SDK's type."""
    types.Schema.model_validate(to_openapi(schema)[0])
