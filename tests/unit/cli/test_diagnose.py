"""``diagnose``: what is asked, what is said of it, and what a person with few rights gets.

Answers are written down: nothing here is about what the API server does. The rules have their own tests
(``unit/diagnose``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.diagnosed import NETWORK, a_node, a_pod, an_event
from unit.cli.test_audit_cluster import POOL, RED_POOL, Server, forbidden
from winpool.cli import diagnose_reader
from winpool.cli.kubectl import KubectlError, NotAskedError
from winpool.cli.kubelet import FORBIDDEN

if TYPE_CHECKING:
    from unit.cli.conftest import Ended, Plugin

Object = dict[str, Any]

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
EVENTS: Final = "/api/v1/events"
SETS: Final = "/apis/apps/v1/daemonsets"
CONFIG: Final = "config view --minify --output=jsonpath={..namespace}"
OF_SHOP: Final = ("/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop/events")
VIEWER: Final = {
    NODES: forbidden("nodes"),
    PODS: forbidden("pods"),
    EVENTS: forbidden("events"),
    SETS: forbidden("daemonsets", group="apps"),
}


@pytest.fixture
def diagnose(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Return what diagnoses a cluster with these answers, by path; no one may ask a kubelet."""

    @contextmanager
    def refused(_: Any, node: str, path: str) -> Iterator[Any]:
        Server.asked.append(f"proxy {node} {path}")
        if node:
            raise NotAskedError(FORBIDDEN)
        yield

    monkeypatch.setattr(diagnose_reader, "Kubectl", Server)
    monkeypatch.setattr(diagnose_reader, "asking_kubelet", refused)

    def run(*arguments: str, answers: Mapping[str, Any]) -> Ended:
        Server.asked, Server.queries, Server.answers = [], [], answers
        return plugin("diagnose", *arguments)

    return run


def words(ended: Ended) -> str:
    return " ".join(" ".join(ended.out).split())


def test_many_nodes_with_one_cause_are_one_finding(diagnose: Callable[..., Ended]) -> None:
    nodes = [a_node(f"w{number:02}", ready=NETWORK) for number in range(50)]
    ended = diagnose("-A", answers={NODES: [*nodes, a_node("x1")]})
    assert (ended.code, ended.err) == (3, [])
    assert ended.out[0][4:] == "N1 Error: The node is not Ready, because its CNI is not."
    assert ended.out[1] == "    Nodes:  50: w00, w01, w02 and 47 more"
    assert "NetworkPluginNotReady" in words(ended)
    assert "Diagnosed 51 Windows nodes: 1 finding." in words(ended)
    assert max(map(len, ended.out)) <= 80
    assert len(ended.out) <= 24


def test_errors_come_before_warnings_and_what_no_rule_knows(diagnose: Callable[..., Ended]) -> None:
    images = [["registry.k8s.io/pause:3.9"]]
    old = a_node("w1", images=images, kernel="10.0.26100.1", runtime="containerd://1.7.2")
    nodes = [old, a_node("w2", ready="ill"), a_node("w3")]
    pods = [a_pod(node="w3", waits="ErrImagePull", message="no match for platform")]
    ended = diagnose("-A", answers={NODES: nodes, PODS: pods})
    heads = [line[4:] for line in ended.out if line[2:3] not in ("", " ") and line.startswith("  ")]
    assert [each.partition(":")[0] for each in heads] == [
        "N4 Error",
        "N3 Warning",
        "1 node not Ready, and no rule knows why",
    ]


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([a_node()], 0),
        (
            [
                a_node(
                    images=[["registry.k8s.io/pause:3.9"]],
                    kernel="10.0.26100.1",
                    runtime="containerd://1.7.2",
                )
            ],
            0,
        ),
        ([a_node(ready="ill")], 1),
        ([a_node(ready=NETWORK), a_node("w2", ready="ill")], 3),
    ],
    ids=["healthy", "a-warning", "unexplained", "an-error-and-unexplained"],
)
def test_the_exit_code_says_whether_a_cause_was_found(
    diagnose: Callable[..., Ended], nodes: list[Object], code: int
) -> None:
    assert diagnose("-A", answers={NODES: nodes}).code == code


