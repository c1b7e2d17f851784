"""Stores for sessions: in memory, in SQLite, in Postgres. Names are imported when they are used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenuto.store.export import export_session as export_session
    from tenuto.store.export import import_session as import_session
    from tenuto.store.export import import_sessions as import_sessions
    from tenuto.store.open import open_store as open_store
    from tenuto.store.open import restore as restore
    from tenuto.store.protocol import BudgetChange as BudgetChange
    from tenuto.store.protocol import BudgetMember as BudgetMember
    from tenuto.store.protocol import Lease as Lease
    from tenuto.store.protocol import SearchHit as SearchHit
    from tenuto.store.protocol import SessionPage as SessionPage
    from tenuto.store.protocol import Store as Store
    from tenuto.store.protocol import StoredSession as StoredSession
    from tenuto.store.protocol import StoreStats as StoreStats
    from tenuto.store.protocol import VerifyProblem as VerifyProblem

__all__ = [
    "BudgetChange",
    "BudgetMember",
    "Lease",
    "SearchHit",
    "SessionPage",
    "Store",
    "StoreStats",
    "StoredSession",
    "VerifyProblem",
    "export_session",
    "import_session",
    "import_sessions",
    "open_store",
    "restore",
]
_MODULES = {
    "open_store": "open",
    "restore": "open",
    "export_session": "export",
    "import_session": "export",
    "import_sessions": "export",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'protocol')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
