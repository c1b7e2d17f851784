"""The provider rows as a Markdown page: `docs/providers.md`."""

from collections.abc import Iterator

import msgspec

from tenuto.catalog.providers import PROVIDERS

_TABLE = ("name", "dialect", "base_url", "retired", "key_env", "bearer_env")  # the fields that the table shows
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
`tenuto.catalog.add_provider(row)` adds a row for the whole process. The section of a provider lists the fields of its
`Provider` that differ from the defaults.
"""


def render() -> str:
    rows = [row for name, row in PROVIDERS.items() if name == row.name]
    lines = [_INTRODUCTION, "| name | dialect | URL | key |", "|---|---|---|---|"]
    for row in rows:
        name = f"[{row.name}](#{row.name})" + (f" (ended {row.retired})" if row.retired else "")
        keys = _text((*row.key_env, *row.bearer_env))
        lines.append(f"| {name} | {row.dialect} | `{row.base_url}` | {keys} |")
    for row in rows:
        lines += ["", f"## {row.name}", "", *(f"* {fact}" for fact in _facts(row))]
    return "\n".join(lines) + "\n"


def _facts(row: msgspec.Struct, prefix: str = "") -> Iterator[str]:
    """Yield the fields that the table does not show and that differ from their defaults, those of switches too."""
    for field in msgspec.structs.fields(row):
        value = getattr(row, field.name)
        if isinstance(value, msgspec.Struct):
            yield from _facts(value, f"{field.name}.")
        elif field.name not in _TABLE and value not in (field.default, {}):
            yield f"{prefix}{field.name}: {_text(value)}"


def _text(value: object) -> str:
    match value:
        case "" | ():
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"`{name}` {_text(setting)}" for name, setting in value.items())
        case (int() | float() as low, int() | float() as high):
            return f"{low} to {high}"
        case tuple():
            return ", ".join(f"`{item}`" for item in value)
        case str() if " " in value:
            return value
        case _:
            return f"`{value}`"
