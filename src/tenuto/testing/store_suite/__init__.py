"""The tests that every store passes. To test your own store, subclass `StoreConformance` in a pytest file:

    class TestMine(StoreConformance):
        @pytest.fixture(autouse=True)
        def location(self, tmp_path):
            self.path = tmp_path / "sessions"

        async def open(self) -> Store:
            return MyStore(self.path)

`open` is called once for each test, and the location is empty then. Tests call it again for another handle on the same
sessions, as another process would have. A class may also set

* `shared = False` if the location can be opened only once,
* `timed = True` if the store uses `self.clock`, and `ttl_ms`, the time of its leases,
* `async def open_elsewhere(self)`: open the location as another machine would,
* `async def damage(self, session, seq)`: change the stored bytes of an entry without the store,
* `large`: the size of the largest value in bytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

# A failure then shows the compared values.
pytest.register_assert_rewrite(*(f"{__name__}.{file.stem}" for file in Path(__file__).parent.glob("*.py")))

from tenuto.testing.store_suite.entries import EntryTests, ValueTests  # noqa: E402
from tenuto.testing.store_suite.leases import BudgetTests, LeaseTests  # noqa: E402
from tenuto.testing.store_suite.sessions import MaintenanceTests, SessionTests  # noqa: E402


class StoreConformance(EntryTests, LeaseTests, BudgetTests, SessionTests, MaintenanceTests, ValueTests):
    """All tests of the suite."""
