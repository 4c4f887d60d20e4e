"""Tests that wait for minutes, all of one file at the same time on one control plane.

Each is a function that gets a scenario with nodes and a pool of its own. All that were chosen begin when the
first of them does; a test is passed or failed by what became of its scenario.

.. code-block:: python

    pytestmark = WHOLE_FILE
    together = Together()

    @together(nodes=1)
    def test_a_node_is_marked(scene: Scene) -> None: ...

The fixture ``played`` finds ``together`` in the file by that name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.memory_scene import Scene
from cluster.memory_world import ground

WHOLE_FILE: Final = pytest.mark.timeout(900)
"""For all tests of such a file: the first one waits for the control plane, the last one for all others. Each
scenario has guards of its own, which end before."""


@dataclass(frozen=True)
class Planned:
    """A scenario: what it does, and on how many nodes."""

    play: Callable[[Scene], None]
    nodes: int
    blind: bool


@dataclass(frozen=True)
class Played:
    """The scenarios that have begun, by the names of their tests."""

    running: dict[str, Future[None]]

    def end(self, name: str) -> None:
        """Wait for the end of a scenario; raise what it raised."""
        self.running[name].result()


class Together:
    """The scenarios of one file."""

    def __init__(self) -> None:
        self._planned: dict[str, Planned] = {}

    def __call__(
        self, *, nodes: int = 1, blind: bool = False
    ) -> Callable[[Callable[[Scene], None]], Callable[[Played], None]]:
        """Make a test of a function that gets a scenario.

        Args:
            nodes: how many it needs.
            blind: their kubelets do not report the commit of pods.

        """

        def make(play: Callable[[Scene], None]) -> Callable[[Played], None]:
            name = play.__name__
            self._planned[name] = Planned(play, nodes, blind)

            def test(played: Played) -> None:
                played.end(name)

            named: Callable[[Played], None] = _named(test, play)
            return named

        return make

    def each(
        self, values: Sequence[str], *, nodes: int = 1
    ) -> Callable[[Callable[[Scene, Any], None]], Callable[[Played, str], None]]:
        """Make a test for each value of a function that gets a scenario and a value."""

        def make(play: Callable[[Scene, Any], None]) -> Callable[[Played, str], None]:
            name = play.__name__

            def bound(value: str) -> Callable[[Scene], None]:
                return lambda scene: play(scene, value)

            for value in values:
                self._planned[f"{name}[{value}]"] = Planned(bound(value), nodes, blind=False)

            def test(played: Played, value: str) -> None:
                played.end(f"{name}[{value}]")

            marked: Callable[[Played, str], None] = pytest.mark.parametrize("value", values)(
                _named(test, play)
            )
            return marked

        return make

    @contextmanager
    def playing(self, chosen: Collection[str], directory: Path) -> Iterator[Played]:
        """Begin those of these tests that are planned here, and wait for all of them at the end."""
        planned = {name: each for name, each in self._planned.items() if name in chosen}
        needed = {
            blind: sum(each.nodes for each in planned.values() if each.blind is blind)
            for blind in (False, True)
        }
        with ground(directory, seeing=needed[False], blind=needed[True]) as stage:
            free = {
                False: [each for each in stage.fleets if each not in stage.blind],
                True: list(stage.blind),
            }
            scenes = []
            for number, (name, each) in enumerate(planned.items()):
                nodes = [free[each.blind].pop(0) for _ in range(each.nodes)]
                scenes.append((name, each, Scene(stage, key=f"s{number:02d}", nodes=nodes)))
            with ThreadPoolExecutor(max_workers=len(planned)) as threads:
                running = {name: threads.submit(each.play, scene) for name, each, scene in scenes}
                yield Played(running)
            for _, _, scene in scenes:
                scene.pods.close()


def _named(test: Any, play: Callable[..., None]) -> Any:
    test.__name__, test.__qualname__ = play.__name__, play.__qualname__
    test.__doc__, test.__module__ = play.__doc__, play.__module__
    return test
