from __future__ import annotations

from typing import get_args

import pytest

from tenuto.core.events import (
    Delta,
    StreamEvent,
)


def test_events_are_named_as_specified():
    assert [kind.__struct_config__.tag for kind in get_args(StreamEvent)] == [
        "message.start",
        "content.start",
        "content.delta",
        "content.done",
        "message.delta",
        "usage",
        "message.done",
        "error",
    ]


def test_deltas_are_named_as_specified():
    assert {kind.__struct_config__.tag for kind in get_args(Delta)} >= {
        "text",
        "tool_call.arguments",
        "thinking",
        "thinking.signature",
        "image",
        "audio",
        "audio.transcript",
        "citation",
    }


@pytest.mark.parametrize("kind", [*get_args(StreamEvent), *get_args(Delta)])
def test_event_is_immutable(kind):
    """A stored event must not show a later state."""
    assert kind.__struct_config__.frozen
