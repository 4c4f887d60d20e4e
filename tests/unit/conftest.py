"""How hard Hypothesis looks in the fast half: ``HYPOTHESIS_PROFILE=explore`` looks for minutes."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from harness.clock import Seconds

# The same examples on every machine, and no deadline: a shared machine that is slow is not a fault.
settings.register_profile(
    "ci",
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("ci"), max_examples=3000, stateful_step_count=60, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def clock() -> Seconds:
    """Give the test a clock of its own."""
    return Seconds()
