"""Compare neutral blocks with the oracle's `expected.json`."""

from __future__ import annotations

import hashlib
from typing import Any

from conformance.jsontext import ABSENT, canonical_sha1, pruned

__all__ = ["block_faults", "coalesce", "faults", "shown"]


def shown(value: Any, length: int = 60) -> str:
    """Return a short text of a value."""
    text = repr(value)
    return text if len(text) <= length else f"{text[: length - 12]}…({len(text)})"


def coalesce(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join adjacent text of the same kind unless the earlier carries a signature: the oracle's `merge_rule`."""
    found: list[dict[str, Any]] = []
    for block in blocks:
        last = found[-1] if found else None
        if (
            last is not None
            and block["type"] == last["type"]
            and block["type"] in ("text", "reasoning")
            and not last.get("signature")
        ):
            found[-1] = {**last, **{k: v for k, v in block.items() if v}, "text": last["text"] + block["text"]}
        else:
            found.append(dict(block))
    return found


def faults(expected: list[dict[str, Any]], mine: list[dict[str, Any]]) -> list[str]:
    """Return the differences between blocks and those of the oracle."""
    if len(expected) != len(mine):
        return [f"blocks: {[b['type'] for b in expected]} expected, {[b['type'] for b in mine]} found"]
    pairs = enumerate(zip(expected, mine, strict=True))
    return [f"blocks[{at}].{fault}" for at, (want, have) in pairs for fault in block_faults(want, have)]


def block_faults(want: dict[str, Any], have: dict[str, Any]) -> list[str]:
    """Return the fields in which one block differs. Null equals absent; large payloads are compared by their hash."""
    found = []
    hashed = {"raw_sha1": "raw", "citations_sha1": "citations", "signature_sha1": "signature"}
    counted = {"citations_count": "citations", "signature_len": "signature"}
    skipped = {"signature_alt", "raw_ids", *hashed, *counted}
    named = {*want, *have} - skipped - {hashed[name] for name in hashed if name in want}
    for name in sorted(named):
        wanted, held = pruned(want.get(name)), pruned(have.get(name))
        alternatives = (
            [wanted, pruned(want["signature_alt"])] if name == "signature" and "signature_alt" in want else [wanted]
        )
        if held not in alternatives:
            found.append(f"{name}: {shown(wanted)} expected, {shown(held)} found")
    for name, source in hashed.items():
        if name in want and want[name] not in _hashes(have.get(source)):
            found.append(f"{source}: {name} differs")
    return found


def _hashes(value: Any) -> list[str]:
    if value is ABSENT or value is None:
        return []
    if isinstance(value, str):
        return [canonical_sha1(value), hashlib.sha1(value.encode(), usedforsecurity=False).hexdigest()]
    return [canonical_sha1(value), canonical_sha1(pruned(value))]
