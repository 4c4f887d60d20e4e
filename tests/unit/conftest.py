"""How many examples Hypothesis tries: few where people wait, many by ``explore``; no thread left."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from harness.clock import Seconds
from harness.documents import ROOT

EXAMPLES = 40
ENDING_SECONDS = 10
"""How long the threads of a file that were told to end may take; a generous guard."""

# The same examples on every machine, and no deadline: a shared machine that is slow is not a fault.
settings.register_profile(
    "ci",
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# Those that people wait for: "few" is for ``make quick``, "first" for ``make check`` and ``make test``.
settings.register_profile(
    "few", settings.get_profile("ci"), max_examples=EXAMPLES // 10, stateful_step_count=10
)
settings.register_profile(
    "first", settings.get_profile("ci"), max_examples=EXAMPLES // 4, stateful_step_count=15
)
settings.register_profile(
    "explore",
    settings.get_profile("ci"),
    max_examples=10 * EXAMPLES,
    stateful_step_count=60,
    derandomize=False,
    # What failed is tried first by the next run, until it passes.
    database=DirectoryBasedExampleDatabase(ROOT / ".explore" / "examples"),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_finish() -> None:
    """Look for no garbage in what was collected, thousands of tests: a tenth of the time."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_leaked_thread() -> Iterator[None]:
    """Fail a file whose threads run on: they take the time of the tests after it, and seldom fail one.

    Those of a ``Kubectl`` wait, and end with it.
    """
    before = {*threading.enumerate()}
    yield
    left = [thread for thread in {*threading.enumerate()} - before if not thread.name.startswith("kubectl_")]
    deadline = time.monotonic() + ENDING_SECONDS
    for thread in left:
        thread.join(max(0, deadline - time.monotonic()))
    still = [thread.name for thread in left if thread.is_alive()]
    assert not still, f"left running: {still}"


@pytest.fixture
def clock() -> Seconds:
    """Give the test a clock of its own."""
    return Seconds()
