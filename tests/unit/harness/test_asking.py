"""What tests ask as kubectl would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from harness import asking
from testbed.api import Api


class Echo:
    """An API server that answers with the path that it was asked for."""

    def get(self, path: str, **_: str) -> dict[str, Any]:
        return {"metadata": {"name": path}}


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Let the interpreter switch between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
def test_many_threads_ask_at_the_same_time() -> None:
    api = cast("Api", Echo())

    def ask(number: int) -> str:
        return str(asking.get(api, "wnp", f"p{number}")["metadata"]["name"])

    with ThreadPoolExecutor(max_workers=8) as threads:
        found = list(threads.map(ask, range(400)))
    assert found == [f"{asking.CLUSTER_SCOPED['wnp']}/p{number}" for number in range(400)]
