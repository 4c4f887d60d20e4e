"""One control plane for all tests that harm one: each of them leaves it working again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.world import World
from testbed.cluster import Testbed
from testbed.control import ComponentState
from winpool.api.keys import CRD_NAME

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A control plane that only these tests use, and break."""
    with Testbed.up(
        directory=tmp_path_factory.mktemp("fragile"),
        apply=[ROOT / "deploy" / "overlays" / "outside-the-cluster"],
    ) as running:
        yield running


def restore(world: World) -> None:
    """Install the CRD of this version."""
    world.kubectl("apply", "-k", str(ROOT / "crds"))
    world.kubectl("wait", "--for=condition=Established", "crd", CRD_NAME, "--timeout=60s")


@pytest.fixture
def without_crd(fragile: Testbed, tmp_path: Path) -> Iterator[World]:
    """A world whose test may remove or replace the CRD; afterwards that of this version is there again."""
    mine = World(fragile, directory=tmp_path)
    try:
        yield mine
    finally:
        restore(mine)
        mine.close()


@pytest.fixture(autouse=True)
def works_again(fragile: Testbed) -> Iterator[None]:
    """Start what a failed test has left dead, so that it fails no other."""
    yield
    for each in fragile.components():
        if each.state is ComponentState.EXITED:
            fragile.component(each.name).start()
    fragile.component("apiserver").wait_ready()
