"""The rename table: names in the recorded files (old) and names in the code (new).

The recorded files keep the old names. Before a value of the current code is compared or digested, `plain_form` maps its
names back to the old ones. A redesign that renames something adds an entry here; a redesign that changes behavior on
purpose records the baseline again (`make baseline`).

Every table maps old to new, and is empty for names that did not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CLASSES: dict[str, str] = {}
"""Class names, of values and of errors: `{"Said": "MessageAdded"}`."""

TAG_FIELDS: dict[str, str] = {}
"""Fields that hold a tag: `{"block_type": "kind"}`."""

TAGS: dict[str, str] = {}
"""Tags, as `tag_field.tag` with the old tag field: `{"entry.said": "message_added", "type.steered": "steering"}`."""

FIELDS: dict[str, str] = {}
"""Fields, as `Class.field` with the old class; `*` is any class: `{"Loss.rule": "kind", "*.ordinal": "call_index"}`."""

ADDED: set[str] = set()
"""Fields that the recorded files do not know, as `Class.field` with the old class and the new field; `*` is any class."""

WORDS: dict[str, dict[str, str]] = {}
"""Values of a field that are names, by `Class.field` (old): `{"Loss.rule": {"left-out": "omitted"}}`. Loss kinds are here."""

VALUES: dict[str, Callable[[Any], Any]] = {}
"""Functions from the new plain value of a field, by `Class.field` (old), to the recorded one, where its form changed."""

IGNORED_EVENTS: set[str] = {"request"}
"""Events, by old tag, that are not recorded. `request` repeats the request and its bytes, which are recorded by themselves."""

TEXTS: dict[str, str] = {}
"""Parts of texts in agent runs and in the output of commands. Longer new texts are replaced first."""

ARGUMENTS: dict[tuple[str, ...], tuple[str, ...]] = {}
"""Parts of command lines: `{("--take",): ("--takeover",), ("sessions", "gc"): ("store", "gc")}`."""

PACKAGES: dict[str, str] = {"tenuto._model_rows": "tenuto.catalog", "tenuto.catalog.provider_rows": "tenuto.catalog"}
"""Packages whose coverage is recorded: `{"tenuto._model_rows": "tenuto.catalog"}`. Several old ones may share a new one."""
