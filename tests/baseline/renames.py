"""The rename table: names in the recorded files (old) and names in the code (new).

The recorded files keep the old names. Before a value of the current code is compared or digested, `plain_form` maps its
names back to the old ones. A redesign that renames something adds an entry here; a redesign that changes behavior on
purpose records the baseline again (`make baseline`).

Every table maps old to new, and is empty for names that did not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CLASSES: dict[str, str] = {
    "Said": "MessageAdded",
    "Asked": "RequestStarted",
    "Replied": "ReplyReceived",
    "Failed": "RequestFailed",
    "Started": "CallStarted",
    "Returned": "CallFinished",
    "ApprovalAsked": "ApprovalRequested",
    "Decided": "ApprovalDecided",
    "Steered": "SteeringAdded",
    "Lost": "LossRecorded",
    "Linked": "SubSessionLinked",
    "Stopped": "RunEnded",
    "Strange": "UnknownPayload",
    "Failure": "ErrorEvent",
    "FromSubAgent": "SubAgentEvent",
    "SteeringHeard": "SteeringInjected",
    "RefusedItemLeftOut": "RefusedBlockDropped",
    "ToolReturned": "ToolFinished",
}
"""Class names, of values and of errors: `{"Said": "MessageAdded"}`."""

TAG_FIELDS: dict[str, str] = {}
"""Fields that hold a tag: `{"block_type": "kind"}`."""

TAGS: dict[str, str] = {
    "entry.said": "message_added",
    "entry.asked": "request_started",
    "entry.replied": "reply_received",
    "entry.failed": "request_failed",
    "entry.started": "call_started",
    "entry.returned": "call_finished",
    "entry.approval_asked": "approval_requested",
    "entry.decided": "approval_decided",
    "entry.steered": "steering_added",
    "entry.lost": "loss_recorded",
    "entry.linked": "sub_session_linked",
    "entry.stopped": "run_ended",
}
"""Tags, as `tag_field.tag` with the old tag field: `{"entry.said": "message_added", "type.steered": "steering"}`."""

FIELDS: dict[str, str] = {
    "*.unread": "unknown_fields",
    "AssistantMessage.raw_stop": "raw_stop_reason",
    "ToolUse.broken": "args_error",
    "ToolUse.minted": "id_generated",
    "ToolUse.no_args": "args_missing",
    "Loss.rule": "kind",
    "Loss.what": "detail",
    "Loss.place": "location",
    "Configured.continuity": "allow_unverified",
    "Asked.encoder": "encoder_version",
    "Started.call": "call_id",
    "Started.ordinal": "call_index",
    "Started.key": "idempotency_key",
    "Returned.ordinal": "call_index",
    "ApprovalAsked.call": "call_id",
    "ApprovalAsked.ordinal": "call_index",
    "Decided.call": "call_id",
    "Decided.ordinal": "call_index",
    "Decided.why": "reason",
    "Compacted.upto": "up_to_seq",
    "Compacted.why": "reason",
    "HandedOver.before": "previous_model",
    "Lost.reply": "reply_seq",
    "Lost.block": "block_index",
    "Linked.call": "call_id",
    "Linked.ordinal": "call_index",
}
"""Fields, as `Class.field` with the old class; `*` is any class: `{"Loss.rule": "kind", "*.ordinal": "call_index"}`."""

DOCUMENTS: dict[str, dict[str, str]] = {
    "entry=request_started": {"encoder": "encoder_version"},
    "entry=call_started": {"call": "call_id", "ordinal": "call_index", "key": "idempotency_key"},
    "entry=call_finished": {"ordinal": "call_index"},
    "entry=approval_requested": {"call": "call_id", "ordinal": "call_index"},
    "entry=approval_decided": {"call": "call_id", "ordinal": "call_index", "why": "reason"},
    "entry=compacted": {"upto": "up_to_seq", "why": "reason"},
    "entry=handed_over": {"before": "previous_model"},
    "entry=loss_recorded": {"reply": "reply_seq", "block": "block_index"},
    "entry=sub_session_linked": {"call": "call_id", "ordinal": "call_index"},
    "raw_stop_reason": {"raw_stop": "raw_stop_reason"},
    "block_type=tool_use": {"broken": "args_error", "minted": "id_generated", "no_args": "args_missing"},
    "kind location detail": {"rule": "kind", "what": "detail", "place": "location"},
    "seq digest kind": {"at": "time_ms"},
}
"""Fields of JSON that a command prints. The key names fields that an object must have, `name=value` with that value."""

ENTRY_KINDS: str = "seq digest kind"
"""Which objects that a command prints have the tag of an entry under `kind`."""

ADDED: set[str] = set()
"""Fields that the recorded files do not know, as `Class.field` with the old class and the new field; `*` is any class."""

WORDS: dict[str, dict[str, str]] = {}
"""Values of a field that are names, by `Class.field` (old): `{"Loss.rule": {"left-out": "omitted"}}`. Loss kinds are here."""


def _place(location: dict[str, Any]) -> str:
    parts = [f"messages[{location['message']}]"] if "message" in location else []
    parts += [f"blocks[{location['block']}]"] if "block" in location else []
    return ".".join([*parts, *([location["path"]] if location.get("path") else [])])


VALUES: dict[str, Callable[[Any], Any]] = {
    "Configured.continuity": lambda allowed: "declared" if allowed else "",
    "Loss.place": _place,
}
"""Functions from the new plain value of a field, by `Class.field` (old), to the recorded one, where its form changed."""

IGNORED_EVENTS: set[str] = {"request"}
"""Events, by old tag, that are not recorded. `request` repeats the request and its bytes, which are recorded by themselves."""

TEXTS: dict[str, str] = {
    ", schema 3": ", schema 6",
    '"tenuto": "session",\n  "format": 1,': '"tenuto": "session",\n  "format": 4,',
    "state killed open ": "state killed interrupted ",
    "was not run: something else was said": "was not run: a new user message arrived",
}
"""Parts of texts in agent runs and in the output of commands. Longer new texts are replaced first."""

ARGUMENTS: dict[tuple[str, ...], tuple[str, ...]] = {}
"""Parts of command lines: `{("--take",): ("--takeover",), ("sessions", "gc"): ("store", "gc")}`."""

PACKAGES: dict[str, str] = {"tenuto._model_rows": "tenuto.catalog", "tenuto.catalog.provider_rows": "tenuto.catalog"}
"""Packages whose coverage is recorded: `{"tenuto._model_rows": "tenuto.catalog"}`. Several old ones may share a new one."""
