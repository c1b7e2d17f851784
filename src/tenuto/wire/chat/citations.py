"""Where a statement comes from: the spellings of citations in the chat dialect. Their raw form stays where it stood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import UrlCitation

__all__ = ["from_annotations", "from_sources"]


def from_annotations(annotations: Iterable[Raw]) -> list[UrlCitation]:
    """Read the `url_citation` annotations of a message; other annotations cite nothing."""
    found = []
    for raw in annotations:
        value = jsonio.parse(raw)
        cited = value.get("url_citation") if isinstance(value, dict) else None
        if isinstance(cited, dict) and isinstance(cited.get("url"), str):
            found.append(
                UrlCitation(
                    cited["url"],
                    _text(cited.get("title")),
                    _text(cited.get("content")),
                    _place(cited.get("start_index")),
                    _place(cited.get("end_index")),
                )
            )
    return found


def from_sources(fields: Mapping[str, Raw]) -> list[UrlCitation]:
    """Read the lists beside the choices: `citations` (addresses, in the order of their numbers) and `search_results`."""
    if "citations" not in fields and "search_results" not in fields:
        return []
    results = {
        item["url"]: item
        for item in _list(fields.get("search_results"))
        if isinstance(item, dict) and isinstance(item.get("url"), str)
    }
    cited = [url for url in _list(fields.get("citations")) if isinstance(url, str)]
    return [
        UrlCitation(url, _text(results.get(url, {}).get("title")), _text(results.get(url, {}).get("snippet")))
        for url in (*cited, *(url for url in results if url not in cited))
    ]


def _list(raw: Raw | None) -> list[Any]:
    value = jsonio.parse(raw) if raw is not None else None
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _place(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