@pytest.mark.parametrize(
    ("labels", "annotations", "said"),
    [
        ({"winpool.dev/upgrade-state": "Rejoining"}, {}, "and its upgrade is under way (Rejoining): Sick"),
        ({"winpool.dev/upgrade-state": "Quarantined"}, {}, "and its upgrade has stopped (Quarantined): Sick"),
        ({"winpool.dev/upgrade-state": "Required"}, {}, "and someone may upgrade it now: Sick"),
        ({}, {"winpool.dev/hold": ""}, "and someone holds it (winpool.dev/hold): Sick"),
    ],
)
def test_of_a_node_that_someone_works_on_it_leads_to_why(
    diagnose: Callable[..., Ended], labels: Object, annotations: Object, said: str
) -> None:
    node = a_node(ready="ill", reason="Sick", labels=labels, annotations=annotations)
    ended = diagnose("-A", answers={NODES: [node, a_node("w2", ready="ill", reason="Sick")]})
    assert ended.code == 1, "that someone works on it need not be why"
    assert f"1 node not Ready, {said} Nodes: w1" in words(ended)
    assert "See: kubectl winpool why w1" in words(ended)
    assert "1 node not Ready, and no rule knows why: Sick Nodes: w2" in words(ended)


def test_a_node_with_an_upgrade_state_that_means_no_work_is_like_any_other(
    diagnose: Callable[..., Ended],
) -> None:
    labels = ["UpToDate", "Gated", "of someone else"]
    nodes = [
        a_node(f"w{at}", ready="ill", labels={"winpool.dev/upgrade-state": each})
        for at, each in enumerate(labels)
    ]
    assert "3 nodes not Ready, and no rule knows why" in words(diagnose("-A", answers={NODES: nodes}))


def test_all_nodes_take_four_calls(diagnose: Callable[..., Ended]) -> None:
    ended = diagnose("-A", answers={NODES: [a_node(), a_node("w2")]})
    assert Server.asked[0] == NODES, "the first call runs alone, and may prompt"
    assert sorted(Server.asked) == sorted((NODES, PODS, EVENTS, SETS))
    assert "Not judged: /configz (N15): it is read of one node alone" in words(ended)


def test_one_node_is_asked_for_its_pods_and_its_kubelet(diagnose: Callable[..., Ended]) -> None:
    ended = diagnose("w1", answers={NODES: [a_node(), a_node("w2", ready=NETWORK)]})
    assert ended.code == 0, "that a kubelet may not be asked is no reason to doubt"
    assert sorted(Server.asked[-2:]) == ["proxy w1 /configz", "proxy w1 /logs/"]
    assert len(Server.asked) == 6
    started = "status.phase!=Succeeded,status.phase!=Failed"
    assert dict(Server.queries)[PODS]["fieldSelector"] == f"{started},spec.nodeName=w1"
    assert "Not judged: /configz (N15): you may not get nodes/proxy" in words(ended)
    assert "add" not in words(ended), "no one is to be granted that"


def test_the_nodes_of_a_pool(diagnose: Callable[..., Ended]) -> None:
    nodes = [a_node("w1", ready=NETWORK, labels={"agentpool": "red"}), a_node("w2", ready=NETWORK)]
    for name in ("win", "wnp/win"):
        ended = diagnose(name, answers={NODES: nodes, POOL: RED_POOL})
        assert ended.out[1] == "    Nodes:  w1"
        assert Server.asked[1] == POOL
    assert diagnose("wnp/win", answers={NODES: [a_node()], POOL: RED_POOL}).err == [
        "the pool win selects no Windows node"
    ]


GONE: Final = KubectlError('Error from server (NotFound): windowsnodepools.winpool.dev "gone" not found')


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["node/gone"], 'there is no node "gone" in this cluster'),
        (["gone"], 'there is no node and no pool "gone" in this cluster'),
        (["wnp/gone"], 'there is no WindowsNodePool "gone" in this cluster'),
        (["l1"], 'the node "l1" does not run Windows'),
    ],
)
def test_there_is_no_such_node_or_pool(
    diagnose: Callable[..., Ended], arguments: list[str], said: str
) -> None:
    gone = {"/apis/winpool.dev/v1alpha1/windowsnodepools/gone": GONE}
    ended = diagnose(*arguments, answers={NODES: [a_node(), a_node("l1", os="linux")], **gone})
    assert (ended.code, ended.out) == (1, [])
    assert ended.err[0].startswith(said)


