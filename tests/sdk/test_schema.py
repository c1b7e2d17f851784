"""The official SDK accepts the converted schemas."""

from __future__ import annotations

from google.genai import types
from hypothesis import given

from schema.test_openapi import NODES
from tenuto.schema.openapi import to_openapi


@given(NODES)
def test_any_converted_schema_is_valid_for_the_sdk(schema):
    types.Schema.model_validate(to_openapi(schema)[0])
