"""The work: items are looked up, those that are new or changed are asked for, a few batches at a time, and kept.

Each batch is kept as soon as it is answered. So whatever happens, what is kept is whole, and the same command goes on with
the rest.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tenuto.cli.embedding.asking import Asked
from tenuto.cli.embedding.items import Found, Item, Passed, Trouble
from tenuto.cli.embedding.keeping import Answered, Keeper, Kept
from tenuto.cli.embedding.pages import Aside, Batch
from tenuto.cli.escaping import one_line
from tenuto.cli.progress import Progress
from tenuto.client.client import AsyncClient
from tenuto.core.embedding import EmbedRequest, EmbedResponse
from tenuto.errors import BadRequest, ContextTooLong, LLMError, TenutoError

__all__ = ["Tally", "Work"]

UNDER_WAY = 4
"""How many batches are asked for at a time."""
_ENOUGH = 3
"""If so many are refused in the same words, and none was taken, it is not their fault."""
_LONGEST = 3.4e38
"""The numbers of a vector that is no longer than this have room in four bytes each."""
_LINE = 600
_PLACE = re.compile(r"input\[(\d+)\]")


class Tally:
    """What became of the items. `tokens` is None as soon as somebody does not say how many there were."""

    def __init__(self) -> None:
        self.embedded = 0
        self.unchanged = 0
        self.passed: Counter[str] = Counter()
        self.troubles: list[Trouble] = []
        self.losses: dict[Trouble, None] = {}
        self.tokens: int | None = 0
        self.kept: Kept | None = None


class Work:
    """Embeds items, and keeps the vectors."""

    def __init__(self, ai: AsyncClient, keeper: Keeper, asked: Asked, most: int, bar: Progress) -> None:
        self.tally = Tally()
        self.seen: set[str] | None = None
        """The ids that came, if somebody wants to know."""
        self._ai = ai
        self._keeper = keeper
        self._asked = asked
        self._batch = Batch(most)
        self._bar = bar
        self._under_way: list[asyncio.Task[None]] = []
        self._refused: Counter[str] = Counter()
        self.tally.kept = keeper.kept()

    async def all(self, pages: Iterator[list[Found]]) -> None:
        """Do everything. Raise what a provider says to a whole batch, and whatever cannot be kept; what is under way then
        may still come, and is kept.
        """
        reading = Aside(pages)
        try:
            while page := await reading.next():
                for item in self._looked_up(page):
                    await self._begin(self._batch.add(item))
            await self._begin(self._batch.rest())
            while self._under_way:
                await self._wait()
        except LLMError:
            await asyncio.gather(*self._under_way, return_exceptions=True)
            raise
        finally:
            reading.close()
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    def _looked_up(self, page: Sequence[Found]) -> list[Item]:
        items: list[Item] = []
        for found in page:
            if isinstance(found, Passed):
                self.tally.passed[found.what] += 1
            elif isinstance(found, Trouble):
                self._fail(found)
            else:
                items.append(found)
                if self.seen is not None:
                    self.seen.add(found.id)
        left = self._keeper.left(items)
        self.tally.unchanged += len(items) - len(left)
        self._bar.advance(len(page) - len(left))
        return left

    def _fail(self, trouble: Trouble) -> None:
        self.tally.troubles.append(trouble)
        self._bar.say(one_line(f"failed: {trouble.id} {trouble.why}", _LINE))

    # --- asking ---

    async def _begin(self, items: list[Item]) -> None:
        if not items:
            return
        while len(self._under_way) >= UNDER_WAY:
            await self._wait()
        before = self._under_way[-1] if self._under_way and self._keeper.ordered else None
        self._under_way.append(asyncio.create_task(self._act(items, before)))

    async def _wait(self) -> None:
        done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        self._under_way = [task for task in self._under_way if task not in done]
        errors = [error for task in done if (error := task.exception()) is not None]
        if errors:
            raise errors[0]

    async def _act(self, items: list[Item], before: asyncio.Task[None] | None) -> None:
        answered = await self._answered(items)
        if before is not None:
            await before
        if answered:
            self._keep(answered)
        self._bar.advance(len(items))

    async def _answered(self, items: list[Item]) -> list[Answered]:
        """Ask for vectors. If something among the texts is refused, they are asked for in halves, until it is found."""
        texts = [item.text for item in items]
        wanted = EmbedRequest(model=self._asked.model, input=texts, dimensions=self._asked.dimensions or None)
        try:
            reply = await self._ai.embed(wanted)
        except BadRequest as exc:
            if len(items) == 1:
                self._refuse(items[0], exc)
                return []
            half = len(items) // 2
            return [*await self._answered(items[:half]), *await self._answered(items[half:])]
        self._note(reply, items)
        return [pair for pair in zip(items, reply.embeddings, strict=True) if self._is_vector(*pair)]

    def _refuse(self, item: Item, exc: BadRequest) -> None:
        self._refused[exc.message] += 1
        too_long = isinstance(exc, ContextTooLong)
        if not too_long and not self.tally.embedded and self._refused[exc.message] >= _ENOUGH:
            raise exc
        hint = "; cut it with --chunk" if too_long else ""
        self._fail(Trouble(item.id, f"was refused: {exc.message}{hint}"))

    def _note(self, reply: EmbedResponse, items: Sequence[Item]) -> None:
        used = reply.usage.total_tokens
        self.tally.tokens = None if used is None or self.tally.tokens is None else self.tally.tokens + used
        for loss in reply.losses:
            place = _PLACE.fullmatch(loss.location.path)
            said = Trouble(items[int(place[1])].id if place else str(loss.location), loss.detail)
            if said not in self.tally.losses:
                self.tally.losses[said] = None
                remedy = f" ({loss.remedy})" if loss.remedy else ""
                self._bar.say(one_line(f"lost: {said.id}: {said.why}{remedy}", _LINE))

    def _is_vector(self, item: Item, vector: tuple[float, ...]) -> bool:
        fits = math.hypot(*vector) < _LONGEST
        if not fits:
            self._fail(Trouble(item.id, "got a vector with numbers that are none"))
        return fits

    # --- keeping ---

    def _keep(self, answered: list[Answered]) -> None:
        lengths = {len(vector) for _, vector in answered}
        kept = self.tally.kept or Kept(self._asked.model, len(answered[0][1]), self._asked.dimensions)
        if lengths != {kept.dimensions}:
            other = next(iter(lengths - {kept.dimensions}))
            raise TenutoError(
                f"{self._asked.model} gave vectors of {other} numbers, where {self._keeper.where} has {kept.dimensions}: "
                f"give --dimensions {kept.dimensions}, or another --into"
            )
        self._keeper.put(answered, kept)
        self.tally.kept = kept
        self.tally.embedded += len(answered)