def test_a_viewer_of_a_namespace_sees_its_pods_and_which_rights_are_missing(
    diagnose: Callable[..., Ended],
) -> None:
    pods = [
        a_pod("web", waits="ContainerCreating"),
        a_pod("api", waits="CreateContainerConfigError", message='secret "a" not found'),
        a_pod(
            "db",
            node="",
            waits="x",
            spec={"nodeSelector": {"kubernetes.io/os": "windows"}},
            conditions=[
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"}
            ],
        ),
    ]
    chown = an_event("FailedMount", "chown c:\\token: not supported by windows")
    answers = {**VIEWER, OF_SHOP[0]: pods, OF_SHOP[1]: [chown]}
    for arguments in (["-A"], ["w1"]):
        ended = diagnose(*arguments, answers=answers)
        assert (ended.code, ended.err) == (3, [])
        assert Server.asked.count(CONFIG) == 1
        assert "N5 Error" in ended.out[0]
        assert "Pods: shop/web" in words(ended)
        assert "CreateContainerConfigError Nodes: w1 Pods: shop/api" in words(ended)
        assert 'Seen: "secret "a" not found"' in words(ended)
        assert "Diagnosed the pods of the namespace shop: 1 finding." in words(ended)
        assert "Not judged: nodes, pods, events, DaemonSets (N1, N2, N3, N4, N" in words(ended)
        assert "jane may not list them: add that to a ClusterRole that is bound to jane" in words(ended)
        assert max(map(len, ended.out)) <= 80
    assert "Unschedulable" not in words(ended), "of one node"
    assert "Unschedulable Pods: shop/db" in words(diagnose("-A", answers=answers))


def test_a_namespace_that_is_named_is_read_alone(diagnose: Callable[..., Ended]) -> None:
    ended = diagnose("-n", "shop", answers={NODES: [a_node()], OF_SHOP[0]: [a_pod()]})
    assert ended.code == 0
    assert not {PODS, EVENTS, CONFIG} & set(Server.asked)
    assert words(ended).endswith("those of shop alone were read; -A reads those of all namespaces")
    assert "those of shop alone were read" in words(ended)


def test_without_any_right_it_says_which_are_missing(diagnose: Callable[..., Ended]) -> None:
    own = {each: forbidden(each.rpartition("/")[2], namespace="shop") for each in OF_SHOP}
    ended = diagnose("-A", answers={**VIEWER, **own})
    assert ended.code == 1
    assert "add that to a Role in shop that is bound to jane" in words(ended)
    ended = diagnose("wnp/win", answers={**VIEWER, **own})
    assert (ended.code, ended.out) == (1, [])
    assert "which nodes the pool win has is not known: jane may not list them" in ended.err[0]


def test_of_more_events_than_are_read_it_says_so(
    diagnose: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnose_reader, "MOST_EVENT_PAGES", 2)
    events = [an_event("BackOff", "x", pod=f"p{number}") for number in range(1001)]
    ended = diagnose("-A", answers={NODES: [a_node()], EVENTS: events})
    assert ended.code == 1
    assert Server.asked.count(EVENTS) == 2
    assert "there are more than 1000, and the others were not read" in words(ended)


def test_a_message_does_not_rule_the_terminal(diagnose: Callable[..., Ended]) -> None:
    ended = diagnose("-A", answers={NODES: [a_node("w\x1b[1m", ready=f"\x1b[2J\n{'x' * 999} {NETWORK}")]})
    assert "\x1b" not in "".join(ended.out)
    assert max(map(len, ended.out)) <= 80


def test_json_has_each_cause_once_with_all_nodes(diagnose: Callable[..., Ended]) -> None:
    nodes = [a_node(f"w{number}", ready=NETWORK) for number in range(5)]
    down = a_node("x", ready="ill", reason="Sick")
    ended = diagnose("-A", "-o", "json", answers={NODES: [*nodes, down]})
    content = json.loads("\n".join(ended.out))
    [found] = content["findings"]
    assert (found["code"], found["severity"], found["nodes"]) == (
        "N1",
        "Error",
        ["w0", "w1", "w2", "w3", "w4"],
    )
    assert found["evidence"]["by"] == "condition Ready"
    assert content["unexplained"] == [
        {"node": "x", "pod": "", "reason": "Sick", "quote": "ill", "log": {}, "work": ""}
    ]
    assert content["notJudged"]


def test_a_name_and_all_contradict_each_other(diagnose: Callable[..., Ended]) -> None:
    ended = diagnose("w1", "-A", answers={})
    assert (ended.code, Server.asked) == (2, [])
