"""What a store promises, chapter by chapter. `tenuto.testing.stores` puts them together."""

from __future__ import annotations

import pytest

# So that a failure shows what was compared.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{chapter}"
        for chapter in ("budgets", "inbox", "keeping", "reading", "stage", "stories", "values", "writing")
    )
)
