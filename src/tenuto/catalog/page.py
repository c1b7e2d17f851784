"""The provider rows as a Markdown page: `docs/providers.md`."""

from collections.abc import Iterator

import msgspec

from tenuto.catalog.providers import PROVIDERS
from tenuto.core.provider import Provider

_INTRODUCTION = """\
# Providers

```python
from tenuto import Client, Provider

ai = Client(providers={"mine": {"base_url": "http://localhost:8000/v1"}})  # a custom provider, next to those below
ai.close()
ai = Client(providers=[Provider("mine", "openai-chat", "http://localhost:8000/v1", auth="none")])  # all fields of a row
ai.close()
```

Written from the catalog by `python -m tenuto.catalog > docs/providers.md`; a test compares them. To change this page,
change the rows in `src/tenuto/catalog/provider_rows/`.

A model is named `provider/model`, split at the first slash. The provider of a bare model name is the
`default_provider`, else the one vendor that owns it: `claude-sonnet-5-5` means `anthropic/claude-sonnet-5-5`. If a
provider serves models of other vendors, the vendor's model rows describe them. `openai-chat/` and `openai-responses/`
select a dialect of `openai`. Without a model, the command uses the default model of the first provider below that has
one and a key.

A custom provider has a `base_url` and, unless it is `openai-chat`, a `dialect`: it gets the defaults of the dialect.
For everything else, pass a `Provider`. With the name of a provider below, it replaces that provider in this client.
`tenuto.catalog.add_provider(row)` adds a row for the whole process.
"""


def render() -> str:
    """Return the page."""
    rows = [row for name, row in PROVIDERS.items() if name == row.name]
    lines = [_INTRODUCTION, "| name | dialect | URL | key |", "|---|---|---|---|"]
    for row in rows:
        name = f"[{row.name}](#{row.name})" + (f" (ended {row.retired})" if row.retired else "")
        keys = _code(*row.key_env, *row.bearer_env) or "none"
        lines.append(f"| {name} | {row.dialect} | `{row.base_url}` | {keys} |")
    for row in rows:
        lines += ["", f"## {row.name}", "", *(f"* {fact}" for fact in _facts(row))]
    return "\n".join(lines) + "\n"


def _facts(row: Provider) -> Iterator[str]:
    if row.aliases:
        yield f"also called {_code(*row.aliases)}"
    yield f"authentication: {row.auth}"
    if row.base_url_env:
        added = f" (`{row.base_url_path}` is added if it is missing)" if row.base_url_path else ""
        yield f"URL from {_code(*row.base_url_env, between=' or ')}{added}"
    for word, names in row.fill.items():
        yield f"`{{{word}}}` from {_code(*names, between=' or ')}"
    for dialect, url in row.base_urls.items():
        yield f"{dialect}: `{url}`"
    for name, value in row.headers.items():
        yield f"header `{name}: {value}`"
    for switches in (row.anthropic, row.chat, row.responses, row.gemini):
        yield from (f"{switch}: {value}" for switch, value in _changed(switches))
    if not row.embeddings.path:
        yield "embeddings: none"
    elif embeddings := "; ".join(f"{switch} {value}" for switch, value in _changed(row.embeddings)):
        yield f"embeddings: {embeddings}"
    if row.default_model:
        yield f"default model: `{row.default_model}`"
    if row.models_path != "/models":
        yield f"models: listed at `{row.models_path}`" if row.models_path else "models: no list"
    if row.hosts_others:
        yield "serves models of other vendors"
    if row.plays:
        yield f"imitates {_code(*row.plays)}"
    if row.notes:
        yield row.notes
    yield f"sources: {row.source}, {row.as_of}"


def _changed(switches: msgspec.Struct) -> Iterator[tuple[str, str]]:
    """Yield the switches that differ from the defaults of the dialect."""
    defaults = type(switches)()
    for name in switches.__struct_fields__:
        value = getattr(switches, name)
        if value != getattr(defaults, name):
            yield name, _text(value)


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"`{name}` {_text(setting)}" for name, setting in value.items())
        case (int() | float() as low, int() | float() as high):
            return f"{low} to {high}"
        case tuple():
            return _code(*value)
        case _:
            return f"`{value}`"


def _code(*words: str, between: str = ", ") -> str:
    return between.join(f"`{word}`" for word in words)
