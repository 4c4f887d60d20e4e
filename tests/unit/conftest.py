"""How many examples Hypothesis tries: fewer where people wait, ten times as many by ``make explore``."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from harness.clock import Seconds
from harness.documents import ROOT

EXAMPLES = 40

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


@pytest.fixture
def clock() -> Seconds:
    """Give the test a clock of its own."""
    return Seconds()
