"""What the doctor finds: one line for each thing that was looked at, and what to do about it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import click

import tenuto
from tenuto import settings
from tenuto.errors import StoreError, TenutoError

__all__ = ["Finding", "State", "checked", "environment_findings", "terminal_findings"]

State = Literal["ok", "note", "warning", "problem"]
_NEEDED = ("msgspec", "aiohttp", "click", "rich")
_EXTRAS = {"postgres": "psycopg", "prices": "genai_prices", "pydantic": "pydantic"}
"""What can be installed besides, and the module that is there then."""


class Finding(NamedTuple):
    """Something that was looked at: `ok`; a `note`, which is good to know; a `warning`, which is not as it should be; or a
    `problem`, with which something does not work. `todo` is what to do about it. `damaged`: it is the store that is.
    """

    about: str
    state: State
    what: str
    todo: str = ""
    damaged: bool = False


def checked(about: str, check: Callable[[], Iterable[Finding]], *, stored: bool = False) -> Iterator[Finding]:
    """Yield what a check finds. One that cannot be made is a problem, and does not keep the others from being made.

    `stored`: it reads a store, and whatever goes wrong there is damage: what stands on a disk can be of any shape.
    """
    try:
        yield from check()
    except click.ClickException as exc:
        yield Finding(about, "problem", exc.format_message(), str(getattr(exc, "hint", "")))
    except StoreError as exc:
        yield Finding(about, "problem", str(exc), damaged=True)
    except (TenutoError, OSError, RuntimeError) as exc:  # RuntimeError: nobody knows where home is
        yield Finding(about, "problem", f"it cannot be looked at: {exc or type(exc).__name__}")
    except (ValueError, TypeError, LookupError, AttributeError) as exc:
        if not stored:  # a fault of ours, which is to be heard of
            raise
        what = f"what is in it is not what was written ({type(exc).__name__}: {exc})"
        yield Finding(about, "problem", what, "copy the file away, and fetch a backup if there is one", damaged=True)


# --- what it runs on --------------------------------------------------------------------------------------------------


def environment_findings() -> Iterator[Finding]:
    """Versions of everything that is used."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}".strip()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("tenuto", "ok", f"{tenuto.__version__}, {python}, {system}")
    versions = {name: _version(name) for name in _NEEDED}
    missing = [name for name, version in versions.items() if not version]
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if missing:
        yield Finding(
            "libraries", "problem", f"missing: {', '.join(missing)}", "install tenuto again: pip install tenuto"
        )
    else:
        yield Finding("libraries", "ok", told)
    here = {extra: _is_there(module) for extra, module in _EXTRAS.items()}
    absent = [extra for extra, there in here.items() if not there]
    present = ", ".join(extra for extra, there in here.items() if there) or "none"
    todo = f"pip install 'tenuto[{','.join(absent)}]' adds {' and '.join(absent)}" if absent else ""
    yield Finding("extras", "ok", present, todo)


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _is_there(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


# --- the terminal -----------------------------------------------------------------------------------------------------


def terminal_findings() -> Iterator[Finding]:
    """What can be shown and typed here."""
    from tenuto.cli.screen import looks

    how = looks()
    if not (how.out_live or how.err_live):
        yield Finding("terminal", "ok", "there is none: plain text")
    else:
        color = "color" if how.err_color else f"no color ({_plain()})"
        yield Finding("terminal", "ok", f"{settings.getenv('TERM') or 'unnamed'}, {color}")
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    if encoding.lower().replace("-", "") == "utf8":
        yield Finding("characters", "ok", "UTF-8")
    else:
        what = f"{encoding}: what it does not have is shown as \\u...."
        yield Finding("characters", "warning", what, "set PYTHONUTF8=1, or a locale with UTF-8 (LC_ALL=C.UTF-8)")
    if _is_there("readline"):
        yield Finding("line editing", "ok", "readline")
    else:
        todo = "pip install pyreadline3" if sys.platform == "win32" else "a Python that was built with readline has it"
        yield Finding("line editing", "note", "no readline: chat has no history and no editing", todo)


def _plain() -> str:
    return "NO_COLOR is set" if settings.getenv("NO_COLOR") else "stderr is none, or it is a dumb one"
