"""Stores for sessions: in memory, in SQLite, in Postgres. Names are imported when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.lazy import import_lazily

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

__all__, __getattr__, __dir__ = import_lazily(
    __name__,
    {
        "tenuto.store.export": "export_session import_session import_sessions",
        "tenuto.store.open": "open_store restore",
        "tenuto.store.protocol": "BudgetChange BudgetMember Lease SearchHit SessionPage Store StoreStats StoredSession VerifyProblem",
    },
)
