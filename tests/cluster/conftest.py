"""One control plane for each worker of the run; each test has a world of its own in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.guarding import Guard
from cluster.together import Played, Together
from harness.faulty import through_proxy
from harness.streams import Stage, Theatre
from harness.world import World
from testbed.build import ensure_binary
from testbed.cluster import Testbed
from testbed.faults import FaultProxy
from testbed.options import Options

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def kubectl_of_the_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put the testbed's kubectl on the PATH, which the plugin speaks through."""
    folder = tmp_path_factory.mktemp("kubectl")
    (folder / "kubectl").symlink_to(ensure_binary())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        patch.setenv("KUBECACHEDIR", str(folder / "cache"))
        patch.setenv("KUBERC", "off")
        yield


@pytest.fixture(scope="session")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A real control plane with winpool's CRD and rights installed; no nodes yet."""
    with Testbed.up(
        directory=tmp_path_factory.mktemp("testbed"),
        apply=[ROOT / "deploy" / "overlays" / "outside-the-cluster"],
    ) as running:
        yield running


@pytest.fixture
def world(testbed: Testbed, tmp_path: Path) -> Iterator[World]:
    """A corner of the cluster for one test; what it leaves there fails it."""
    mine = World(testbed, directory=tmp_path)
    try:
        yield mine
    finally:
        mine.close()


@pytest.fixture(scope="session")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A control plane with simulated nodes that takes silence for death after six seconds, not fifty."""
    options = Options(lease_duration_seconds=4, node_monitor_grace_seconds=6)
    directory = tmp_path_factory.mktemp("hasty")
    with Testbed.up(directory=directory, windows=3, linux=1, options=options) as running:
        yield running


@pytest.fixture(scope="session")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """A control plane in which tests take the guard of our keys away and put it back."""
    with Testbed.up(
        directory=tmp_path_factory.mktemp("guard"),
        apply=[ROOT / "deploy" / "overlays" / "outside-the-cluster"],
    ) as running:
        yield Guard(running)


@pytest.fixture
def unguarded(guard: Guard, tmp_path: Path) -> Iterator[World]:
    """A world in that control plane, without the guard at the start."""
    guard.lift()
    mine = World(guard.testbed, directory=tmp_path)
    try:
        yield mine
    finally:
        mine.close()


@pytest.fixture
def proxy(world: World) -> Iterator[FaultProxy]:
    """The way of this world's operator to the API server, which can be told to do harm."""
    with through_proxy(world) as between:
        yield between


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The scenarios of memory pressure of one file that were chosen, all of which have begun."""
    together: Together = request.module.together
    chosen = {item.name for item in request.session.items if item.parent is request.node}
    with together.playing(chosen, tmp_path_factory.mktemp("memory")) as begun:
        yield begun


@pytest.fixture(scope="module")
def theatre(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """What the tests of broken streams of one file share; none of them needs more than 12 nodes."""
    with Theatre(testbed, directory=tmp_path_factory.mktemp("streams"), nodes=12) as theatre:
        yield theatre


@pytest.fixture
def stage(theatre: Theatre) -> Iterator[Stage]:
    """A converged pool behind a proxy, as the test before found it."""
    with theatre.stage() as stage:
        yield stage
