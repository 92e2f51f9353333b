"""The C library of a worker keeps freed memory while rows are held, and only then."""

import gc

from dkmeans.runners.allocator import (
    DEFAULT_MMAP_BYTES,
    KEPT_BYTES,
    LARGE_BYTES,
    M_MMAP_THRESHOLD,
    M_TRIM_THRESHOLD,
    MOST_MMAP_BYTES,
    VARIABLE,
    Allocator,
)


class Library:
    """Records calls."""

    def __init__(self):
        self.calls = []

    def mallopt(self, option, value):
        self.calls.append((option, value))

    def malloc_trim(self, pad):
        self.calls.append(pad)


class User:
    """Something that holds rows."""


def test_settings_last_as_long_as_the_last_user(monkeypatch):
    monkeypatch.setenv(VARIABLE, "65536")
    library = Library()
    allocator = Allocator(lambda: library)
    users = [User(), User()]
    for user in users:
        allocator.keep_memory_for(user)
    kept = [(M_MMAP_THRESHOLD, MOST_MMAP_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES)]
    assert library.calls == kept
    del user, users[0]
    gc.collect()
    assert library.calls == kept
    del users
    gc.collect()
    restored = [(M_MMAP_THRESHOLD, DEFAULT_MMAP_BYTES), (M_TRIM_THRESHOLD, 65536), 0]
    assert library.calls == kept + restored


def test_processes_that_reuse_memory_and_other_libraries_are_left_alone(monkeypatch):
    library = Library()
    monkeypatch.delenv(VARIABLE, raising=False)
    Allocator(lambda: library).keep_memory_for(User())
    assert not library.calls
    monkeypatch.setenv(VARIABLE, "65536")
    Allocator(object).keep_memory_for(User())


def test_memory_is_returned_after_large_results():
    library = Library()
    allocator = Allocator(lambda: library)
    allocator.trim_after(LARGE_BYTES - 1)
    assert not library.calls
    allocator.trim_after(LARGE_BYTES)
    assert library.calls == [0]
    Allocator(object).trim_after(LARGE_BYTES)
