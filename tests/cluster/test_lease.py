"""Two operators and one Lease: one writes, the other takes over, and never do both write.

Both run under one account. Their identity is in the User-Agent of each request, so the audit log tells them
apart. The order is by the audit log: when the API server received each write.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import pytest

from harness.election import (
    ELECTING,
    LEASE,
    Pair,
    delete_lease,
    identity_of,
    leads,
    lease,
    stands_by,
    wait_leading,
)
from harness.identity import Caller
from harness.jumping_clock import environment, set_clock
from harness.nodes import labels_of
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, on, stall
from winpool.kube.lease_rules import LEASE_SECONDS, RETRY_SECONDS

pytestmark = [pytest.mark.xdist_group("lease"), pytest.mark.timeout(600)]
"""The Lease is one for the whole cluster, so its tests run one after the other."""

TEAM: Final = "example.com/team"
SPEC: Final[dict[str, Any]] = {"labels": {TEAM: "payments"}}


@pytest.fixture(autouse=True)
def no_lease(world: World) -> Iterator[None]:
    """Each test begins and ends without a Lease."""
    delete_lease(world)
    yield
    for operator in world._further:
        operator.close()
    delete_lease(world)


def drift(world: World, *names: str) -> None:
    """Take a label of the pool off nodes."""
    world.kubectl("label", "node", *names, f"{TEAM}-")


def wait_repaired(world: World, *names: str) -> None:
    """Return when each of the nodes has its label again."""
    eventually(
        lambda: all(TEAM in labels_of(world.node(name)) for name in names),
        what=f"{names} repaired",
        seconds=120,
    )


def wait_renewed(world: World, operator: Operator) -> None:
    """Return when the operator has renewed the Lease for longer than a lease lasts, and no other had it."""
    renewals: set[str] = set()

    def check() -> bool:
        found = lease(world)
        assert found["holderIdentity"] == identity_of(operator)
        renewals.add(found["renewTime"])
        return len(renewals) > LEASE_SECONDS / RETRY_SECONDS + 1

    eventually(check, what="the Lease is renewed again and again", seconds=120)


def test_one_leads_and_the_other_is_ready_and_writes_nothing(world: World) -> None:
    names = world.fleet(windows=3)
    start = world.now()
    pair = Pair(world)
    pair.start()
    pool = world.apply(world.pool(**SPEC, taints=[{"key": "os", "value": "windows", "effect": "NoExecute"}]))
    world.wait_up_to_date(pool, nodes=3)
    drift(world, *names)
    wait_repaired(world, *names)
    assert lease(world)["holderIdentity"] == identity_of(pair.first)
    eventually(lambda: leads(pair.first), what="the first leads")
    eventually(lambda: pair.second.metric("winpool_leader") == 0, what="the second does not")
    eventually(lambda: stands_by(pair.second), what="the second is Ready")
    asked = [each for each in world.requests(since=start) if identity_of(pair.second) in each.user_agent]
    assert [f"{each.verb} {each.uri}" for each in asked if each.writes] == []
    assert [each.uri for each in asked if each.resource == "pods"] == [], "it lists no pods"
    asked = [each for each in world.requests(since=start) if identity_of(pair.first) in each.user_agent]
    assert [each.uri for each in asked if each.resource == "pods"], "the one that leads does"
    assert passes_of(pair.first) > 0
    assert passes_of(pair.second) == 0
    assert pair.writes(pair.first, since=start)


def passes_of(operator: Operator) -> float:
    """Return how many passes an operator has made, whatever came of them."""
    counts = [operator.metric("winpool_reconcile_total", result=result) for result in ("Success", "Error")]
    return sum(count or 0 for count in counts)


def test_a_killed_leader_is_replaced(world: World) -> None:
    names = world.fleet(windows=3)
    pair = Pair(world)
    pair.start()
    world.wait_up_to_date(world.apply(world.pool(**SPEC)), nodes=3)
    start = world.now()
    drift(world, *names)
    pair.first.kill()
    drift(world, *names)
    wait_leading(pair.second)
    wait_repaired(world, *names)
    pair.check_order(since=start)


@pytest.mark.nightly
def test_a_leader_that_was_frozen_for_longer_than_the_lease_writes_nothing_and_ends(world: World) -> None:
    names = world.fleet(windows=6)
    pair = Pair(world)
    pair.start()
    world.wait_up_to_date(world.apply(world.pool(**SPEC)), nodes=6)
    start = world.now()
    drift(world, *names)
    pair.first.send(signal.SIGSTOP)  # in the middle of its repairs, if it is fast
    wait_leading(pair.second)
    wait_repaired(world, *names)
    # It wakes up with a watch full of nodes that lack their label.
    wait_renewed(world, pair.second)
    drift(world, *names)
    pair.first.send(signal.SIGCONT)
    assert pair.first.wait_ended() == 1
    wait_repaired(world, *names)
    pair.check_order(since=start, was_frozen=True)
    said = [line["message"] for line in pair.first.log_lines() if line.get("level") == "ERROR"]
    assert len(said) == 1
    assert "the task 'Lease' ended, so the process ends: it was not renewed in time" in str(said[0])


@contextmanager
def first_behind_a_proxy(world: World) -> Iterator[tuple[FaultProxy, Pair, list[str]]]:
    """Yield two operators, of which the first reaches the API server through the proxy, and three nodes."""
    names = world.fleet(windows=3)
    with FaultProxy(world.testbed) as proxy:
        pair = Pair(world, first_kubeconfig=proxy.kubeconfig("winpool"))
        pair.start()
        world.wait_up_to_date(world.apply(world.pool(**SPEC)), nodes=3)
        yield proxy, pair, names


def test_a_leader_that_is_cut_off_writes_nothing_and_ends(world: World) -> None:
    with first_behind_a_proxy(world) as (proxy, pair, names):
        start = world.now()
        proxy.add(on(), stall())
        drift(world, *names)
        assert pair.first.wait_ended() == 1, "it ends by itself, although no connection breaks"
        wait_leading(pair.second)
        wait_repaired(world, *names)
        pair.check_order(since=start)
        assert "it was not renewed in time: " in pair.first.log_text()


@pytest.mark.nightly
def test_a_leader_whose_renewals_alone_are_lost_writes_to_no_node_after_its_term(world: World) -> None:
    with first_behind_a_proxy(world) as (proxy, pair, names):
        start = world.now()
        proxy.add(on(resource="leases"), stall())
        # Its way to the nodes stays open, and there is always something to repair.
        while pair.first.running:
            drift(world, names[0])
        assert pair.first.wait_ended() == 1
        wait_leading(pair.second)
        drift(world, *names)
        wait_repaired(world, *names)
        assert pair.writes(pair.first, since=start), "it wrote while its term lasted"
        pair.check_order(since=start)


def test_two_operators_that_both_write_do_no_harm(world: World) -> None:
    """Leader election is off, as under an earlier version: preconditions alone keep the two apart."""
    names = world.fleet(windows=3)
    world.kubectl("label", "node", *names, f"{TEAM}=before")
    before = world.carried()
    world.operator.start()
    world.further_operator(environment={}).start()
    name = world.apply(world.pool(**SPEC))
    world.wait_up_to_date(name, nodes=3)
    drift(world, *names)
    wait_repaired(world, *names)
    world.kubectl(
        "patch", "wnp", name, "--type=merge", "-p", json.dumps({"spec": {"labels": {TEAM: "trade"}}})
    )
    world.wait_up_to_date(name, nodes=3)
    assert {labels_of(node)[TEAM] for node in world.nodes().values()} == {"trade"}
    world.kubectl("delete", "wnp", name, "--timeout=60s")
    assert world.carried() == before


@pytest.mark.nightly
def test_a_wall_clock_that_jumps_moves_no_term_and_is_told_of(world: World) -> None:
    names = world.fleet(windows=3)
    clock = world.directory / "clock"
    pair = Pair(world, environment=environment(clock), module="harness.jumping_clock")
    pair.start()
    pool = world.apply(world.pool(**SPEC))
    world.wait_up_to_date(pool, nodes=3)
    start = world.now()
    for jump in (-172_800.0, 172_800.0):
        set_clock(clock, seconds=jump)
        wait_skewed(pair, by=-jump)
        wait_renewed(world, pair.first)
    drift(world, *names)
    wait_repaired(world, *names)
    assert pair.writes(pair.second, since=start) == []
    assert "synchronize the clocks of their hosts" in pair.second.log_text()


def wait_skewed(pair: Pair, *, by: float) -> None:
    """Return when the second says that its clock is ahead by about so many seconds."""

    def check() -> bool:
        skew = pair.second.metric("winpool_lease_clock_skew_seconds")
        return skew is not None and abs(skew - by) < 600

    eventually(check, what="the second sees how far the clocks are apart")


@pytest.mark.nightly
def test_sigterm_hands_over_without_a_wait_for_the_lease(world: World) -> None:
    names = world.fleet(windows=3)
    pair = Pair(world)
    pair.start()
    world.wait_up_to_date(world.apply(world.pool(**SPEC)), nodes=3)
    start = world.now()
    drift(world, *names)
    assert pair.first.stop(seconds=20) == 0
    assert "Lease: released" in pair.first.log_text()
    wait_leading(pair.second)
    drift(world, *names)
    wait_repaired(world, *names)
    pair.check_order(since=start)
    changes = [each for each in world.requests(since=start) if each.resource == "leases" and each.writes]
    ours = [each for each in changes if identity_of(pair.first) in each.user_agent]
    theirs = [each for each in changes if identity_of(pair.second) in each.user_agent]
    assert ours[-1].received <= theirs[0].received
    # The order of requests says it: it did not look once more in the meantime.
    waited = theirs[0].received - ours[-1].received
    assert waited.total_seconds() < LEASE_SECONDS


def test_a_lease_that_someone_else_takes_or_deletes_ends_the_leader(world: World) -> None:
    operator = world.further_operator(environment=ELECTING)
    operator.start()
    wait_leading(operator)
    world.kubectl("-n", "winpool-system", "delete", "lease", "winpool")
    assert operator.wait_ended() == 1
    assert "someone deleted it" in operator.log_text()
    operator.start()
    wait_leading(operator)
    taken = '{"spec": {"holderIdentity": "someone"}}'
    world.kubectl("-n", "winpool-system", "patch", "lease", "winpool", "--type=merge", "-p", taken)
    assert operator.wait_ended() == 1
    assert "someone has taken it" in operator.log_text()


@pytest.mark.nightly
def test_a_lease_whose_holder_json_makes_six_times_as_long_is_taken_all_the_same(world: World) -> None:
    """JSON has six bytes for each of these characters, so it is longer than an object in etcd."""
    operator = world.further_operator(environment=ELECTING)
    operator.start()
    wait_leading(operator)
    world.testbed.api().merge(LEASE, {"spec": {"holderIdentity": "<" * 400_000}})
    assert operator.wait_ended() == 1
    assert operator.log_text().count("<") < 1000
    operator.start()
    wait_leading(operator)


def second_operator(world: World, pool: str) -> str:
    """Return what the issue about a second operator says; empty where there is none."""
    found = [each for each in world.status(pool)["issues"] if each["reason"] == "SecondOperatorRunning"]
    assert [(each["nodeCount"], each["nodes"]) for each in found] == [(0, [])] * len(found)
    return str(found[0]["message"]) if found else ""


def wait_reported(world: World, *pools: str, holder: str) -> None:
    """Return when each pool names the holder of the Lease as a second operator; "" for none."""

    def check() -> bool:
        said = [second_operator(world, pool) for pool in pools]
        return all(f"{holder} holds the Lease" in each if holder else not each for each in said)

    eventually(check, what=f"the holder '{holder}' in {pools}", seconds=120)


@pytest.mark.nightly
def test_a_second_operator_is_an_issue_of_each_pool_until_it_has_ended(world: World) -> None:
    world.operator.start()
    pools = [world.apply(world.pool(name)) for name in ("a", "b")]
    for pool in pools:
        world.wait_up_to_date(pool, nodes=0)
        assert second_operator(world, pool) == ""
    elected = world.further_operator(environment=ELECTING)
    elected.start()
    wait_leading(elected)
    wait_reported(world, *pools, holder=identity_of(elected))
    # The one that holds the Lease cannot know, and does not write against it in its next passes.
    start = world.now()
    passes = elected.metric("winpool_reconcile_total", result="Success") or 0
    for pool in pools:
        world.kubectl("annotate", "wnp", pool, "example.com/look=again")
    eventually(
        lambda: (elected.metric("winpool_reconcile_total", result="Success") or 0) >= passes + len(pools),
        what="a pass of each pool",
    )
    assert all(second_operator(world, pool) for pool in pools)
    written = [each for each in world.writes(since=start) if each.resource == "windowsnodepools"]
    assert [f"{each.verb} {each.uri}" for each in written] == []
    elected.kill()
    wait_reported(world, *pools, holder="")


@pytest.mark.nightly
def test_of_two_installations_the_second_never_leads_and_says_why(world: World) -> None:
    names = world.fleet(windows=1)
    first = world.further_operator(environment=ELECTING)
    first.start()
    wait_leading(first)
    world.wait_up_to_date(world.apply(world.pool(**SPEC)), nodes=1)
    start = world.now()
    second = world.further_operator(environment=ELECTING)
    second.start()
    eventually(lambda: stands_by(second), what="the second stands by")
    wait_renewed(world, first)  # for longer than a lease: whoever wants to lead would have taken it
    drift(world, *names)
    wait_repaired(world, *names)
    assert f"Lease: {identity_of(first)} holds it; this operator" in second.log_text()
    assert second.metric("winpool_leader") == 0
    assert lease(world)["holderIdentity"] == identity_of(first)
    named = [each for each in world.writes(since=start) if identity_of(second) in each.user_agent]
    assert [f"{each.verb} {each.uri}" for each in named] == []


def test_the_operators_token_is_enough_to_take_the_lease_and_end_the_leader(world: World) -> None:
    """What someone who has stolen the token can do, and that it can create another Lease beside."""
    operator = world.further_operator(environment=ELECTING)
    operator.start()
    wait_leading(operator)
    token = world.testbed.mint_token(lifetime_seconds=600)
    with Caller.bearer(world.testbed, token) as thief:
        status, said = thief.patch(LEASE, {"spec": {"holderIdentity": "thief"}})
        assert status == HTTPStatus.OK, said
        assert operator.wait_ended() == 1
        assert "thief has taken it" in operator.log_text()
        status, said = thief.ask("POST", LEASE.rpartition("/")[0], a_lease(world.suffix))
        assert status == HTTPStatus.CREATED, said
    world.kubectl("-n", "winpool-system", "delete", "lease", world.suffix)
    assert lease(world)["holderIdentity"] == "thief"


def a_lease(name: str) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}


@pytest.mark.nightly
def test_without_leader_election_the_lease_is_only_read_and_a_second_operator_is_noticed(
    world: World,
) -> None:
    start = world.now()
    world.operator.start()
    eventually(lambda: leads(world.operator), what="it leads")
    eventually(lambda: world.operator.metric("winpool_second_operator") == 0, what="it is alone")
    elected = world.further_operator(environment=ELECTING)
    elected.start()
    eventually(
        lambda: world.operator.metric("winpool_second_operator") == 1, what="the second operator is noticed"
    )
    text = world.operator.log_text()
    assert text.count("a second operator is running in this cluster: " + identity_of(elected)) == 1
    elected.close()
    eventually(lambda: world.operator.metric("winpool_second_operator") == 0, what="it is gone")
    asked = [each for each in world.requests(since=start) if each.resource == "leases"]
    ours = {each.verb for each in asked if identity_of(elected) not in each.user_agent}
    assert ours == {"list", "watch"}
