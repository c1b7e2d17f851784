"""The work of `tenuto embed`, with a provider that answers strangely."""

from __future__ import annotations

import asyncio
import base64
import struct
from contextlib import closing

import pytest

from tenuto import AsyncClient
from tenuto.cli.embedding.asking import Asked
from tenuto.cli.embedding.items import Trouble, item_of
from tenuto.cli.embedding.keeping import Kept
from tenuto.cli.embedding.table import Table
from tenuto.cli.embedding.work import Work
from tenuto.cli.progress import Progress
from tenuto.errors import AuthenticationFailed, TenutoError
from tenuto.testing import Answer, ScriptedTransport


def worked(tmp_path, model, *answers, texts=("one", "two"), batch=64):
    """Embed texts; return what became of them, and what is kept."""

    async def run():
        with closing(Table(tmp_path / "v.db")) as table:
            async with AsyncClient(keys={"openai": "k", "google": "k"}, transport=ScriptedTransport(*answers)) as ai:
                work = Work(ai, table, Asked(model), batch, Progress("embedding", live=False))
                try:
                    await work.all(iter([[item_of(text, text) for text in texts]]))
                finally:
                    held = {id: vector for page in table.vectors() for id, vector in page}
                return work.tally, held

    return asyncio.run(run())


def packed(*numbers):
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize("strange", [packed(float("nan"), 1.0), packed(float("inf"), 0.0), [1e39, 0.0]])
def test_numbers_that_are_none_are_not_kept(tmp_path, capsys, strange):
    """Nor those that have no room; the item is named, and the others are kept. Who does not say what it took, is believed."""
    data = [{"index": 0, "embedding": strange}, {"index": 1, "embedding": [0.5, 0.25]}]
    tally, held = worked(tmp_path, "openai/text-embedding-3-small", {"data": data})

    assert [Trouble("one", "got a vector with numbers that are none")] == tally.troubles
    assert {"two": struct.pack("<2f", 0.5, 0.25)} == held
    assert (1, None, Kept("openai/text-embedding-3-small", 2)) == (tally.embedded, tally.tokens, tally.kept)
    assert "failed: one got a vector with numbers that are none\n" == capsys.readouterr().err


def test_what_is_lost_is_told_with_the_name_of_the_item(tmp_path, capsys):
    """Each loss once; the vector is kept."""
    cut = {"embedding": {"values": [0.5, 0.25]}, "truncated": True}
    tally, held = worked(tmp_path, "google/gemini-embedding-2", cut, cut, batch=1)

    assert ["one", "two"] == [loss.id for loss in tally.losses] == sorted(held)
    assert "lost: one: longer than the model reads: its end was left off (split it)\n" in capsys.readouterr().err


def test_vectors_of_another_length_are_not_kept(tmp_path):
    """Nothing of that batch is."""
    data = [{"index": 0, "embedding": [0.5, 0.25]}, {"index": 1, "embedding": [0.5]}]
    with pytest.raises(TenutoError, match=r"gave vectors of 1 numbers, where .* has 2: give --dimensions 2"):
        worked(tmp_path, "openai/text-embedding-3-small", {"data": data})
    with closing(Table(tmp_path / "v.db", write=False)) as table:
        assert None is table.kept()


def taken(*vector):
    return {"data": [{"index": 0, "embedding": vector}]}


def refused(status, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": "not these words"}}, status, names)


def test_where_some_are_taken_each_one_that_is_refused_is_named(tmp_path):
    """However many there are: it is their fault."""
    texts = ("good", *(f"bad {number}" for number in range(5)))
    answers = [taken(1.0, 0.5), *[refused(400)] * 5]
    tally, held = worked(tmp_path, "openai/text-embedding-3-small", *answers, texts=texts, batch=1)

    assert ["good"] == list(held)
    assert [Trouble(text, "was refused: not these words") for text in texts[1:]] == tally.troubles


def test_what_is_under_way_when_another_fails_is_kept(tmp_path):
    """It is paid for. The one that is slow here is tried again."""
    answers = [refused(401), refused(429, retry_after="0"), taken(1.0, 0.5)]
    with pytest.raises(AuthenticationFailed):
        worked(tmp_path, "openai/text-embedding-3-small", *answers, batch=1)
    with closing(Table(tmp_path / "v.db", write=False)) as table:
        assert ["two"] == [id for page in table.vectors() for id, _ in page]
