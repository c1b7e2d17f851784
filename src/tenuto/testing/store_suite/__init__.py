"""The tests that every store passes; `conformance` describes how to use them."""

from __future__ import annotations

from pathlib import Path

import pytest

# A failure then shows the compared values.
pytest.register_assert_rewrite(*(f"{__name__}.{file.stem}" for file in Path(__file__).parent.glob("*.py")))
