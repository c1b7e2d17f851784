"""The form of the rule book: its fields, its texts, where it may name a provider; its page; the heads of images."""

from __future__ import annotations

import ast
import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tenuto.rules
from tenuto.catalog import PROVIDERS
from tenuto.rules import Rule, all_rules
from tenuto.rules.images import decode_head, decoded_size, read_head
from tenuto.rules.page import rules_page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
SOURCES = sorted(Path(tenuto.rules.__file__).parent.glob("*.py"))
RULES = list(all_rules().values())


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_rule_is_complete(rule: Rule):
    assert rule.summary.endswith(".")
    assert rule.remedy
    assert rule.source
    assert rule.severity != "refused" or rule.messages or rule.unchecked or rule.dialect == "cross"
    assert set(rule.refused_by) <= PROVIDERS.keys()
    assert set(rule.only) <= PROVIDERS.keys() | {"chat"}


def provider_names_outside_the_lists(tree: ast.AST) -> list[tuple[int, str]]:
    """Return the provider names that are not in `refused_by`, `accepted_by` or `only`, or in constants for them.

    The name of such a constant ends in `_HOSTS`; it is returned, too, if anything else uses it.
    """
    allowed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("refused_by", "accepted_by", "only"):
            allowed |= {id(inner) for inner in ast.walk(node.value)}
        if (
            isinstance(node, ast.Assign)
            and isinstance(name := node.targets[0], ast.Name)
            and name.id.endswith("_HOSTS")
        ):
            allowed |= {id(inner) for inner in ast.walk(node)}
        if isinstance(node, ast.For):  # a table of rules with their hosts
            allowed.add(id(node.iter))
    names = PROVIDERS.keys() - {"meta", "sim", "openai-chat", "openai-responses"}
    found = []
    for node in ast.walk(tree):
        is_provider = isinstance(node, ast.Constant) and node.value in names
        is_list = isinstance(node, ast.Name) and node.id.endswith("_HOSTS")
        if (is_provider or is_list) and id(node) not in allowed:
            found.append((node.lineno, ast.unparse(node)))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_rules_name_providers_only_in_lists(path: Path):
    assert provider_names_outside_the_lists(ast.parse(path.read_text("utf-8"))) == []


# --- docs/rules.md -----------------------------------------------------------------------------------------------------


def test_page_is_current_and_printed_in_any_encoding():
    """`python -m tenuto.sim --rules > docs/rules.md` writes it."""
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tenuto.sim", "--rules"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=30, env=ascii_only).stdout.decode()

    assert printed == rules_page() == PAGE.read_text("utf-8")


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


# --- images ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\2\0\0\3\4", ("image/png", 0x102, 0x304)),
        (b"\xff\xd8\xff\xe0\0\4ab\xff\xff\xc4\0\2\xff\xc2\0\x0b\x08\3\4\5\6\0", ("image/jpeg", 0x506, 0x304)),
        (b"\xff\xd8\xff\xe0\0\4ab", ("image/jpeg", 0, 0)),
        (b"GIF89a\5\6\7\x08", ("image/gif", 0x605, 0x807)),
        (b"RIFF....WEBPVP8X....\0\0\0\0\1\2\0\3\4\0", ("image/webp", 0x202, 0x404)),
        (b"RIFF....WEBPVP8L....\x2f\1\x80\0\0", ("image/webp", 2, 3)),
        (b"RIFF....WEBPVP8 ....\0\0\0\x9d\1\x2a\5\6\7\x08", ("image/webp", 0x605, 0x807)),
        (b"RIFF....WEBP????", ("image/webp", 0, 0)),
        (b"%PDF", ("", 0, 0)),
    ],
)
def test_head_of_image_has_type_and_size(data, expected):
    assert read_head(data) == expected


def test_base64_is_decoded_at_its_start():
    data = base64.b64encode(b"ab" * 300_000).decode()

    assert decode_head(data).startswith(b"abab")
    assert decode_head("not base64!") == b""
    assert decoded_size(data) == 600_000
