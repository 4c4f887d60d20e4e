"""The fence, attacked with the operator's own identity: what is not winpool's to write is refused.

The test gives the operator's account more rights than RBAC ships, or RBAC would refuse before the fence.
Most writes are dry runs on real objects: admission decides them like any other, as the tests about real ones
show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import pytest
import yaml

from cluster.fence_ground import HARD, Ground, a_node, a_pool, is_refused, standing
from cluster.fenced import (
    BEFORE,
    HARMS,
    NEEDED,
    SENTENCE,
    THEIRS,
    Object,
    Write,
    annotation,
    condition,
    label,
    no_taint,
    other_value,
    taint,
)
from cluster.truth import await_issue
from harness.documents import ROOT
from harness.identity import Caller
from harness.nodes import labels_of, taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.fence import (
    ALLOW_NO_EXECUTE,
    NO_EXECUTE_FENCE,
    NODE_FENCE,
    PARAMETERS,
    POOL_FENCE,
    SERVED_ANNOTATIONS,
)
from winpool.api.keys import APPLIED_ANNOTATION, BORROWED_ANNOTATIONS, CONDITIONS, POOL_LABEL

CLAIMS: Final = (
    *("a label of the spec", "a label of ours", "the record", "a taint of the spec", "a NoExecute taint"),
    *("a cordon", *(f"condition {each}" for each in CONDITIONS)),
    *(f"borrowed {key}" for key in BORROWED_ANNOTATIONS),
)
"""What of the needed writes a node gets when it joins a pool, and later."""
BARE_HARMS: Final = {
    "label": Write(label("kubernetes.io/hostname", "other"), "labels", on="bare"),
    "annotation": Write(annotation(THEIRS, "x"), "annotations", on="bare"),
    **{f"set {key}": Write(annotation(key, "x"), "annotations", on="bare") for key in SERVED_ANNOTATIONS},
    "taint": Write(taint("karpenter.sh/disrupted"), "taints", on="bare"),
    "condition": Write(condition("Ready", "True"), "conditions", on="bare", subresource="/status"),
    "Linux label": Write(label("example.com/team", "x"), "linux", on="bare-linux"),
    "Linux record": Write(annotation(APPLIED_ANNOTATION, "{}"), "linux", on="bare-linux"),
    "Linux taint": Write(taint("os", value="windows"), "linux", on="bare-linux"),
    **{
        f"Linux {each}": Write(condition(each, "True"), "linux", on="bare-linux", subresource="/status")
        for each in CONDITIONS
    },
}


@pytest.fixture(scope="module")
def ground(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with standing(testbed, directory=tmp_path_factory.mktemp("fence")) as ground:
        yield ground


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_write_of_the_operator_is_refused_with_its_sentence(ground: Ground, harm: str) -> None:
    write = HARMS[harm]
    status, said = ground.send(write)
    assert status == HTTPStatus.FORBIDDEN, (harm, said)
    fence = POOL_FENCE if write.on == "pool" else NODE_FENCE
    assert f"ValidatingAdmissionPolicy '{fence}'" in said["message"]
    assert SENTENCE[write.sentence] in said["message"]


@pytest.mark.parametrize(
    ("kind", "sentence"), [("windows", "nodes"), ("linux", "nodes"), ("pool", "pools")], ids=str
)
def test_the_operator_neither_creates_nor_deletes(ground: Ground, kind: str, sentence: str) -> None:
    path = ground.paths[kind]
    created = {
        "windows": a_node("fenced-new", system="windows"),
        "linux": a_node("fenced-new", system="linux"),
        "pool": a_pool("fenced-new", only="new"),
    }[kind]
    for method, to, body in (("POST", path.rpartition("/")[0], created), ("DELETE", path, None)):
        status, said = ground.operator.ask(method, f"{to}?dryRun=All", body)
        assert (status, SENTENCE[sentence] in said["message"]) == (HTTPStatus.FORBIDDEN, True), said


@pytest.mark.parametrize("need", NEEDED)
def test_what_the_operator_has_to_write_passes(ground: Ground, need: str) -> None:
    assert ground.send(NEEDED[need])[0] == HTTPStatus.OK, need


@pytest.mark.parametrize("harm", HARMS)
def test_others_may_write_what_the_operator_may_not(ground: Ground, harm: str) -> None:
    """Or the refusal would not be of the fence."""
    write = HARMS[harm]
    with Caller.named(ground.testbed, "alice", "system:masters") as alice:
        assert replace(ground, operator=alice).send(write)[0] == HTTPStatus.OK


@pytest.mark.parametrize("need", CLAIMS)
def test_a_bare_node_can_be_claimed(ground: Ground, need: str) -> None:
    status, said = ground.send(replace(NEEDED[need], on="bare"))
    assert status == HTTPStatus.OK, said


@pytest.mark.parametrize("kind", ["bare", "bare-linux"])
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_a_write_of_nothing_to_a_bare_node_passes(ground: Ground, kind: str, subresource: str) -> None:
    status, said = ground.send(Write(lambda _: None, on=kind, subresource=subresource))
    assert status == HTTPStatus.OK, said


@pytest.mark.parametrize("harm", BARE_HARMS)
def test_a_harmful_write_to_a_bare_node_is_refused_with_its_sentence(ground: Ground, harm: str) -> None:
    """No expression has failed, which would refuse with another sentence."""
    status, said = ground.send(BARE_HARMS[harm])
    assert (status, SENTENCE[BARE_HARMS[harm].sentence] in said["message"]) == (HTTPStatus.FORBIDDEN, True), (
        said
    )


# The same with the token that the operator has, and not as a dry run


@dataclass(frozen=True)
class Real:
    """A patch, of an object of this kind, that is refused by the policy ``fence``."""

    fence: str
    on: str
    patch: Callable[[Object], Object]
    """Returns the patch for an object that was read."""
    subresource: str = ""


REAL: Final = {
    "node": Real(NODE_FENCE, "windows", lambda _: {"metadata": {"annotations": {THEIRS: "x"}}}),
    "node status": Real(
        NODE_FENCE, "windows", lambda _: {"status": {"capacity": {"memory": "1Ti"}}}, "/status"
    ),
    "Linux node": Real(NODE_FENCE, "plane", lambda _: {"metadata": {"labels": {BEFORE: "y"}}}),
    "pool": Real(POOL_FENCE, "pool", lambda _: {"spec": {"mode": "Paused"}}),
    "taint": Real(
        NO_EXECUTE_FENCE,
        "windows",
        lambda found: {"spec": {"taints": [*found["spec"]["taints"], {"key": "os", "effect": "NoExecute"}]}},
    ),
}


@pytest.mark.parametrize("how", ["merge", "apply"])
@pytest.mark.parametrize("real", REAL)
def test_a_real_write_with_the_token_is_refused_and_changes_nothing(
    ground: Ground, real: str, how: str
) -> None:
    wanted = REAL[real]
    before = stable(ground.read(wanted.on))
    with (
        forbidden_no_execute(ground) if wanted.fence == NO_EXECUTE_FENCE else nullcontext(),
        Caller.bearer(ground.testbed, ground.testbed.mint_token(lifetime_seconds=600)) as thief,
    ):
        answered = eventually(lambda: send_patch(ground, thief, wanted, how=how), what="no other writer")
    assert answered
    status, said = answered
    assert status == HTTPStatus.FORBIDDEN, said
    assert f"ValidatingAdmissionPolicy '{wanted.fence}'" in said["message"]
    assert stable(ground.read(wanted.on)) == before


def send_patch(ground: Ground, caller: Caller, wanted: Real, *, how: str) -> tuple[int, Object] | None:
    """Send a merge patch, or the same as a server-side apply that takes fields from others.

    Return the answer; None where another writer was first.
    """
    path = f"{ground.paths[wanted.on]}{wanted.subresource}"
    found = ground.read(wanted.on)
    patch = wanted.patch(found)
    about = {"resourceVersion": found["metadata"]["resourceVersion"], "name": found["metadata"]["name"]}
    body = {**patch, "metadata": {**patch.get("metadata", {}), **about}}
    if how == "merge":
        said = caller.patch(path, body)
    else:
        body |= {"apiVersion": found["apiVersion"], "kind": found["kind"]}
        kind = "application/apply-patch+yaml"
        said = caller.ask("PATCH", f"{path}?fieldManager=thief&force=true", body, kind=kind)
    return said if said[0] != HTTPStatus.CONFLICT else None


def stable(found: Object) -> Object:
    """Return what no controller writes of an object, with its taints but those of Kubernetes itself."""
    metadata, spec = found["metadata"], found["spec"]
    taints = [each for each in spec.get("taints", []) if not each["key"].startswith("node.kubernetes.io/")]
    return {
        "labels": metadata["labels"],
        "theirs": metadata["annotations"][THEIRS],
        "spec": {**spec, "taints": taints},
        "capacity": found.get("status", {}).get("capacity"),
    }


# What an admin sets


def allow_no_execute(testbed: Testbed, value: str) -> None:
    patch = json.dumps({"data": {ALLOW_NO_EXECUTE: value}})
    testbed.kubectl("patch", "configmap", PARAMETERS, "-n", "winpool-system", "--type=merge", "-p", patch)


@contextmanager
def forbidden_no_execute(ground: Ground) -> Iterator[None]:
    """Have the ConfigMap forbid NoExecute taints, and allow them afterwards, also where it was deleted."""
    hard = NEEDED["a NoExecute taint"]
    try:
        allow_no_execute(ground.testbed, "false")
        eventually(lambda: is_refused(ground.send(hard)), what="NoExecute taints are refused")
        yield
    finally:
        manifest = json.dumps(the_parameters())
        ground.testbed.kubectl("apply", "-f", "-", stdin=manifest)
        allow_no_execute(ground.testbed, "true")
    eventually(lambda: ground.send(hard)[0] == HTTPStatus.OK, what="NoExecute taints are allowed")


def the_parameters() -> Object:
    """Return the manifest of the ConfigMap."""
    [found] = [each for each in shipped() if each["kind"] == "ConfigMap"]
    return found


@pytest.mark.nightly
def test_an_admin_forbids_noexecute_taints_and_allows_them_again(ground: Ground, world: World) -> None:
    hard = NEEDED["a NoExecute taint"]
    names = world.fleet(windows=2)
    taints = [
        {"key": "os", "value": "windows", "effect": "NoExecute"},
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
    ]
    with forbidden_no_execute(ground):
        assert f"ValidatingAdmissionPolicy '{NO_EXECUTE_FENCE}'" in ground.send(hard)[1]["message"]
        assert ground.send(NEEDED["a taint of the spec"])[0] == HTTPStatus.OK
        pool = world.apply(world.pool(labels={"example.com/team": "payments"}, taints=taints))
        world.operator.start()
        refused = await_issue(world, pool, "WriteRefused", nodes=2)
        assert (
            "winpool-system/winpool-fence forbids the operator to add NoExecute taints" in refused["message"]
        )
        nodes = [world.node(name) for name in names]
        assert {str(taints_of(node)) for node in nodes} == {"set()"}
        assert not [node for node in nodes if {"example.com/team", POOL_LABEL} & labels_of(node).keys()]
    status = world.wait_up_to_date(pool, nodes=2)
    assert status["upToDateNodes"] == 2
    assert {labels_of(world.node(name))["example.com/team"] for name in names} == {"payments"}


def test_where_noexecute_taints_are_forbidden_those_that_are_there_may_stay_and_go(ground: Ground) -> None:
    with forbidden_no_execute(ground):
        for change in (label("example.com/team", "x"), no_taint(HARD)):
            status, said = ground.send(Write(change))
            assert status == HTTPStatus.OK, said
        # Pods that tolerate the old value only would be deleted.
        assert is_refused(ground.send(Write(other_value(HARD))))


@pytest.mark.parametrize("value", ["False", "no", " false", ""])
def test_a_value_that_is_not_true_forbids_noexecute_taints(ground: Ground, value: str) -> None:
    hard = NEEDED["a NoExecute taint"]
    try:
        allow_no_execute(ground.testbed, value)
        eventually(lambda: is_refused(ground.send(hard)), what="NoExecute taints are refused")
    finally:
        allow_no_execute(ground.testbed, "true")
    eventually(lambda: ground.send(hard)[0] == HTTPStatus.OK, what="NoExecute taints are allowed")


def test_without_the_config_map_noexecute_taints_are_allowed(ground: Ground) -> None:
    hard = NEEDED["a NoExecute taint"]
    with forbidden_no_execute(ground):
        ground.testbed.kubectl("delete", "configmap", PARAMETERS, "-n", "winpool-system")
        eventually(lambda: ground.send(hard)[0] == HTTPStatus.OK, what="NoExecute taints are allowed")


@pytest.mark.parametrize(
    "patch",
    [{"data": None}, {"data": {ALLOW_NO_EXECUTE: None, "other": "false"}}],
    ids=["no data", "another key"],
)
def test_without_the_key_noexecute_taints_are_allowed(ground: Ground, patch: Object) -> None:
    """No expression has failed, which would refuse."""
    hard = NEEDED["a NoExecute taint"]
    with forbidden_no_execute(ground):
        where = ("configmap", PARAMETERS, "-n", "winpool-system")
        ground.testbed.kubectl("patch", *where, "--type=merge", "-p", json.dumps(patch))
        eventually(lambda: ground.send(hard)[0] == HTTPStatus.OK, what="NoExecute taints are allowed")


def shipped() -> list[Object]:
    """Return the objects of the fence as they are shipped."""
    return list(yaml.safe_load_all((ROOT / "deploy/operator/fence.yaml").read_text()))


def test_the_server_has_what_was_shipped_word_by_word_and_finds_no_fault(testbed: Testbed) -> None:
    assert len(shipped()) == 15
    for document in shipped():
        if "spec" in document:
            name = document["metadata"]["name"]
            stored = json.loads(testbed.kubectl("get", document["kind"], name, "-o", "json").stdout)
            assert stored["spec"] == document["spec"]
            assert "expressionWarnings" not in stored.get("status", {}).get("typeChecking", {})
