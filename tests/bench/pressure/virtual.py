"""The decisions of the operator about a scene in virtual time, by the code of ``operator_node``."""

from __future__ import annotations

from typing import Final

from bench.pressure.decisions import Decisions, evicted
from bench.pressure.operator_node import SCRAPE_SECONDS, OperatorNode, Variant
from bench.pressure.scene import Scene
from bench.pressure.world import World
from winpool.kubelet.schedule import BASE_INTERVAL, HOT_INTERVAL
from winpool.model.pressure import NodePressure

MAX_PODS: Final = 3
"""The default of ``maxPodsPerNode``."""


class _Seen(OperatorNode):
    """The operator, and what it knows."""

    def memory_at(self, now: float) -> NodePressure:
        return self._watched.memory_at(now)

    @property
    def is_hot(self) -> bool:
        return self._watched.is_hot


def decide(scene: Scene, variant: Variant) -> Decisions:
    """Return what the operator decides about the scene."""
    world, operator, decisions = World(scene), _Seen(scene, variant, max_pods=MAX_PODS), Decisions()
    calm_at = 0.0
    while (now := operator.due) < scene.seconds:
        world.step(now)
        if not operator.is_hot:
            calm_at = now
        # A node that was polled rarely a moment ago was found by one of those polls.
        interval = BASE_INTERVAL if now - calm_at <= BASE_INTERVAL else hot_interval(variant)
        for wish in operator.look(world):
            done = world.evict(wish.guest, by_api=wish.by_api)
            operator.answered(wish, done=done, world=world)
            if done:
                decisions.add(evicted(wish.guest.name), now, interval=interval)
        memory = operator.memory_at(now)
        decisions.note(now, memory.level, signalled=memory.is_signalled is True, interval=interval)
    return decisions


def hot_interval(variant: Variant) -> float:
    """Return the longest time between two samples of a hot node: a scrape, and the query that brings it."""
    return HOT_INTERVAL + (SCRAPE_SECONDS if len(variant.sources) > 1 else 0.0)
