"""Usage objects: a count that cannot be read is unknown, and the others are read."""

from __future__ import annotations

import pytest
from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.messages import Usage
from tenuto.wire import anthropic, chat, gemini, responses

OBJECTS = [
    (anthropic, '{"input_tokens":N,"output_tokens":7,"output_tokens_details":{"thinking_tokens":2,"other":N}}'),
    (chat, '{"prompt_tokens":N,"completion_tokens":7,"completion_tokens_details":{"reasoning_tokens":2,"other":N}}'),
    (responses, '{"input_tokens":N,"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2,"other":N}}'),
    (gemini, '{"promptTokenCount":N,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cacheTokensDetails":[N]}'),
]


@pytest.mark.parametrize("odd", ["1e999", "-1e999", '"many"', "-1", "1.5", "true", "null", "{}", '[1e999,{"a":1e999}]'])
@pytest.mark.parametrize("dialect, text", OBJECTS, ids=[dialect.__name__ for dialect, _ in OBJECTS])
def test_count_that_cannot_be_read_leaves_the_others(dialect, text, odd):
    raw = Raw(text.replace("N", odd).encode())
    usage, losses = dialect.protocol.USAGE_TABLE.read(jsonio.members(raw) if dialect is anthropic else raw)

    assert usage == Usage(output_tokens=5, reasoning_tokens=2)
    assert losses == []
