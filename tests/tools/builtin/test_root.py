"""No path and no link leads out of the directory, also if a link is created at the wrong moment."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.tools import builtin_tools
from tenuto.tools.builtin import confined_dir as module
from tenuto.tools.builtin.confined_dir import ConfinedDir, split_path

SECRET = b"not for you"


@pytest.fixture
def root_dir(tmp_path):
    """Return a directory, next to one that its tools must not reach."""
    (tmp_path / "inside" / "sub").mkdir(parents=True)
    (tmp_path / "inside" / "sub" / "file.txt").write_bytes(b"seen")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    return tmp_path / "inside"


@pytest.fixture(params=["handles", "names"])
def open_method(request, monkeypatch):
    """Select a way to open files: relative to a directory handle, or by checking paths first."""
    monkeypatch.setattr(module, "_RELATIVE", request.param == "handles")


@pytest.mark.parametrize(
    "path, names",
    [("a/b", ("a", "b")), ("./a//b/.", ("a", "b")), ("", ()), (".", ()), ("~a", ("~a",)), ("aux.c", ("aux.c",))],
)
def test_path_is_split_into_names(path, names):
    assert split_path(path, windows=False) == names


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("path", ["..", "a/../b", "a/..", "/a", "//a/b", "~", "~/a", "a\0b", "\ud800"])
def test_path_outside_the_root_is_refused(path, windows):
    with pytest.raises(ValueError, match=r"outside the working directory|not a valid path"):
        split_path(path, windows=windows)


@pytest.mark.parametrize(
    "path",
    ["C:\\a", "c:a", "\\\\host\\share", "..\\a", "a\\..\\b", "NUL", "a/con.txt", "com1", "LPT¹", "a.", "a ", "a:b"],
)
def test_special_windows_names_are_refused(path):
    with pytest.raises(ValueError, match=r"outside the working directory|another meaning on Windows"):
        split_path(path, windows=True)


pieces = st.sampled_from(
    ["..", ".", "", "~", "sub", "file.txt", "up", "out", "abs", "loop", "secret.txt", "outside", "new", "x\\..", "C:"]
)
paths = st.lists(pieces, max_size=5).map("/".join) | st.lists(pieces, max_size=5).map(
    lambda names: "/" + "/".join(names)
)


@settings(max_examples=60, deadline=None)
@given(paths, st.booleans())
def test_no_path_leads_out_of_the_root(path, relative):
    """Every file that is read is inside, and no write changes a file outside."""
    messages: list[str] = []
    with tempfile.TemporaryDirectory() as base:
        inside, outside = Path(base, "inside"), Path(base, "outside")
        (inside / "sub").mkdir(parents=True)
        (inside / "sub" / "file.txt").write_bytes(b"seen")
        outside.mkdir()
        (outside / "secret.txt").write_bytes(SECRET)
        for name, target in (("up", ".."), ("out", "../outside"), ("abs", str(outside)), ("loop", "loop")):
            (inside / name).symlink_to(target)
            (inside / "sub" / name).symlink_to(target)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_RELATIVE", relative)
            patch.setattr(os, "fsync", lambda handle: None)
            tools = builtin_tools(inside)
            for name, arguments in (
                ("read_file", {}),
                ("write_file", {"content": "w"}),
                ("edit_file", {"old": "t", "new": "w"}),
            ):
                try:
                    assert SECRET.decode() not in tools[name](path, **arguments)
                except (ValueError, OSError) as exc:
                    messages.append(str(exc))

        assert {entry.name: entry.read_bytes() for entry in outside.iterdir()} == {"secret.txt": SECRET}
        assert {entry.name for entry in Path(base).iterdir()} == {"inside", "outside"}
        # messages do not contain the path of the directory
        assert not any(base in text for text in messages if path[:1] != "/")


@pytest.mark.usefixtures("open_method")
@pytest.mark.parametrize("path", ["link/secret.txt", "direct", "sub/back/secret.txt"])
def test_links_are_not_followed(root_dir, path):
    (root_dir / "link").symlink_to("../outside")
    (root_dir / "direct").symlink_to("../outside/secret.txt")
    (root_dir / "sub" / "back").symlink_to(root_dir.parent / "outside")
    tools = builtin_tools(root_dir)

    for name, arguments in (
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "n", "new": "x"}),
    ):
        with pytest.raises(PermissionError, match="is a link, and links are not followed"):
            tools[name](path, **arguments)
    assert (root_dir.parent / "outside" / "secret.txt").read_bytes() == SECRET


@pytest.mark.skipif(not module._RELATIVE, reason="this system cannot open files relative to a directory")
def test_link_swapped_in_concurrently_is_not_followed(root_dir, monkeypatch):
    """Another thread swaps a directory with a link to the outside while files are read and written."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    link, real, stop = root_dir / "link", root_dir / "real", threading.Event()
    real.mkdir()
    (real / "secret.txt").write_bytes(b"harmless")
    link.symlink_to("../outside")
    outcomes = set()

    def swap():
        spare = root_dir / "spare"
        while not stop.is_set():
            for one, other in ((real, link), (link, real)):
                one.rename(spare)
                other.rename(one)
                spare.rename(other)

    def tried(work):
        try:
            folder, name = root.open_parent("real/secret.txt")
            with folder:
                return work(folder, name)
        except OSError:
            return None

    thread, root = threading.Thread(target=swap), ConfinedDir(root_dir)
    thread.start()
    try:
        for _ in range(300):
            outcomes.add(tried(lambda folder, name: folder.read(name, 100)))
            tried(lambda folder, name: folder.write(name, b"harmless"))
    finally:
        stop.set()
        thread.join()

    assert outcomes <= {b"harmless", None}
    assert (root_dir.parent / "outside" / "secret.txt").read_bytes() == SECRET
    assert [entry.name for entry in (root_dir.parent / "outside").iterdir()] == ["secret.txt"]


