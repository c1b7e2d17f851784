"""Vectors of texts in a file."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tenuto.errors import StoreError
from tenuto.store.vectors import VectorFile


@pytest.mark.skipif(sys.platform != "linux", reason="reads the open files of this process from /proc")
def test_refused_file_is_closed(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (a)")
    with pytest.raises(StoreError, match="is another kind of database"):
        VectorFile(path)

    directory = Path("/proc/self/fd")
    assert str(path) not in {str(one.readlink()) for one in list(directory.iterdir()) if one.is_symlink()}
