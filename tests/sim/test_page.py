"""The page of rules is made from the book and from what is checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tenuto.core.rules import rules
from tenuto.sim.page import rules_page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_current():
    """`python -m tenuto.sim --rules > docs/rules.md` makes it so."""
    assert PAGE.read_text("utf-8") == rules_page()


def test_the_page_is_printed_and_has_every_rule():
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}  # the page is the same wherever it is made
    command = [sys.executable, "-m", "tenuto.sim", "--rules"]
    page = subprocess.run(command, capture_output=True, check=True, timeout=30, env=narrow).stdout.decode()

    assert page == rules_page()
    for found in rules().values():
        part = page.partition(f"\n### {found.id}\n")[2].partition("\n### ")[0]
        assert f"* {found.tier}, {found.severity}, " in part
        assert all(text in part for text in found.says)
        assert found.remedy in part
        assert "no reason is given" not in part
