"""JSON Schema: from Python types, validation, the strict subset, the OpenAPI form."""
