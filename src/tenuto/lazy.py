"""Packages that load their public names on first use, so that importing them is fast."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def import_lazily(
    package: str, names_by_module: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package, from the names in modules, separated by spaces."""
    modules = {name: module for module, names in names_by_module.items() for name in names.split()}

    def load_name(name: str) -> object:
        import importlib
        import sys

        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return [*modules], load_name, lambda: [*modules]
