"""Docstrings in the three common styles have the same result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.tools.signature import read_docstring

GOOGLE = """Fetch a page.

    It is read as text.

    Args:
        url: where it is,
            scheme: included
        depth (int, optional): how far

            to go
        *rest: the others

    Returns:
        url: the text
    """
SPHINX = """Fetch a page.

    It is read as text.

    :param str url: where it is,
        scheme: included
    :type depth: int
    :param depth: how far
        to go
    :param rest: the others
    :raises OSError: if it fails
        in any way
    :return: the text
    """
NUMPY = """Fetch a page.

    It is read as text.

    Parameters
    ----------
    url : str
        where it is,
        scheme: included
    depth : int, optional
        how far
        to go
    rest
        the others

    Returns
    -------
    str
        the text
    """


@pytest.mark.parametrize("text", [GOOGLE, SPHINX, NUMPY])
def test_all_styles_have_the_same_result(text):
    assert read_docstring(text) == (
        "Fetch a page.\n\nIt is read as text.",
        {"url": "where it is, scheme: included", "depth": "how far to go", "rest": "the others"},
    )


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_empty_docstring(text):
    assert read_docstring(text) == ("", {})


@pytest.mark.parametrize(
    "text", ["Args are not: listed.", "It sees:\n\nx: y", "Parameters\nare many", "A :class:`Page`: big", ":return: it"]
)
def test_text_that_resembles_a_list_is_description(text):
    assert read_docstring(text) == (text, {})


def test_docstring_with_only_a_list():
    assert read_docstring("Args:\n        x: one\n          more\n        y: two\n    ") == (
        "",
        {"x": "one more", "y": "two"},
    )


def test_names_may_share_one_description():
    assert read_docstring("Parameters\n----------\nx, y : int\n    a place")[1] == {"x": "a place", "y": "a place"}


def test_empty_list_has_no_descriptions():
    assert read_docstring("Do.\n\nArgs:\n    only prose here\n    and empty:\n") == ("Do.", {})


@given(
    st.lists(
        st.sampled_from(["Args:", "  x: y", "    z", ":param x: y", "Parameters", "----------", "x : int", "", ":x"])
    )
)
def test_any_docstring_is_read(lines):
    description, parameters = read_docstring("\n".join(lines))

    assert " ".join(description.split()) in " ".join("\n".join(lines).split())
    assert all(name and text for name, text in parameters.items())
