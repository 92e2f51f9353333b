"""The one writer of files: whole or not at all, under a name that nobody can guess."""

import errno
import os
import re
import stat
from pathlib import Path

import pytest

import dkmeans
from dkmeans import atomic

posix = pytest.mark.skipif(os.name != "posix", reason="file modes and links as POSIX has them")


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("before")
    return path


def test_the_old_file_is_there_until_the_new_one_is_whole(target):
    with atomic.replacing(target) as file:
        file.write(b"after")
        file.flush()
        assert target.read_text() == "before"
    assert target.read_text() == "after"
    assert os.listdir(target.parent) == ["file.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_behind_after_an_error(target, error):
    def fail():
        with atomic.replacing(target) as file:
            file.write(b"after")
            raise error

    with pytest.raises(error):
        fail()
    assert target.read_text() == "before"
    assert os.listdir(target.parent) == ["file.csv"]


@posix
def test_a_name_that_is_taken_is_not_written_through(target, monkeypatch):
    precious = target.parent / "precious.txt"
    precious.write_text("precious")
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda n: "guessed")
    (target.parent / ".dkmeans-guessed.tmp").symlink_to(precious)
    with pytest.raises(FileExistsError, match=re.escape("file.csv")):
        atomic.write_atomically(target, b"after")
    assert (precious.read_text(), target.read_text()) == ("precious", "before")


def test_names_differ_each_time(target):
    seen = set()
    for _ in range(3):
        with atomic.replacing(target):
            seen |= set(os.listdir(target.parent))
    assert len(seen) == 4


@posix
def test_rights_are_those_of_a_new_file_or_of_the_replaced_one(target):
    old = os.umask(0o027)
    try:
        atomic.write_atomically(target.parent / "new.csv", b"")
        target.chmod(0o600)
        atomic.write_atomically(target, b"after")
    finally:
        os.umask(old)
    modes = [stat.S_IMODE((target.parent / name).stat().st_mode) for name in ("new.csv", target)]
    assert modes == [0o640, 0o600]


@posix
def test_names_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("\N{GRINNING FACE}" * 62 + ".csv")
    atomic.write_atomically(path, b"x")
    assert path.read_bytes() == b"x"


@posix
def test_devices_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a device or a pipe, which cannot be replaced"):
        atomic.write_atomically(tmp_path / "pipe", b"x")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_a_folder_that_is_read_only_is_named(target, monkeypatch):
    monkeypatch.setattr(atomic.os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="cannot be written to: name another"):
        atomic.write_atomically(target, b"x")


def test_a_full_disk_names_the_file_and_leaves_the_old_one(target, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic.write_atomically(target, b"after")
    assert caught.value.filename == str(target)
    assert target.read_text() == "before"
    assert os.listdir(target.parent) == ["file.csv"]


def test_no_other_module_writes_files():
    writing = re.compile(
        r"os\.replace|os\.rename|mkstemp|NamedTemporary|\.write_text|\.write_bytes"
        r"|open\([^)\n]*[\"'](w|a|x|r\+)b?[\"']|savefig\((?!file|buffer)|np\.savez?\((?!file)"
    )
    package = Path(dkmeans.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.name != "atomic.py"
        for line in path.read_text("utf-8").splitlines()
        if writing.search(line)
    ]
    assert not found
