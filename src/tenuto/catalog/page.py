"""The providers as a page in Markdown: `docs/providers.md`."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.catalog.provider_rows import ROWS
from tenuto.core.target import EmbeddingSwitches, Provider

__all__ = ["render"]

_INTRODUCTION = """\
# Providers

Made from the table by `python -m tenuto.catalog`; a test holds that it is current. Change the rows, not this page.

`provider/model` names a row and a model; the split is at the first slash. A bare model name goes to the `default_provider`,
else to the one vendor that owns it: `claude-sonnet-5-5` is `anthropic/claude-sonnet-5-5`. Where a row serves other vendors' models, the
vendor's table says what a model takes. Any other name works too, with an address of its own: it gets the common form of
its dialect. `openai-chat/` and `openai-responses/` are the row `openai` with its dialect nailed down. Where there is a key
and no model is named, the command asks the default model of the first row, in this order, that has one.
"""


def render() -> str:
    """Return the table as a page in Markdown."""
    lines = [_INTRODUCTION, "| name | dialect | address | key |", "|---|---|---|---|"]
    for row in ROWS:
        keys = ", ".join(f"`{name}`" for name in (*row.key_env, *row.bearer_env)) or "none"
        name = f"[{row.name}](#{row.name})" + (f" (ended {row.retired})" if row.retired else "")
        lines.append(f"| {name} | {row.dialect} | `{row.base_url}` | {keys} |")
    for row in ROWS:
        lines += ["", f"## {row.name}", "", *(f"* {fact}" for fact in _facts(row))]
    return "\n".join(lines) + "\n"


def _facts(row: Provider) -> Iterator[str]:
    if row.aliases:
        yield f"also called {', '.join(f'`{name}`' for name in row.aliases)}"
    yield f"authentication: {row.auth}" + _elsewhere(row)
    for dialect, address in row.base_urls.items():
        yield f"{dialect}: `{address}`"
    for name, value in row.headers.items():
        yield f"header `{name}: {value}`"
    for part in (row.anthropic, row.chat, row.responses, row.gemini):
        common = type(part)()
        for switch in part.__struct_fields__:
            value = getattr(part, switch)
            if value != getattr(common, switch):
                yield f"{switch}: {_shown(value)}"
    yield from _embeddings(row)
    yield from _models(row)
    if row.notes:
        yield row.notes
    yield f"sources: {row.source}, {row.as_of}"


def _models(row: Provider) -> Iterator[str]:
    """Say which model is asked unless one is named, which there are, and where they are listed."""
    if row.default_model:
        yield f"default model: `{row.default_model}`"
    if row.models_path != "/models":
        yield f"models: listed at `{row.models_path}`" if row.models_path else "models: no list"
    if row.hosts_others:
        yield "serves models of other vendors"
    if row.plays:
        yield f"plays {_shown(row.plays)}"


def _elsewhere(row: Provider) -> str:
    """Say which variables move the address."""
    names = " or ".join(f"`{name}`" for name in row.base_url_env)
    moved = f"; address from {names}" if names else ""
    if row.base_url_path:
        moved += f" (`{row.base_url_path}` is added where it is missing)"
    for word, held in row.fill.items():
        moved += f"; `{{{word}}}` from {' or '.join(f'`{name}`' for name in held)}"
    return moved


def _embeddings(row: Provider) -> Iterator[str]:
    """Say how texts are embedded, where it is not in the common way."""
    common = EmbeddingSwitches()
    if not row.embeddings.path:
        yield "embeddings: none"
        return
    told = [(switch, getattr(row.embeddings, switch)) for switch in common.__struct_fields__]
    shown = [f"{switch} {_shown(value)}" for switch, value in told if value != getattr(common, switch)]
    if shown:
        yield f"embeddings: {'; '.join(shown)}"


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"`{name}` {_shown(setting)}" for name, setting in value.items())
        case (int() | float() as low, int() | float() as high):
            return f"{low} to {high}"
        case tuple():
            return ", ".join(f"`{name}`" for name in value)
        case _:
            return f"`{value}`"
