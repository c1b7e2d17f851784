"""docs/rules.md is written from the rule book."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenuto.rules.page import rules_page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_page_is_current():
    """`python -m tenuto.sim --rules > docs/rules.md` writes it."""
    assert PAGE.read_text("utf-8") == rules_page()


def test_page_is_printed_in_any_encoding():
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tenuto.sim", "--rules"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=30, env=ascii_only).stdout.decode()

    assert printed == rules_page()


@pytest.mark.parametrize("imported", ["audit.tokens", "sim.anthropic", "sim.responses"])
def test_order_of_rules_does_not_depend_on_imports(imported):
    code = f"import tenuto.{imported}; from tenuto.rules.page import rules_page; print(rules_page(), end='')"
    utf8 = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=30, env=utf8).stdout.decode()

    assert printed.splitlines() == PAGE.read_text("utf-8").splitlines()


def test_page_shows_every_part_of_a_rule():
    page = rules_page()
    row = next(line for line in page.splitlines() if "</a>GEM-PARAM-13 |" in line)
    details = page.partition("<summary>GEM-PARAM-13</summary>")[2].partition("</details>")[0]

    assert row == '| <a id="gem-param-13"></a>GEM-PARAM-13 | The output limit is at least 1. | refused | all | yes |'
    assert "* message: `Unable to submit request because it has a maxOutputTokens value of {value}" in details
    assert "* status: 400, type `INVALID_ARGUMENT`" in details
    assert "* remedy: Leave `maxOutputTokens` out, or send a positive number." in details
    assert "* source (practice, 2025-01): bolt.diy#955" in details
