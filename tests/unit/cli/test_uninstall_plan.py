"""The plan of an uninstallation: every node once, every step with its reason, and only what applies."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import GUARD, NOON, a_node, a_pool, a_record
from harness.strategies import NASTY
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    HOLD_ANNOTATION,
    OS_VERSION_LABEL,
    POOL_LABEL,
    RELEASE_FINALIZER,
    RESERVED_MEMORY_TAINT,
)
from winpool.api.status import SetKeys, WindowsNodePoolStatus
from winpool.api.text import printable
from winpool.cli.console import Look
from winpool.cli.lenient import Fields
from winpool.cli.uninstall import as_content, as_text, deployment_fact, lease_fact
from winpool.cli.uninstall_plan import (
    NODES_AT_ONCE,
    DeploymentFact,
    Facts,
    FenceFact,
    GuardFact,
    LeaseFact,
    Place,
    Plan,
    plan_of,
    removal,
)
from winpool.model.node import Keys
from winpool.ownership.record import Owned, Record, render

if TYPE_CHECKING:
    from unit.cli.conftest import Plugin
    from winpool.model.node import Node
    from winpool.model.pool import Pool

KEYS = {"labels": {"team": "payments"}, "taints": [{"key": "os", "effect": "NoSchedule"}]}
POOL = a_pool("pool", more=KEYS)
OURS = {POOL_LABEL: "pool"}
IN_FORCE = GuardFact(found=True, problem="", identity=GUARD)
RUNNING = (DeploymentFact(name="winpool", replicas=2, ready_replicas=2),)
TEAM = {"team": Owned(set="payments")}
TAINT = {("os", "NoSchedule"): Owned(set="windows")}
ROLES_GO = (
    "kubectl delete clusterroles,clusterrolebindings,flowschemas,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings -l app.kubernetes.io/name=winpool"
)
LEASE = LeaseFact(name="winpool", holder="winpool-7d9cbb6f4-abcde_1a2b3c4d", live=True)


def facts(*nodes: Node, pools: tuple[Pool, ...] = (POOL,), **more: Any) -> Facts:
    """Return a cluster with everything installed and an operator that runs."""
    known: dict[str, Any] = {
        "namespace": True,
        "deployments": RUNNING,
        "leases": (LEASE,),
        "guard": IN_FORCE,
        "fence": FenceFact(found=True),
        "roles": ("winpool",),
        "crd": True,
        **more,
    }
    return Facts(pools=pools, nodes=nodes, **known)


def member(name: str = "w1", **more: Any) -> Node:
    """Return a node of the pool that is as the pool has made it."""
    shown: dict[str, Any] = {
        "labels": {**OURS, "team": "payments"},
        "taints": ["os=windows:NoSchedule"],
        "annotations": a_record(labels=TEAM, taints=TAINT),
        **more,
    }
    return a_node(name, **shown)


def kinds(plan: Plan) -> list[str]:
    return [each.kind for each in plan.steps]


def abouts(plan: Plan) -> list[str]:
    return [each.reason for each in plan.cautions]


def said(plan: Plan, about: str) -> str:
    [caution] = [each for each in plan.cautions if each.reason == about]
    return caution.message


def place(node: Node, *pools: Pool) -> tuple[Place, str]:
    [found] = plan_of(facts(node, pools=pools)).nodes
    return found.place, found.pool


# Whose a node is


def test_a_node_belongs_to_the_pool_that_its_record_names_not_to_the_label() -> None:
    other = replace(POOL, name="other", uid="uid-of-other")
    node = member(labels={POOL_LABEL: "other"})
    assert place(node, POOL, other) == (Place.OWNED, "pool")


@pytest.mark.parametrize("annotations", [{}, {APPLIED_ANNOTATION: "damaged"}])
def test_without_a_readable_record_a_node_belongs_to_the_pool_of_its_label(
    annotations: dict[str, str],
) -> None:
    node = member(annotations=annotations)
    assert place(node, POOL) == (Place.RECORD_UNREADABLE, "pool")
    assert place(node) == (Place.POOL_GONE, "pool")


def test_a_record_of_a_pool_that_is_gone_is_shown_by_the_name_on_the_label_or_by_its_uid() -> None:
    record = a_record("uid-of-gone")
    assert place(member(annotations=record), POOL) == (Place.POOL_GONE, "pool")
    assert place(a_node(annotations=record), POOL) == (Place.POOL_GONE, "uid-of-gone")


@pytest.mark.parametrize(
    "node",
    [
        a_node(labels={OS_VERSION_LABEL: "2022"}),
        a_node(taints=[f"{RESERVED_MEMORY_TAINT}:NoSchedule"]),
        a_node(annotations={APPLIED_ANNOTATION: "damaged"}),
    ],
    ids=["label", "taint", "annotation"],
)
def test_what_names_no_pool_is_removed_by_hand(node: Node) -> None:
    plan = plan_of(facts(node, pools=()))
    assert [each.place for each in plan.nodes] == [Place.NO_OWNER]
    assert kinds(plan)[:2] == ["CleanNodes", "Check"]


def test_requests_of_others_and_the_labels_of_a_spec_are_not_winpools() -> None:
    node = a_node(
        labels={"team": "payments"}, annotations={HOLD_ANNOTATION: "true"}, taints=["os=windows:NoSchedule"]
    )
    plan = plan_of(facts(node, pools=()))
    assert (plan.is_ready, plan.nodes, abouts(plan)) == (True, (), ["RequestsStay"])


# What stays


def test_keys_that_someone_has_changed_stay_and_the_command_that_removes_them_is_shown() -> None:
    node = member(labels={**OURS, "team": "billing"}, taints=["os=linux:NoSchedule"])
    plan = plan_of(facts(node))
    assert plan.nodes[0].changed == Keys(frozenset({"team"}), frozenset({("os", "NoSchedule")}))
    text = said(plan, "KeysChanged")
    assert "label team, taint os:NoSchedule" in text
    assert text.endswith("kubectl taint nodes w1 os:NoSchedule-; kubectl label nodes w1 team-")
    assert "TaintsGo" not in abouts(plan), "the taint stays"


@pytest.mark.parametrize("value", ["payments", "old", None])
def test_what_is_as_the_pool_set_it_or_as_before_or_gone_is_no_change(value: str | None) -> None:
    labels = {**OURS, **({} if value is None else {"team": value})}
    record = a_record(labels={"team": Owned(set="payments", before="old")})
    [found] = plan_of(facts(member(labels=labels, annotations=record))).nodes
    assert not found.changed


def test_without_a_readable_record_the_keys_of_the_pool_stay() -> None:
    plan = plan_of(facts(member(annotations={APPLIED_ANNOTATION: "damaged"})))
    assert "it is not JSON" in said(plan, "RecordUnreadable")
    assert "label team, taint os:NoSchedule" in said(plan, "KeysStay")


def test_keys_that_an_earlier_record_lost_stay_unless_the_record_names_them_again() -> None:
    lost = Keys(frozenset({"team"}))
    for again, stays in (({}, lost), (TEAM, Keys())):
        record = Record(pool_uid=POOL.uid, labels=again, lost=lost, guard=GUARD)
        [found] = plan_of(facts(member(annotations={APPLIED_ANNOTATION: render(record)}))).nodes
        assert found.lost == stays


def test_many_nodes_with_the_same_keys_are_one_warning_without_their_names_in_the_command() -> None:
    nodes = [member(f"w{number}", annotations={}) for number in range(9)]
    text = said(plan_of(facts(*nodes)), "KeysStay")
    assert "9 nodes (w0, w1, w2 and 6 more)" in text
    assert "kubectl label nodes NODE team-" in text


def test_the_taints_that_go_are_named() -> None:
    assert "os:NoSchedule" in said(plan_of(facts(member())), "TaintsGo")


# The steps


def test_everything_in_its_order() -> None:
    plan = plan_of(facts(member()))
    assert not plan.is_ready
    assert [each.commands for each in plan.steps] == [
        ("kubectl delete wnp --all",),
        ("kubectl winpool uninstall --plan",),
        (
            "kubectl -n winpool-system scale deployment/winpool --replicas=0",
            "kubectl -n winpool-system rollout status deployment/winpool --timeout=300s",
        ),
        (
            "kubectl delete namespace winpool-system --ignore-not-found",
            "kubectl delete roles,rolebindings -n default -l app.kubernetes.io/name=winpool",
            ROLES_GO,
        ),
        ("kubectl delete crd windowsnodepools.winpool.dev --ignore-not-found",),
    ]


def test_a_cluster_without_pools_and_keys_is_ready() -> None:
    plan = plan_of(facts(a_node(), pools=()))
    assert plan.is_ready
    assert kinds(plan) == ["StopOperator", "RemoveOperator", "RemoveCRD"]
    assert not plan.cautions


def test_rights_that_a_variant_left_behind_are_not_nothing() -> None:
    left = Facts(pools=(), nodes=(), roles=("winpool-memory",))
    assert [each.commands[-1] for each in plan_of(left).steps if each.kind == "RemoveOperator"] == [ROLES_GO]
    text = as_text(as_content(left), look=Look(width=80))
    assert "winpool-memory" in text
    assert "Nothing of winpool" not in text


def test_what_helm_has_installed_helm_removes() -> None:
    helms = (msgspec.structs.replace(RUNNING[0], release="win"),)

    def removal(*flags: str) -> tuple[str, ...]:
        plan = plan_of(facts(pools=(), deployments=helms, flags=flags))
        return next(each.commands for each in plan.steps if each.kind == "RemoveOperator")

    assert removal("--context=prod")[0] == (
        "helm uninstall win --namespace winpool-system --kube-context=prod"
    )
    # Helm would act on another cluster.
    assert all(each.startswith("kubectl delete ") for each in removal("--server=https://other:6443"))


def test_a_cluster_that_never_had_winpool_needs_no_step() -> None:
    plan = plan_of(Facts(pools=(), nodes=(a_node(),)))
    assert (plan.is_ready, plan.steps, plan.cautions) == (True, (), ())


def test_a_node_that_cannot_be_read_prevents_that_the_cluster_is_ready() -> None:
    plan = plan_of(facts(pools=(), unread_nodes=("node w9: labels are a number",)))
    assert not plan.is_ready
    assert "w9" in said(plan, "NodeUnreadable")


def test_an_operator_without_replicas_is_started_first_and_not_stopped_twice() -> None:
    asleep = (DeploymentFact(name="winpool", replicas=0, ready_replicas=0),)
    plan = plan_of(facts(member(), deployments=asleep, leases=()))
    assert plan.steps[0].commands[0] == "kubectl -n winpool-system scale deployment/winpool --replicas=1"
    assert "StopOperator" not in kinds(plan)
    assert "no ready replica" in said(plan, "OperatorDown")
    assert kinds(plan_of(facts(pools=(), deployments=asleep)))[0] == "RemoveOperator"


def test_an_operator_that_is_not_ready_is_said_and_not_started_again() -> None:
    plan = plan_of(
        facts(member(), deployments=(msgspec.structs.replace(RUNNING[0], ready_replicas=0),), leases=())
    )
    assert "OperatorDown" in abouts(plan)
    assert "StartOperator" not in kinds(plan)


@pytest.mark.parametrize("runs", [True, False])
def test_outside_the_cluster_an_operator_is_known_by_its_lease(*, runs: bool) -> None:
    plan = plan_of(facts(member(), deployments=(), leases=(dataclasses.replace(LEASE, live=runs),)))
    assert ("OperatorUnknown" not in abouts(plan)) is runs
    [stop] = [each for each in plan.steps if each.kind == "StopOperator"]
    assert not stop.commands
    assert "Ctrl-C" in stop.title


def test_pools_that_are_being_deleted_are_waited_for() -> None:
    plan = plan_of(facts(member(), pools=(replace(POOL, deleting=True),)))
    assert plan.steps[0].title == "Wait until the pools are deleted"


def test_every_command_names_the_cluster_that_was_asked() -> None:
    asked = facts(member(), a_node("w2", labels={OS_VERSION_LABEL: "2022"}), flags=("--context", "a b"))
    commands = [command for step in plan_of(asked).steps for command in step.commands]
    assert commands
    assert all(command.endswith(" --context 'a b'") for command in commands)


def test_a_command_has_a_bounded_number_of_nodes_and_leaves_none_out() -> None:
    names = [f"w{number}" for number in range(2 * NODES_AT_ONCE + 1)]
    nodes = [a_node(name, labels={OS_VERSION_LABEL: "2022"}) for name in names]
    [clean] = [each for each in plan_of(facts(*nodes, pools=())).steps if each.kind == "CleanNodes"]
    cleaned = [[each for each in command.split() if each in names] for command in clean.commands]
    assert sorted(name for part in cleaned for name in part) == sorted(names)
    assert max(map(len, cleaned)) == NODES_AT_ONCE


def test_all_kinds_of_keys_have_their_command() -> None:
    keys = Keys(frozenset({"a"}), frozenset({("t", "NoSchedule")}), frozenset({"n"}), unschedulable=True)
    assert list(removal(facts(), ["w1"], keys)) == [
        "kubectl taint nodes w1 t:NoSchedule-",
        "kubectl label nodes w1 a-",
        "kubectl annotate nodes w1 n-",
        "kubectl uncordon w1",
    ]


# What to know


@pytest.mark.parametrize(
    ("about", "cluster", "words"),
    [
        ("PoolPaused", {"pools": (a_pool("pool", mode="Paused", more=KEYS),)}, "it still releases"),
        ("PoolPaused", {"pools": (a_pool("pool", mode="DryRun", more=KEYS),)}, "pool (DryRun)"),
        (
            "OtherFinalizers",
            {"pools": (replace(POOL, finalizers=("a.example/b",)),)},
            "a.example/b",
        ),
        (
            "Unread",
            {"fence": None, "unread": {"the fence": "alice may not list them."}},
            "the fence is there: alice may not",
        ),
        (
            "Unread",
            {"deployments": None, "unread": {"the Deployment": "no right"}},
            "the Deployment is there: no right",
        ),
        ("GuardNotInForce", {"guard": GuardFact(found=False)}, "it is not installed"),
        (
            "GuardNotInForce",
            {"guard": GuardFact(found=True, problem="it is another")},
            "it is another",
        ),
        ("RecordUnguarded", {"guard": dataclasses.replace(IN_FORCE, identity="new")}, "not written under"),
        ("OperatorUnknown", {"deployments": (), "leases": ()}, "no Deployment of winpool"),
        ("OperatorSilent", {"leases": (dataclasses.replace(LEASE, live=False),)}, "no one renews the Lease"),
        (
            "OperatorElsewhere",
            {"leases": (dataclasses.replace(LEASE, holder="laptop_1a2b3c4d"),)},
            "Ctrl-C in its",
        ),
    ],
)
def test_a_caution_is_there_where_it_applies_and_nowhere_else(
    about: str, cluster: dict[str, Any], words: str
) -> None:
    assert words in said(plan_of(facts(member(), **cluster)), about)
    assert about not in abouts(plan_of(facts(member())))


@pytest.mark.parametrize(
    ("about", "node"),
    [
        ("PoolGone", member(annotations=a_record("uid-of-gone"))),
    ],
)
def test_a_caution_names_its_nodes(about: str, node: Node) -> None:
    [caution] = [each for each in plan_of(facts(member("w0"), node)).cautions if each.reason == about]
    assert caution.nodes == ("w1",)


# Properties

_RECORDS = st.sampled_from(
    (
        {},
        {APPLIED_ANNOTATION: "damaged"},
        a_record(labels=TEAM, taints=TAINT),
        a_record("uid-of-other"),
        a_record("uid-of-gone", guard=""),
    )
)


@st.composite
def _nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    labels = st.fixed_dictionaries(
        {},
        optional={
            POOL_LABEL: st.sampled_from(("pool", "other", "gone", "")),
            OS_VERSION_LABEL: st.just("2022"),
            "team": st.sampled_from(("payments", "billing")),
        },
    )
    taints = st.lists(
        st.sampled_from(("os=windows:NoSchedule", "gpu=x:NoExecute", f"{RESERVED_MEMORY_TAINT}:NoSchedule")),
        unique=True,
    )
    return tuple(
        a_node(
            f"w{number}",
            labels=draw(labels),
            taints=draw(taints),
            annotations={**draw(_RECORDS), **draw(st.sampled_from(({}, {HOLD_ANNOTATION: ""})))},
            os=draw(st.sampled_from(("windows", "windows", "linux", None))),
            ready=draw(st.sampled_from(("True", "Unknown"))),
        )
        for number in range(draw(st.integers(0, 5)))
    )


@st.composite
def _clusters(draw: st.DrawFn) -> Facts:
    pools = [
        replace(
            a_pool(name, mode=draw(st.sampled_from(("Active", "Paused", "DryRun"))), more=KEYS),
            deleting=draw(st.booleans()),
            finalizers=draw(st.sampled_from(((), (RELEASE_FINALIZER,), (RELEASE_FINALIZER, "a.example/b")))),
        )
        for name in draw(st.sets(st.sampled_from(("pool", "other"))))
    ]
    return Facts(
        pools=tuple(pools),
        nodes=draw(_nodes()),
        unread_nodes=tuple(draw(st.lists(NASTY, max_size=2))),
        namespace=draw(st.booleans() | st.none()),
        deployments=draw(
            st.lists(
                st.builds(
                    DeploymentFact,
                    name=st.just("winpool"),
                    replicas=st.integers(0, 2),
                    ready_replicas=st.integers(0, 2),
                ),
                max_size=2,
            ).map(tuple)
            | st.none()
        ),
        leases=draw(st.sampled_from(((), (LEASE,), (dataclasses.replace(LEASE, live=False),))) | st.none()),
        guard=draw(
            st.sampled_from((IN_FORCE, GuardFact(found=False), GuardFact(found=True, problem="another")))
            | st.none()
        ),
        fence=draw(
            st.sampled_from((FenceFact(found=False), FenceFact(found=True, missing=("a b",)))) | st.none()
        ),
        roles=draw(st.sampled_from(((), ("winpool-memory",), None))),
        crd=draw(st.booleans() | st.none()),
        unread=draw(st.dictionaries(st.sampled_from(("the guard", "the CRD")), NASTY)),
        flags=draw(st.sampled_from(((), ("--context", "prod")))),
    )


@given(_clusters())
def test_each_node_with_anything_of_winpool_is_counted_exactly_once(cluster: Facts) -> None:
    plan = plan_of(cluster)
    content = as_content(cluster)
    counted = sorted(name for group in content["nodeGroups"] for name in group["nodes"])
    own = {POOL_LABEL, OS_VERSION_LABEL, RESERVED_MEMORY_TAINT, APPLIED_ANNOTATION}
    assert counted == sorted(
        node.name
        for node in cluster.nodes
        if own & {*node.labels, *node.annotations, *(taint.key for taint in node.taints)}
    )
    assert sum(each["count"] for each in content["nodeGroups"]) == len(counted)
    assert plan.is_ready is (not counted and not cluster.pools and not cluster.unread_nodes)


@given(_clusters())
def test_each_step_is_there_exactly_if_it_has_a_reason_and_in_the_one_order(cluster: Facts) -> None:
    plan = plan_of(cluster)
    deployments = cluster.deployments or ()
    awake = any(each.replicas for each in deployments)
    reasons = {
        "StartOperator": bool(deployments) and not awake and not cluster.operator_runs and not plan.is_ready,
        "DeletePools": bool(cluster.pools),
        "CleanNodes": any(each.place is Place.NO_OWNER for each in plan.nodes),
        "Check": not plan.is_ready,
        "StopOperator": cluster.is_installed and (awake or not deployments),
        "RemoveOperator": cluster.is_installed,
        "RemoveCRD": cluster.crd is not False,
    }
    assert kinds(plan) == [kind for kind, holds in reasons.items() if holds]


@given(_clusters())
def test_what_is_printed_is_plain(cluster: Facts) -> None:
    plan = plan_of(cluster)
    text = as_text(as_content(cluster), look=Look(width=80))
    assert text.isascii()
    assert printable(text.replace("\n", "")) == text.replace("\n", "")
    for step in plan.steps:
        for command in step.commands:
            assert f"\n       {command}\n" in text, "a command is on one line, to be copied"
    assert json.loads(json.dumps(as_content(cluster)))["ready"] is plan.is_ready


# Reading objects


@pytest.mark.parametrize(
    ("spec", "live"),
    [
        ({}, True),
        ({"renewTime": (NOON - timedelta(seconds=16)).isoformat()}, False),
        ({"renewTime": None}, False),
        ({"holderIdentity": ""}, False),
    ],
)
def test_a_lease_is_live_where_its_holder_has_renewed_it_in_time(spec: dict[str, Any], *, live: bool) -> None:
    whole = {"holderIdentity": "a", "renewTime": NOON.isoformat(), "leaseDurationSeconds": 15, **spec}
    found = lease_fact(Fields({"metadata": {"name": "winpool"}, "spec": whole}), now=NOON)
    assert (found.name, found.live) == ("winpool", live)


@pytest.mark.parametrize("broken", [{}, {"metadata": 1, "spec": [], "status": "x"}])
def test_objects_with_fields_of_another_type_are_read_as_if_these_were_absent(broken: dict[str, Any]) -> None:
    assert deployment_fact(Fields(broken)) == DeploymentFact(name="", replicas=0, ready_replicas=0)
    assert lease_fact(Fields(broken), now=NOON) == LeaseFact(name="", holder="", live=False)


def test_a_pool_with_a_spec_that_cannot_be_read_is_shown_with_the_keys_that_it_has_set() -> None:
    status = WindowsNodePoolStatus(set_keys=SetKeys(labels=("team",), taints=("os:NoSchedule",)))
    pool = replace(POOL, spec=None, refusal="spec.os: must be given.", status=status)
    content = as_content(facts(member(annotations={}), pools=(pool,)))
    assert content["pools"][0]["mode"] == "Active"
    assert "label team, taint os:NoSchedule" in str(content["warnings"])


# The command line


def test_without_plan_it_says_that_it_only_plans(plugin: Plugin) -> None:
    ended = plugin("uninstall")
    assert (ended.code, ended.out) == (2, [])
    assert ended.err == [
        "kubectl winpool uninstall: it only plans an uninstallation and removes nothing: add --plan"
    ]


def test_without_a_cluster_it_says_so(plugin: Plugin) -> None:
    ended = plugin("uninstall", "--plan", "--kubeconfig", "missing")
    assert (ended.code, ended.out) == (1, [])
    assert "kubectl cannot be started" in ended.err[-1]


UNREAD = ("node w9: labels are a number",)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (facts(pools=()), 0),
        (facts(), 3),
        (facts(member(), pools=()), 3),
        (facts(pools=(), unread_nodes=UNREAD), 1),
        (facts(member(), unread_nodes=UNREAD), 3),
    ],
    ids=["nothing", "a pool", "a node", "a node that cannot be read", "that and a pool"],
)
def test_the_exit_code_says_whether_something_is_left(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, found: Facts, code: int
) -> None:
    monkeypatch.setattr("winpool.cli.uninstall.read_facts", lambda *_: found)
    assert plugin("uninstall", "--plan").code == code
