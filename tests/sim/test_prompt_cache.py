"""The simulator's cache accounting: against recorded usage, and by its rules."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.rules.anthropic_body import MessagesBody
from tenuto.rules.body import RequestContext
from tenuto.rules.book import open_body
from tenuto.sim import providers
from tenuto.sim.anthropic import cached_blocks
from tenuto.sim.prompt_cache import MIN_TOKENS, CachedBlock, CacheUse, PromptCache

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
MORE = CORPUS.with_name("corpus-more")
RECORDINGS = {
    "conversation": (MORE, "mirascope__input.caching_multi_turn_conversation.anthropic_beta_claude_sonnet_4_0"),
    "tool loop": (CORPUS, "pydantic-ai__tool_search.anthropic_to_google_deferred_capability_history_replay"),
    "identical requests": (
        MORE,
        "opencode__llm.anthropic-messages-cache.writes-then-reads-cache-control-on-identical-second-call",
    ),
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# --- recorded usage ---------------------------------------------------------------------------------------------------


def _recorded_steps(folder: Path, name: str) -> list[tuple[MessagesBody, CacheUse, int]]:
    """Return the requests of a conversation, each with the tokens read and written, and those of the whole prompt."""
    steps = []
    for step in sorted((folder / "anthropic-messages" / "anthropic").glob(f"{name}-*")):
        request, expected = (json.loads((step / file).read_text("utf-8")) for file in ("request.json", "expected.json"))
        usage: dict[str, Any] = expected["usage"]
        use = CacheUse(usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"])
        row, model = providers.find("anthropic", "anthropic-messages")
        body = open_body("anthropic-messages", request, RequestContext(row=providers.imitated_row(row), model=model))
        assert isinstance(body, MessagesBody)
        steps.append((body, use, use.read + use.written + usage["input_tokens"]))
    return steps


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
@pytest.mark.parametrize("name", RECORDINGS)
def test_accounting_agrees_with_recorded_usage(name: str) -> None:
    """What the estimate of a prompt lacks (the provider adds hidden tokens for tools) is added to its first block."""
    cache = PromptCache()
    steps = _recorded_steps(*RECORDINGS[name])
    assert len(steps) >= 2
    hits = 0
    for body, recorded, prompt in steps:
        first, *rest = cached_blocks(body)
        hidden = prompt - sum(block.tokens for block in (first, *rest))
        use = cache.use("account", [first._replace(tokens=first.tokens + hidden), *rest])
        for ours, theirs in zip(use, recorded, strict=True):
            assert bool(ours) == bool(theirs)
            assert abs(ours - theirs) <= 0.05 * prompt
        hits += bool(recorded.read)
    assert hits


# --- rules ------------------------------------------------------------------------------------------------------------


def _blocks(count: int, *marks: int, tokens: int = 300, seconds: int = 300, changed: int = -1) -> list[CachedBlock]:
    forms = [f"block {index}{' changed' if index == changed else ''}".encode() for index in range(count)]
    return [CachedBlock(form, tokens, seconds * (index in marks)) for index, form in enumerate(forms)]


@given(st.integers(1, 60), st.integers(0, 19))
def test_longer_prompt_reads_the_whole_shorter_one(count: int, added: int) -> None:
    cache = PromptCache()
    first = cache.use("a", _blocks(count, count - 1))
    second = cache.use("a", _blocks(count + added, count + added - 1))

    assert first == CacheUse(0, count * 300 if count * 300 >= MIN_TOKENS else 0)
    assert second.read == first.written
    assert second.read + second.written in (0, (count + added) * 300)


@given(st.integers(4, 19), st.data())
def test_change_is_read_up_to_the_last_mark_before_it(count: int, data: st.DataObject) -> None:
    cache, mark = PromptCache(), 3
    changed = data.draw(st.integers(0, count - 1))
    cache.use("a", _blocks(count, mark, count - 1))
    use = cache.use("a", _blocks(count, mark, count - 1, changed=changed))

    assert use.read == (1200 if changed > mark else 0)


def test_prefix_that_ends_too_far_before_a_mark_is_not_read() -> None:
    cache = PromptCache()
    cache.use("a", _blocks(10, 9))

    assert cache.use("a", _blocks(31, 30)).read == 0
    assert cache.use("a", _blocks(30, 29)).read == 3000


def test_short_prompt_and_other_account_read_nothing() -> None:
    cache = PromptCache()
    for _ in range(2):
        assert cache.use("a", _blocks(3, 2)) == CacheUse()
        assert cache.use("a", _blocks(30)) == CacheUse()
    cache.use("a", _blocks(10, 9))
    assert cache.use("b", _blocks(10, 9)).read == 0


def test_prefix_is_forgotten_after_its_time() -> None:
    clock = Clock()
    cache = PromptCache(clock)
    cache.use("a", _blocks(10, 9))
    for _ in range(3):
        clock.now += 299
        assert cache.use("a", _blocks(10, 9)).read == 3000
    clock.now += 301
    assert cache.use("a", _blocks(10, 9)).read == 0

    cache.use("a", _blocks(10, 9, seconds=3600))
    clock.now += 3599
    assert cache.use("a", _blocks(10, 9)).read == 3000
