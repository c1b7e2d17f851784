"""What a store must do, as tests that any store can be put to.

A store of your own is tested by a class in a file of pytest's; nothing else is needed:

    class TestMine(StoreConformance):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path / "sessions"

        async def open(self) -> Store:
            return MyStore(self.path)

`open` is called once for each test, which finds the place empty, and again by tests that want another handle on the same
place, as another process would have. A class may also say

* `shared = False` if the place can be opened only once,
* `timed = True` if the store goes by `self.clock`, and `ttl_ms` how long its leases hold,
* `async def open_elsewhere(self)`: how to open the place as another machine would,
* `async def damage(self, session, seq)`: how to change the bytes of an entry behind the store's back,
* `examples`, `large`: how many random stories are played, how large the largest value is.

The chapters can be used one by one, too.
"""

from __future__ import annotations

from tenuto.testing.chapters.budgets import Budgets
from tenuto.testing.chapters.forking import Forking
from tenuto.testing.chapters.inbox import Inbox
from tenuto.testing.chapters.keeping import Keeping, Verifying
from tenuto.testing.chapters.reading import Finding, Listing, Reading, Searching
from tenuto.testing.chapters.stage import Chapter, Clock
from tenuto.testing.chapters.stories import Stories
from tenuto.testing.chapters.values import Transfer, Values
from tenuto.testing.chapters.writing import Appending, Leasing

__all__ = [
    "Appending",
    "Budgets",
    "Chapter",
    "Clock",
    "Finding",
    "Forking",
    "Inbox",
    "Keeping",
    "Leasing",
    "Listing",
    "Reading",
    "Searching",
    "StoreConformance",
    "Stories",
    "Transfer",
    "Values",
    "Verifying",
]


class StoreConformance(
    Appending,
    Leasing,
    Inbox,
    Budgets,
    Forking,
    Reading,
    Listing,
    Finding,
    Searching,
    Keeping,
    Verifying,
    Values,
    Transfer,
    Stories,
):
    """Every chapter."""
