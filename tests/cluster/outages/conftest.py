"""One control plane for all tests that harm one: each of them leaves it working again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cluster import Testbed
from testbed.control import ComponentState

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A control plane that only these tests use, and break."""
    with Testbed.up(
        directory=tmp_path_factory.mktemp("fragile"),
        apply=[ROOT / "deploy" / "overlays" / "outside-the-cluster"],
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def works_again(fragile: Testbed) -> Iterator[None]:
    """Start what a failed test has left dead, so that it fails no other."""
    yield
    for each in fragile.components():
        if each.state is ComponentState.EXITED:
            fragile.component(each.name).start()
    fragile.component("apiserver").wait_ready()
