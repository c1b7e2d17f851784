"""The form of the rule book: its fields, its texts, and where it may name a provider."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tenuto.rules
from tenuto.catalog import PROVIDERS
from tenuto.rules import Rule, all_rules

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
