"""What a pool has told, and when: its conditions and issues, and what stood there before what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.waiting import eventually
from harness.watcher import Watcher, version_of
from harness.world import World

Object = dict[str, Any]


def facts(status: Object) -> dict[str, tuple[str, str]]:
    """Return status and reason of the conditions in the status of a pool."""
    return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", [])}


def issues(status: Object, reason: str) -> list[Object]:
    """Return the issues with that reason in the status of a pool."""
    return [each for each in status.get("issues", []) if each["reason"] == reason]


def about(status: Object, reason: str) -> set[str]:
    """Return the names of the nodes that issues with that reason name: of each the first three."""
    return {name for each in issues(status, reason) for name in each["nodes"]}


def words(found: list[Object]) -> str:
    """Return all that these issues say to people."""
    return "\n".join(f"{' '.join(each['nodes'])}: {each['message']} {each['fix']}" for each in found)


def expect(world: World, pool: str, **conditions: tuple[str, str]) -> Object:
    """Return the status once it tells of the current generation and its conditions say this."""

    def told() -> Object:
        found = world.get("wnp", pool)
        status: Object = found.get("status", {})
        assert status.get("observedGeneration") == found["metadata"]["generation"]
        said = facts(status)
        assert {kind: said.get(kind) for kind in conditions} == conditions
        return status

    return eventually(told, what=f"{pool} says {conditions}")


def stood_first(witness: Watcher, test: Callable[[Object], bool]) -> int:
    """Return when the first state that passes the test was stored: a version, see ``version_of``."""
    versions = [version_of(each) for states in witness.states.values() for each in states if test(each)]
    assert versions, "no object was ever like that"
    return min(versions)