@pytest.mark.skipif(not module._RELATIVE, reason="a path that is checked first is subject to a race")
def test_directory_swapped_after_stat_is_not_opened(root_dir, monkeypatch):
    """With directory handles: the opened file is not a link, whatever an earlier check saw."""
    folder = ConfinedDir(root_dir).open(())
    seen = folder.stat("sub")
    (root_dir / "sub").rename(root_dir / "moved")
    (root_dir / "sub").symlink_to("../outside")
    monkeypatch.setattr(type(folder), "stat", lambda self, name: seen)

    with folder, pytest.raises(OSError, match=r"^sub: "):
        folder.open_directory("sub")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_named_pipe_is_not_opened(root_dir):
    os.mkfifo(root_dir / "pipe")

    with pytest.raises(PermissionError, match="pipe is not a regular file"):
        builtin_tools(root_dir)["read_file"]("pipe")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipe_swapped_in_after_stat_does_not_block(root_dir, monkeypatch):
    folder = ConfinedDir(root_dir).open(("sub",))
    seen = folder.stat("file.txt")
    (root_dir / "sub" / "file.txt").unlink()
    os.mkfifo(root_dir / "sub" / "file.txt")
    monkeypatch.setattr(type(folder), "stat", lambda self, name: seen)

    with folder, pytest.raises(PermissionError, match="not a regular file"):
        folder.read("file.txt", 10)


def test_missing_root_is_refused(tmp_path):
    with pytest.raises(NotADirectoryError, match="is not a directory: choose an existing one"):
        builtin_tools(tmp_path / "nowhere")


@pytest.mark.usefixtures("open_method")
def test_no_handle_is_left_open(root_dir):
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not list open handles")
    tools = builtin_tools(root_dir)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for path in ("sub/file.txt", "sub/none", "none/file", "sub", "sub/file.txt/x"):
        try:
            tools["read_file"](path)
            tools["write_file"](path, "x")
        except OSError:
            continue
    tools["list_files"]()

    assert len(list(Path("/proc/self/fd").iterdir())) == before
