"""Run all property tests with new random examples for some minutes: `make fuzz MINUTES=60`.

The tests are the hypothesis tests of `make test`. They run in rounds until the time is up, each
round with new examples. Every counterexample is appended to a file as one line: the test, and the
example as a decorator for it. At the end, the number of examples per test is printed; the exit
status is 1 if any test failed.
"""

import argparse
import functools
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest


class Fuzz:
    """A pytest plugin that counts examples, records failures, and stops when the time is up."""

    def __init__(self, minutes: float, found: Path) -> None:
        self._end, self._found = time.monotonic() + 60 * minutes, found
        self.tried: Counter[str] = Counter()
        self.failed: dict[str, str] = {}  # counterexamples by test
        self._last: dict[str, str] = {}  # the last example of each test that failed

    @property
    def is_over(self) -> bool:
        """Whether time is up."""
        return time.monotonic() >= self._end

    @pytest.hookimpl(trylast=True)  # after deselection of tests without examples
    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Wrap the tests to count examples; sort them by number of examples tried."""
        for item in items:
            test = item.obj.hypothesis
            if not hasattr(test.inner_test, "is_watched"):
                test.inner_test = self._watched(_name(item.nodeid), test.inner_test)
        items.sort(key=lambda item: self.tried[_name(item.nodeid)])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a counterexample: the last failing one is the smallest."""
        if report.failed:
            line = f"{report.nodeid}  {self._last.get(_name(report.nodeid))}"
            with self._found.open("a") as file:
                file.write(line + "\n")
            self.failed[line] = report.longreprtext

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Stop in the middle of a round if the time is up."""
        if self.is_over:
            self.session.shouldstop = "time is up"

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session of the round."""
        self.session = session

    def _watched(self, name: str, inner: Any) -> Any:
        @functools.wraps(inner)
        def watched(*args: Any, **example: Any) -> Any:
            self.tried[name] += 1
            try:
                return inner(*args, **example)
            except Exception:
                self._last[name] = _as_decorator(example)
                raise

        watched.is_watched = True  # type: ignore[attr-defined]
        return watched


def _name(nodeid: str) -> str:
    """Return the name of a test without its parameters."""
    return nodeid.partition("[")[0]


def _as_decorator(example: dict[str, Any]) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique", linewidth=sys.maxsize):
        values = ", ".join(f"{name}={value!r}" for name, value in example.items())
    return f"@example({' '.join(values.split())})"


def main() -> int:
    """Run rounds until the time is up, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found.txt"))
    parser.add_argument("tests", nargs="*", default=["tests"])
    options = parser.parse_args()
    fuzz = Fuzz(options.minutes, options.found)
    arguments = ["-m", "hypothesis and not faults", "--hypothesis-profile=fuzz", "--quiet"]
    arguments += ["-p", "no:cacheprovider", "--no-summary", "--tb=no", *options.tests]
    while not fuzz.is_over:
        status = pytest.main(arguments, plugins=[fuzz])
        if status == pytest.ExitCode.INTERRUPTED:  # time is up, or Ctrl-C
            break
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return int(status)
    for name, count in sorted(fuzz.tried.items()):
        print(f"{count:7}  {name}")
    print(f"{fuzz.tried.total():7}  examples in all, {len(fuzz.failed)} counterexamples")
    for line, told in fuzz.failed.items():
        print(f"\n{line}\n{told}")
    return 1 if fuzz.failed else 0


if __name__ == "__main__":
    sys.exit(main())
