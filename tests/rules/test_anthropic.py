"""Malformed bodies of the Messages dialect are findings."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.catalog.providers import PROVIDERS
from tenuto.rules import RequestContext, findings, open_body


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def body_of(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages) or [user("x")], **fields}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"messages": [user("x")], "max_tokens": 9}, "/model"),
        ({"model": "m", "max_tokens": 9}, "/messages"),
        (body_of("x"), "/messages/0"),
        (body_of({"role": "tool", "content": "x"}), "/messages/0/role"),
        (body_of({"role": "user"}), "/messages/0/content"),
        (body_of({"role": "user", "content": 1}), "/messages/0/content"),
        (body_of(user(1)), "/messages/0/content/0"),
        (body_of(user({"text": "x"})), "/messages/0/content/0/type"),
        (body_of(user({"type": "text"})), "/messages/0/content/0/text"),
        (body_of(user({"type": "tool_result", "tool_use_id": "a", "content": [1]})), "/messages/0/content/0/content/0"),
        (body_of(user({"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}})), "/messages/0"),
        (body_of(system=1), "/system"),
        (body_of(system=[{"type": "text"}]), "/system/0/text"),
        (body_of(system=[{"type": "input_text", "text": "x"}]), "/system/0/type"),
        (body_of(thread={"type": "continue"}), "/thread/previous_message_id"),
        (body_of(tools=[1]), "/tools/0"),
        (body_of(tools=[{"input_schema": {}}]), "/tools/0/name"),
        (body_of(thinking={"type": "on"}), "/thinking"),
        (body_of(thinking={"type": "enabled"}), "/thinking/budget_tokens"),
        (body_of(tool_choice={"type": "tool"}), "/tool_choice/name"),
        (body_of(max_tokens=True), "/max_tokens"),
        (body_of(stop_sequences=[1]), "/stop_sequences/0"),
    ],
)
def test_wrong_shape_is_the_only_finding(body, pointer):
    context = RequestContext(row=PROVIDERS["anthropic"])

    found = list(findings(open_body("anthropic-messages", body, context)))
    assert [(finding.rule.id, finding.pointer) for finding in found] == [("ANT-SHAPE", pointer)]
