"""The guard, attacked: who holds a node, or the token of a pod on it, cannot write our keys on nodes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness.identity import Caller
from harness.operator import USER
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.admission import GUARD_NAME, NODE_NAME_EXTRA
from winpool.api.fence import SERVED_ANNOTATIONS
from winpool.api.keys import HOLD_ANNOTATION, OWN_ANNOTATIONS, OWN_LABELS, REQUEST_ANNOTATIONS

Object = dict[str, Any]

KEYS: Final = [
    *(("annotations", key) for key in (*OWN_ANNOTATIONS, *REQUEST_ANNOTATIONS)),
    *(("labels", key) for key in OWN_LABELS),
]
NODES: Final = "/api/v1/nodes"
WINDOWS: Final = ("labels", "kubernetes.io/os")
"""Of other nodes the operator only removes what is its own: the fence is about that."""
KUBELET, AGENT, HOLDER, REQUESTER = "kubelet", "agent", "holder", "requester"
"""A kubelet of the node, and pods whose accounts may patch all nodes: one with nothing more, one with the
right to write ``hold``, one with the shipped ClusterRole."""
WITNESS: Final = "witness"
"""A cluster admin, who reads what is on the nodes."""

every_key = pytest.mark.parametrize(("kind", "key"), KEYS, ids=[key.rpartition("/")[2] for _, key in KEYS])
every_attacker = pytest.mark.parametrize("who", [KUBELET, AGENT])
every_resource = pytest.mark.parametrize("subresource", ["", "/status"], ids=["nodes", "nodes.status"])


@dataclass(frozen=True)
class Ground:
    """Two nodes, ``full`` with all of our keys and ``bare`` with none, and those who come for them."""

    testbed: Testbed
    suffix: str
    full: str
    bare: str
    callers: dict[str, Caller]

    def caller(self, who: str, *, node: str) -> Caller:
        """Return the one who comes for a node: of kubelets, its own."""
        return self.callers[f"{KUBELET} {node}" if who == KUBELET else who]

    def said(self) -> list[tuple[Object, Object]]:
        """Return labels and annotations of both nodes."""
        answers = [self.callers[WITNESS].ask("GET", f"{NODES}/{name}") for name in (self.full, self.bare)]
        assert [status for status, _ in answers] == [HTTPStatus.OK] * 2
        told = [node["metadata"] for _, node in answers]
        return [(each.get("labels", {}), each.get("annotations", {})) for each in told]


@pytest.fixture(scope="module")
def ground(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    suffix = secrets.token_hex(3)
    space, full, bare = f"agents-{suffix}", f"full-{suffix}", f"bare-{suffix}"
    file = tmp_path_factory.mktemp("guard") / "ground.yaml"
    file.write_text(
        yaml.safe_dump_all([*accounts(space), a_node(full, [*KEYS, WINDOWS]), a_node(bare, [WINDOWS])])
    )
    testbed.kubectl("apply", "-f", str(file))
    try:
        with ExitStack() as stack:
            callers = {f"{KUBELET} {name}": Caller.kubelet(testbed, name) for name in (full, bare)}
            callers[WITNESS] = Caller.named(testbed, "witness", "system:masters")
            for who in (AGENT, HOLDER, REQUESTER):
                callers[who] = Caller.bearer(testbed, bound_token(testbed, space, who, node=bare))
            for caller in callers.values():
                stack.enter_context(caller)
            mine = Ground(testbed, suffix, full, bare, callers)
            wait_for_rights(mine)
            yield mine
    finally:
        testbed.kubectl("delete", "-f", str(file), "--wait=false")


def accounts(space: str) -> list[Object]:
    """Return the pods' accounts and their rights; kubelets are bound to the right that they never get."""
    group = {
        "kind": "Group",
        "apiGroup": "rbac.authorization.k8s.io",
        "name": f"system:serviceaccounts:{space}",
    }
    nodes = {
        "apiGroups": [""],
        "resources": ["nodes", "nodes/status"],
        "verbs": ["get", "create", "update", "patch"],
    }
    hold = {
        "apiGroups": ["winpool.dev"],
        "resources": ["nodeannotations"],
        "resourceNames": ["hold"],
        "verbs": ["update"],
    }
    kubelets = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}},
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": space}}
          for name in (AGENT, HOLDER, REQUESTER)),
        rbac("ClusterRole", space, rules=[nodes]),
        rbac("ClusterRole", f"{space}-hold", rules=[hold]),
        binding(space, role=space, subject=group),
        binding(f"{space}-hold", role=f"{space}-hold", subject=account(space, HOLDER)),
        binding(f"{space}-both", role="winpool-node-requester", subject=account(space, REQUESTER)),
        binding(f"{space}-none", role="winpool-node-requester", subject=kubelets),
    ]  # fmt: skip


