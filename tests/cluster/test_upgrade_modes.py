"""Whatever stops the operator takes a permission to upgrade back, writes nothing else, and gives it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.upgrade_ground import HOLD, Ground, ground_in, pool_of, upgrade
from cluster.upgrade_told import (
    expect_allowed,
    expect_states,
    foreign_changes,
    named_in,
    told_states,
    why,
)
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

TARGET = {"version": "2022", "targetRevision": 4171}
IMPOSSIBLE = {"schedule": "0 22 * * 6", "durationSeconds": 14400, "timeZone": "Mars/Olympus_Mons"}
"""The API server cannot know time zones, so that it takes it; the operator does not accept the spec."""


STOPPED = {
    "paused": ("PausedBySpec", "PausedBySpec"),
    "dryrun": ("DryRun", "DryRun"),
    "held": ("NodesGated", "Held"),
    "refused": ("SpecRejected", None),
    "requested": ("PauseRequested", "PauseRequested"),
}
"""By the pool: the reason of UpgradeAllowed=False, and the stop that its message names."""


class Pools:
    """One pool with a due node for each way to stop it, and one with two nodes, of which one has its turn."""

    def __init__(self, ground: Ground) -> None:
        self.world = ground.world
        self._ground = ground
        self.acted, self.waiting = (ground.join("2022", 1607, pool="acted") for _ in range(2))
        self.nodes = {key: ground.join("2022", 1607, pool=key) for key in ("active", *STOPPED)}
        ground.wait_settled()
        self.names = {key: self.world.apply(self._manifest(key)) for key in self.nodes}
        asked = upgrade(self.world, maxUnavailable=1)
        self.one_at_a_time = self.world.apply(pool_of(self.world, "acted", os=TARGET, upgrade=asked))

    def _manifest(self, key: str, *, mode: str = "Active", **fields: Any) -> Object:
        asked = upgrade(self.world, **fields)
        # Labels of the pool that are only asked for while it is stopped must not be written.
        labels = {"example.com/late": "1"} if mode != "Active" or fields else {}
        return pool_of(self.world, key, mode=mode, os=TARGET, upgrade=asked, labels=labels)

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all pools."""
        return (*self.names.values(), self.one_at_a_time)

    def stop(self) -> None:
        """Stop each in its way; and an actor begins with the one of two nodes that has the permission."""
        self.world.kubectl("cordon", self.acted)
        self.world.apply(self._manifest("paused", mode="Paused"))
        self.world.apply(self._manifest("dryrun", mode="DryRun"))
        self._ground.annotate(self.nodes["held"], HOLD, "")
        self.world.apply(self._manifest("refused", maintenanceWindows=[IMPOSSIBLE]))
        for owner in ("sre", "release"):
            self.request(owner, pause=True)

    def resume(self) -> None:
        """Undo that, but for one of the two that ask for a pause."""
        for key in ("paused", "dryrun", "refused"):
            self.world.apply(self._manifest(key))
        self._ground.annotate(self.nodes["held"], HOLD, None)
        self.request("release", pause=False)

    def request(self, owner: str, *, pause: bool) -> None:
        """Ask for a pause, or take the request back, by server-side apply as one of many owners."""
        requests = [{"owner": owner, "reason": f"incident of {owner}"}] if pause else []
        manifest = {
            "apiVersion": "winpool.dev/v1alpha1",
            "kind": "WindowsNodePool",
            "metadata": {"name": self.names["requested"]},
            "spec": {"upgrade": {"pauseRequests": requests}} if pause else {},
        }
        self.world.kubectl(
            "apply", "--server-side", f"--field-manager={owner}", "-f", "-", stdin=json.dumps(manifest)
        )

    def expect(self, states: dict[str, str]) -> None:
        """Return when the nodes of these pools are labelled so."""
        expect_states(self.world, {self.nodes[key]: state for key, state in states.items()})


@pytest.mark.timeout(900)  # a guard: it waits for labels, which gates change once in a while only
def test_a_permission_is_taken_back_by_every_stop_and_given_again_afterwards(world: World) -> None:
    with ground_in(world) as ground:
        pools = Pools(ground)
        world.operator.start()
        for name in pools.all:
            expect_allowed(world, name, "True", "UpgradeAllowed")
        pools.expect(dict.fromkeys(pools.names, "Required"))
        expect_states(world, {pools.acted: "Required", pools.waiting: "Gated"})
        before = world.carried()
        with world.watch_nodes() as witness:
            start = world.now()
            pools.stop()
            for key, (reason, stop) in STOPPED.items():
                message = told(world, pools.names[key], reason)
                assert stop is None or stop in named_in(message), message
            message = expect_allowed(world, pools.one_at_a_time, "False", "Budget")
            assert f"The upgrade has begun on 1 node ({pools.acted})." in message
            pools.expect({"active": "Required", **dict.fromkeys(STOPPED, "Gated")})
            codes = {key: why(world, pools.nodes[key])[0] for key in ("active", "paused", "held")}
            assert codes == {"active": 1, "paused": 3, "held": 3}, "without --leader-elect no yes is certain"
            stopped = world.carried()
            # The one write: the permission is gone, and nothing of what the stopped pools ask for came.
            assert ours_changed(before, stopped) == {pools.nodes[key] for key in STOPPED}
            # What people have changed: the hold, and the cordon of the actor.
            assert foreign_changes(before, stopped).keys() == {pools.nodes["held"], pools.acted}
            # A patch that came too late for what it was based on has changed nothing.
            patches = world.patched_nodes(since=start)
            assert sorted({*patches}) == sorted(pools.nodes[key] for key in STOPPED)
            assert len(patches) == len(set(patches))

            pools.resume()
            for key in STOPPED.keys() - {"requested"}:
                expect_allowed(world, pools.names[key], "True", "UpgradeAllowed")
            eventually(
                lambda: "release" not in told(world, pools.names["requested"], "PauseRequested"),
                what="only the other one asks for a pause",
            )
            assert "sre" in told(world, pools.names["requested"], "PauseRequested")
            pools.request("sre", pause=False)
            expect_allowed(world, pools.names["requested"], "True", "UpgradeAllowed")
            pools.expect(dict.fromkeys(pools.names, "Required"))
            # No one may begin with a second node; that of the actor keeps its permission to the end.
            expect_states(world, {pools.acted: "Required", pools.waiting: "Gated"})
            witness.catch_up(world.nodes().values())
        said = told_states(witness)
        assert said.pop(ground.first) == [None]  # of no pool
        assert said.pop(pools.nodes["active"]) == said.pop(pools.acted) == ["Required"]
        assert said.pop(pools.waiting) == ["Gated"]
        assert set(map(tuple, said.values())) == {("Required", "Gated", "Required")}
        assert world.requests(since=start) != []
        assert [each.uri for each in world.writes(since=start) if each.resource == "pods"] == []
        for name in pools.all:
            world.delete(name)


def told(world: World, pool: str, reason: str) -> str:
    """Return the message of UpgradeAllowed once it is False for this reason, whatever else it names."""

    def seen() -> str:
        found = world.condition(pool, "UpgradeAllowed")
        assert (found.get("status"), found.get("reason")) == ("False", reason), found
        return str(found["message"])

    return eventually(seen, what=f"{pool} is stopped by {reason}")


def ours_changed(before: dict[str, Object], after: dict[str, Object]) -> set[str]:
    """Return the nodes of which a label differs."""
    return {name for name in before if before[name]["labels"] != after[name]["labels"]}
