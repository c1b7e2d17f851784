"""Helpers for tests of the SQLite store."""

from __future__ import annotations

import asyncio
import os
import warnings

from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine


def run(path, action, *, engine=None, **options):
    """Call a coroutine function with a store at a path; return its result."""

    async def play():
        async with SqlStore(engine or SqliteEngine(path), **options) as store:
            return await action(store)

    return asyncio.run(play())


def run_in_child(action, user=None):
    """Run a function in a child process, as another user if one is given; return its result or error as text."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a child of a process with threads does only this
        child = os.fork()
    if not child:
        output = "the child ended without a result"
        if user is not None:
            os.setgid(user)
            os.setuid(user)
        try:
            output = str(action())
        except Exception as error:
            output = f"{type(error).__name__}: {error}"
        finally:
            os.write(there, output.encode())
            os._exit(0)
    os.close(there)
    output = b"".join(iter(lambda: os.read(here, 4096), b"")).decode()
    os.close(here)
    os.waitpid(child, 0)
    return output
