"""The image is built once a run, with its sizes and times below the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.conftest import testbed, world
from image.base import ensure_base
from image.before import BUILT_AS, COMMIT, NAME, Before, sources_of
from image.building import Image, Storage
from image.needs import BASE_VARIABLE
from testbed.paths import cache_directory

__all__ = ["testbed", "world"]

Measured = Callable[[str], None]

LINES: Final = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[LINES]:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Measured:
    """What it is called with stands below the results."""
    return request.config.stash[LINES].append


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """Where the images of this run are."""
    with Storage(tmp_path_factory.mktemp("storage")) as storage:
        yield storage


@pytest.fixture(scope="session")
def base(storage: Storage, measured: Measured) -> str:
    """The base that was named, else one of our own."""
    base = os.environ.get(BASE_VARIABLE) or storage.add_base(ensure_base(cache_directory()))
    measured(f"base: {base}")
    return base


@pytest.fixture(scope="session")
def image(storage: Storage, base: str, measured: Measured) -> Image:
    """The image of this tree."""
    built = storage.build(base=base)
    measured(f"build: {built.build_seconds:.0f} s")
    return built


@pytest.fixture(scope="session")
def before(storage: Storage, base: str, tmp_path_factory: pytest.TempPathFactory) -> Before:
    """The operator before winpool was installed by one command."""
    tree = sources_of(COMMIT, built_as=BUILT_AS, folder=tmp_path_factory.mktemp("before"))
    return Before(tree, storage.build(base=base, sources=tree, name=NAME))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where containers of a test have their bundles."""
    return tmp_path / "containers"