def rbac(kind: str, name: str, **more: Any) -> Object:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **more}


def binding(name: str, *, role: str, subject: Object) -> Object:
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return rbac("ClusterRoleBinding", name, roleRef=to, subjects=[subject])


def account(space: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "namespace": space, "name": name}


def a_node(name: str, keys: list[tuple[str, str]] | None = None) -> Object:
    metadata: Object = {"name": name}
    for kind, key in keys or []:
        metadata.setdefault(kind, {})[key] = "windows" if (kind, key) == WINDOWS else "there"
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def bound_token(testbed: Testbed, space: str, name: str, *, node: str) -> str:
    """Return the token of a pod on ``node``, as its kubelet would ask for it."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "serviceAccountName": name,
            "nodeName": node,
            "containers": [{"name": "agent", "image": "example.com/agent:1"}],
        },
    }
    testbed.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}")
    return testbed.kubectl("create", "token", name, "-n", space, *bound).stdout.strip()


def wait_for_rights(ground: Ground) -> None:
    """Return when all callers may patch nodes, and the guard is enforced."""
    for who in (KUBELET, AGENT, HOLDER, REQUESTER):
        caller = ground.caller(who, node=ground.bare)
        patch = {"metadata": {"annotations": {"example.com/seen": who}}}
        eventually(lambda: caller.patch(f"{NODES}/{ground.bare}", patch)[0] == 200, what=f"{who} may patch")  # noqa: B023
    asked = {"metadata": {"annotations": {HOLD_ANNOTATION: ""}}}
    holder = ground.callers[HOLDER]
    eventually(lambda: holder.patch(f"{NODES}/{ground.full}", asked)[0] == 200, what="the holder may hold")
    back = {"metadata": {"annotations": {HOLD_ANNOTATION: "there"}}}
    assert holder.patch(f"{NODES}/{ground.full}", back)[0] == 200
    agent, tried = ground.callers[AGENT], f"{NODES}/{ground.bare}?dryRun=All"
    eventually(lambda: is_refused_by_the_guard(agent.patch(tried, asked)), what="the guard is enforced")


def is_refused_by_the_guard(answer: tuple[int, Object]) -> bool:
    status, said = answer
    return status == 403 and f"ValidatingAdmissionPolicy '{GUARD_NAME}'" in said["message"]


@every_attacker
@every_resource
@every_key
def test_nobody_on_a_node_sets_changes_or_removes_a_key(
    ground: Ground, who: str, subresource: str, kind: str, key: str
) -> None:
    before = ground.said()
    for node, value in ((ground.bare, "forged"), (ground.full, "forged"), (ground.full, None)):
        patch = {"metadata": {kind: {key: value}}}
        answer = ground.caller(who, node=node).patch(f"{NODES}/{node}{subresource}", patch)
        assert is_refused_by_the_guard(answer), (node, value, answer)
    assert ground.said() == before


@every_attacker
@every_key
def test_nobody_on_a_node_creates_one_with_a_key(ground: Ground, who: str, kind: str, key: str) -> None:
    name = f"forged-{ground.suffix}"
    with Caller.kubelet(ground.testbed, name) as kubelet:
        caller = kubelet if who == KUBELET else ground.callers[who]
        assert is_refused_by_the_guard(caller.ask("POST", NODES, a_node(name, [(kind, key)])))


@every_attacker
@every_resource
def test_nor_by_sending_a_whole_node_without_them(ground: Ground, who: str, subresource: str) -> None:
    def without_keys(node: Object) -> None:
        for kind, key in KEYS:
            del node["metadata"][kind][key]

    caller = ground.caller(who, node=ground.full)
    assert is_refused_by_the_guard(
        sent_back(caller, f"{NODES}/{ground.full}", subresource=subresource, change=without_keys)
    )


@every_attacker
@pytest.mark.parametrize("with_keys", [True, False], ids=["full", "bare"])
def test_ordinary_traffic_passes(ground: Ground, who: str, *, with_keys: bool) -> None:
    name = ground.full if with_keys else ground.bare
    caller, path = ground.caller(who, node=name), f"{NODES}/{name}"
    own = {"metadata": {"annotations": {"example.com/own": who}, "labels": {"example.com/own": who}}}
    condition = {"type": "DiskPressure", "status": "False", "reason": who}
    assert caller.patch(path, own)[0] == 200
    assert caller.patch(f"{path}/status", {**own, "status": {"conditions": [condition]}})[0] == 200
    assert sent_back(caller, path)[0] == 200
    assert sent_back(caller, path, subresource="/status")[0] == 200


def sent_back(
    caller: Caller, path: str, *, subresource: str = "", change: Callable[[Object], None] | None = None
) -> tuple[int, Object]:
    """Read a node, send it back after ``change``, and return the answer.

    Controllers write the node too. One that was first makes ours a conflict, or an attempt to undo its write,
    which is refused for that; then the answer says nothing of us, and we read and send again.
    """

    def answer() -> tuple[int, Object] | None:
        _, node = caller.ask("GET", path)
        before = node["metadata"]["resourceVersion"]
        if change:
            change(node)
        said = caller.ask("PUT", path + subresource, node)
        if said[0] == HTTPStatus.OK or caller.ask("GET", path)[1]["metadata"]["resourceVersion"] == before:
            return said
        return None

    found = eventually(answer, what=f"nobody else writes {path} meanwhile")
    assert found
    return found


def bared(node: Object) -> None:
    """Take all labels and annotations off."""
    node["metadata"].pop("labels", None)
    node["metadata"].pop("annotations", None)


@every_attacker
def test_so_does_a_node_that_has_no_label_and_no_annotation(ground: Ground, who: str) -> None:
    name = f"empty-{ground.suffix}"
    path = f"{NODES}/{name}"
    with Caller.kubelet(ground.testbed, name) as kubelet:
        caller = kubelet if who == KUBELET else ground.callers[who]
        try:
            status, created = caller.ask("POST", NODES, a_node(name))
            assert status == 201
            assert not {"labels", "annotations"} & created["metadata"].keys() or who == KUBELET
            for subresource in ("", "/status"):
                assert sent_back(caller, path, subresource=subresource, change=bared)[0] == 200
        finally:
            ground.testbed.kubectl("delete", "node", name, "--ignore-not-found")


def test_an_account_with_the_right_writes_requests_and_nothing_else(ground: Ground) -> None:
    path = f"{NODES}/{ground.full}"
    for who, granted in (
        (REQUESTER, {*REQUEST_ANNOTATIONS}),
        (HOLDER, {HOLD_ANNOTATION}),
    ):
        for kind, key in KEYS:
            for value in (who, None, "there"):  # at the end it is as it was
                answer = ground.callers[who].patch(path, {"metadata": {kind: {key: value}}})
                if key in granted:
                    assert answer[0] == 200, (who, key, answer)
                elif value != "there":
                    assert is_refused_by_the_guard(answer), (who, key, answer)


def test_the_operator_may_whatever_node_it_runs_on_and_people_may(ground: Ground) -> None:
    path = f"{NODES}/{ground.bare}"
    callers = (
        Caller.named(ground.testbed, USER, "system:authenticated", extra={NODE_NAME_EXTRA: ground.full}),
        Caller.named(ground.testbed, "alice", "system:masters"),
    )
    for caller in callers:
        # Not even the operator writes what people hold a node by, or sets what others ask for: the fence is
        # about that.
        others = {HOLD_ANNOTATION, *SERVED_ANNOTATIONS}
        keys = [each for each in KEYS if caller is not callers[0] or each[1] not in others]
        with caller:
            for value in ("ours", None):
                patch = {"metadata": {kind: {key: value} for kind, key in keys}}
                assert caller.patch(path, patch)[0] == 200


def test_the_extra_of_a_token_is_what_makes_it_one_of_a_node(ground: Ground) -> None:
    """Or the answer to the operator above would say nothing."""
    user = f"system:serviceaccount:agents-{ground.suffix}:{AGENT}"
    group = f"system:serviceaccounts:agents-{ground.suffix}"
    patch = {"metadata": {"annotations": {HOLD_ANNOTATION: None}}}
    with Caller.named(ground.testbed, user, group, extra={NODE_NAME_EXTRA: ground.bare}) as bound:
        assert is_refused_by_the_guard(bound.patch(f"{NODES}/{ground.full}", patch))
    with Caller.named(ground.testbed, user, group) as free:
        assert free.patch(f"{NODES}/{ground.full}", patch)[0] == 200
        back = {"metadata": {"annotations": {HOLD_ANNOTATION: "there"}}}
        assert free.patch(f"{NODES}/{ground.full}", back)[0] == 200


def test_the_server_has_what_was_shipped_word_by_word(testbed: Testbed) -> None:
    shipped = list(yaml.safe_load_all((Path(__file__).parents[2] / "deploy/operator/guard.yaml").read_text()))
    for document in shipped:
        stored = json.loads(testbed.kubectl("get", document["kind"], GUARD_NAME, "-o", "json").stdout)
        assert stored["spec"] == document["spec"]
        assert "expressionWarnings" not in stored.get("status", {}).get("typeChecking", {})
