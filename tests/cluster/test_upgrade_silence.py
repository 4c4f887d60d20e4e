"""A pool with gates is as silent as others (P2), also after its operator was killed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from cluster.test_silence import LISTS, WATCHES
from cluster.upgrade_ground import STATE_LABEL, ground_in, upgrade
from cluster.upgrade_told import expect_allowed, expect_states, states, told_states
from harness.nodes import labels_of
from harness.waiting import eventually, holds
from harness.world import World

pytestmark = pytest.mark.xdist_group("silence")
"""Groups run before single tests: the minute shall not be what the other worker waits for at the end."""

SILENCE = timedelta(seconds=60)
POD_PASS_SECONDS = 1
"""Of these operators: between two passes over all pods is a second at least (``cluster.pods.OFTEN``)."""


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a guard: it waits for labels, which gates change once in a while only
def test_gates_are_judged_in_silence_and_a_killed_operator_says_the_same_again(world: World) -> None:
    with ground_in(world) as ground:
        required, gated = (ground.join("2022", 1607) for _ in range(2))
        ground.wait_settled()
        mine = {"example.com/guarded": world.suffix}
        ground.pods.bind("guarded", gated, labels=mine)
        ground.pods.wait_running(count=1)
        ground.budget("zero", mine)
        windows = [{"schedule": "* * * * *", "durationSeconds": 3600, "timeZone": "Europe/Berlin"}]
        asked = upgrade(world, maintenanceWindows=windows, maxUnavailable="50%")
        pool = world.apply(world.pool(os={"version": "2022", "targetRevision": 4052}, upgrade=asked))
        world.operator.start()
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        wanted = {ground.first: "UpToDate", required: "Required", gated: "Gated"}
        expect_states(world, wanted)
        eventually(lambda: "RolloutCompleted" in world.reasons(kind="WindowsNodePool", name=pool) or
                   world.status(pool)["nodes"] == 3, what="all told")  # fmt: skip
        settled = quiet_version(world, pool)

        with world.watch_nodes() as witness:
            start = world.now()
            holds(lambda: world.operator.running, seconds=SILENCE.total_seconds(), every=1)
            end = world.now()
            asked_for = [each for each in world.requests(since=start, until=end) if each.resource != "leases"]
            others = Counter(
                f"{each.verb} {each.uri}" for each in asked_for if each.verb not in ("watch", "list")
            )
            assert set(others) <= {"get /version"}, others
            assert others.total() <= 2  # it is read every few minutes
            verbs = {
                verb: Counter(each.resource for each in asked_for if each.verb == verb)
                for verb in ("watch", "list")
            }
            assert {each: n for each, n in verbs["watch"].items() if n > WATCHES.get(each, 0)} == {}
            # Before each pass over all pods, one list of all RuntimeClasses, and of all PodDisruptionBudgets,
            # which passes within five seconds share.
            pods, budgets = verbs["list"].pop("pods"), verbs["list"].pop("poddisruptionbudgets")
            assert abs(verbs["list"].pop("runtimeclasses") - pods) <= 1
            assert "daemonsets" not in verbs["list"], "the pool has no taints"
            assert 1 <= budgets <= pods <= SILENCE.total_seconds() / POD_PASS_SECONDS + 1
            assert {each: n for each, n in verbs["list"].items() if n > LISTS.get(each, 0)} == {}
            assert world.get("wnp", pool)["metadata"]["resourceVersion"] == settled

            world.operator.kill()
            start = world.now()
            world.operator.start()
            # The gates are judged again: what it needs for that it has read by then.
            eventually(
                lambda: world.operator.metric("winpool_upgrade_nodes", pool=pool, state="Required") == 1,
                what="the gates judged after the start",
            )
            holds(lambda: states(world) == {**wanted}, seconds=8, every=0.5)
            witness.catch_up(world.nodes().values())
        assert {name: [state] for name, state in wanted.items()} == told_states(witness)
        assert world.node_patches(since=start) == []
        # It is at work, with the gates too: a node that is cordoned is one of two that may be missing.
        world.kubectl("cordon", required)
        world.kubectl("label", "node", required, f"{STATE_LABEL}-")
        eventually(lambda: labels_of(world.node(required)).get(STATE_LABEL), what="the label again")
        world.delete(pool)


def quiet_version(world: World, pool: str) -> str:
    """Return the resourceVersion of the pool once it has been the same for five seconds."""
    seen: list[str] = []

    def same() -> str | None:
        seen.append(world.get("wnp", pool)["metadata"]["resourceVersion"])
        last = seen[-10:]
        return last[0] if len(last) == 10 and len(set(last)) == 1 else None

    return eventually(same, what="a status that stays", every=0.5) or ""
