"""The rule book as text tables: one line a rule, one string a dialect. `tenuto.core.rules` reads them.

    id || tier || scope || needs || when || refusal || says || trust || place || severity || remedy || basis

`-` stands for nothing. A refusal is `400 invalid_request_error param=input code=x`; without `param=` or `code=` the
provider's own envelope says null or leaves it out. Variants of `says` are parted by ` ¦ `. The basis is
`confidence, month, sources`. `{i}` is a message or item, `{j}` a block or part, `{k}` a tool.

Tier: `core` rules are those that users meet every day. Trust in the wording: `verbatim` was quoted by a recording, a
document or a report; `partial` in one variant only; `unverified` is a guess at the wording of a refusal that is real.
Confidence: `recorded` in traffic, `documented`, `practice` (reported with the text), `inferred`.

For whom a rule holds stands in tables of their own: `id || pattern pattern ...`, each a pattern of `row/model` (`*`
stands for anything). A rule that is not there holds for everybody who speaks the dialect, or its check can tell by the
model's traits and the row's switches.
"""

from __future__ import annotations

from tenuto.core.rule_rows import (
    anthropic,
    chat,
    cross,
    gemini,
    holds_anthropic,
    holds_chat,
    holds_gemini,
    holds_responses,
    responses,
)

__all__ = ["HOLDS", "TABLES"]

TABLES = (
    ("anthropic-messages", anthropic.ROWS),
    ("openai-responses", responses.ROWS),
    ("openai-chat", chat.ROWS),
    ("gemini", gemini.ROWS),
    ("cross", cross.ROWS),
)

HOLDS = (holds_anthropic.HOLDS, holds_responses.HOLDS, holds_chat.HOLDS, holds_gemini.HOLDS)
