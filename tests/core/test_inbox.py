"""Inbox items in their stored form."""

from __future__ import annotations

import pytest

from tenuto.core.inbox import Cancel, Decision, Finished, PostedItem, Prompt, Steer, UnknownItem, item_kind
from tenuto.core.jsonio import JsonError
from tenuto.core.messages import Usage, UserMessage
from tenuto.core.stored import dump_item, load_item

ITEMS = {
    "prompt": Prompt(UserMessage("Hi"), key="job-7"),
    "steer": Steer(UserMessage("Hurry.", unknown_fields='{"later":1}')),
    "decision": Decision("call", 1, allowed=True, reason="fine", reply_seq=4),
    "cancel": Cancel("enough", unknown_fields='{"later":{"a":[1]}}'),
    "finished": Finished("child", UserMessage("Done."), usage=Usage(input_tokens=3), cost="0.25"),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_items_read_back_identical(kind):
    item = ITEMS[kind]

    assert load_item(dump_item(item)) == item
    assert item_kind(item) == kind
    assert dump_item(item).startswith(b'{"item":"%s"' % kind.encode())


@pytest.mark.parametrize(
    ("kind", "text"),
    [("dream", '{"item":"dream","of":"sheep"}'), ("steer", '{"item":"steer","message":7}'), ("", '{"later":1}')],
)
def test_unreadable_items_are_unknown_items(kind, text):
    item = load_item(text)

    assert item == UnknownItem(kind, text)
    assert dump_item(item) == text.encode()
    assert item_kind(item) == kind
    assert PostedItem(1, "id", 0, item).item is item


def test_unknown_item_with_another_kind_is_refused():
    with pytest.raises(JsonError, match="reads back"):
        dump_item(UnknownItem("dream", '{"item":"cancel"}'))
