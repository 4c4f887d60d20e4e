"""``audit`` without files: which objects are read and judged, and what is said of those that cannot be read.

Answers are written down: nothing here is about what the API server does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.windows_pods import a_pod, in_a_deployment
from unit.cli.test_audit import found
from winpool.cli import audit_reader, reader
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError

if TYPE_CHECKING:
    from unit.cli.conftest import Ended, Plugin

Object = dict[str, Any]

APPS: Final = "/apis/apps/v1"
BATCH: Final = "/apis/batch/v1"
CORE: Final = "/api/v1"
CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
POOL: Final = "/apis/winpool.dev/v1alpha1/windowsnodepools/win"
WINDOWS: Final = {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}
OF_NAMESPACE: Final = (
    *(f"{APPS}/namespaces/shop/{each}" for each in ("deployments", "statefulsets", "daemonsets")),
    *(f"{BATCH}/namespaces/shop/{each}" for each in ("cronjobs", "jobs")),
    f"{APPS}/namespaces/shop/replicasets",
    *(f"{CORE}/namespaces/shop/{each}" for each in ("replicationcontrollers", "pods", "limitranges")),
)


class Server(Kubectl):
    """Answers by the path; what is not written down is an empty list. It notes what it is asked."""

    answers: Mapping[str, Any] = {}
    namespace = "shop"
    asked: list[str]
    queries: list[tuple[str, Mapping[str, str]]]

    def get(self, path: str, **query: str) -> bytes:
        self.asked.append(path)
        self.queries.append((path, query))
        answer = self.answers.get(path)
        if path == "/version":
            answer = answer or {"gitVersion": "v1.37.1"}
        if isinstance(answer, Exception):
            raise answer
        if answer is None and "limit" not in query:
            answer = {"metadata": {"name": path.rpartition("/")[2]}}
        if answer is None or isinstance(answer, list):
            page = (answer or [])[int(query.get("continue") or 0) :][: int(query["limit"])]
            done = int(query.get("continue") or 0) + len(page)
            more = str(done) if done < len(answer or ()) else ""
            answer = {"kind": "List", "apiVersion": "v1", "metadata": {"continue": more}, "items": page}
        return json.dumps(answer).encode()

    def run(self, *arguments: str) -> bytes:
        self.asked.append(" ".join(arguments))
        return self.namespace.encode()


@pytest.fixture
def audit(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Return what audits a cluster with these answers, by path."""
    monkeypatch.setattr(audit_reader, "Kubectl", Server)

    def run(*arguments: str, stdin: str = "", **more: Any) -> Ended:
        Server.asked, Server.queries = [], []
        Server.answers = more.get("answers", {})
        return plugin("audit", *arguments, stdin=stdin)

    return run


def forbidden(resource: str, *, group: str = "", namespace: str = "") -> KubectlError:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return KubectlError(
        f'Error from server (Forbidden): {resource} is forbidden: User "jane" cannot list resource '
        f'"{resource}" in API group "{group}" {where}'
    )


def a_node(
    name: str = "w1", labels: Object | None = None, *, taints: Sequence[Object] = (), **status: Any
) -> Object:
    info = {"kernelVersion": "10.0.20348.4052", "containerRuntimeVersion": "containerd://2.1.4"}
    return {
        "metadata": {"name": name, "labels": labels or WINDOWS},
        "spec": {"taints": taints},
        "status": {"nodeInfo": info, **status},
    }


def an_object(name: str, content: Object, *owner: str, **more: Any) -> Object:
    """Return an object as a list has it; ``owner`` are apiVersion, kind and name of its controller."""
    metadata = {**content["metadata"], "name": name, "namespace": more.get("namespace", "shop")}
    if owner:
        names = ("apiVersion", "kind", "name")
        metadata["ownerReferences"] = [{**dict(zip(names, owner, strict=True)), "controller": True}]
    return {"metadata": metadata, "spec": content["spec"], "status": more.get("status", {})}


def plain() -> Object:
    """Return a pod of which nothing says the OS."""
    return a_pod({"nodeSelector": {}}, {"image": "nginx"}, os_name=None)


def subjects(ended: Ended) -> list[str]:
    return [line.partition(": ")[0] for line in ended.out]


RUNNING: Final = {"status": {"phase": "Running"}}
NODES: Final = {f"{CORE}/nodes": [a_node()]}
TAINT: Final = {"key": "os", "value": "windows", "effect": "NoSchedule"}
RED_POOL: Final = {
    "apiVersion": "winpool.dev/v1alpha1",
    "kind": "WindowsNodePool",
    "metadata": {"name": "win"},
    "spec": {"nodeSelector": {"matchLabels": {"agentpool": "red"}}, "os": {"version": "2022"}},
}


def test_a_namespace_is_read_with_a_call_for_each_kind(audit: Callable[..., Ended]) -> None:
    deployment = an_object("web", in_a_deployment(plain()))
    ended = audit(answers={OF_NAMESPACE[0]: [deployment], **NODES})
    assert Server.asked[0] == "/version", "the first call runs alone, and may prompt"
    others = (
        f"{CORE}/nodes",
        CLASSES,
        f"{CORE}/namespaces/shop",
        "config view --minify --output=jsonpath={..namespace}",
    )
    assert sorted(Server.asked[1:]) == sorted((*OF_NAMESPACE, *others))
    assert {query["limit"] for _, query in Server.queries if "limit" in query} == {"500"}
    assert ended.out[0].startswith(
        "shop/Deployment/web: P1 Warning spec.template.spec.nodeSelector: Nothing says for which OS"
    )
    assert ended.err == [
        "0 workloads for Windows, Kubernetes 1.37: 1 finding (1 Warning); 1 workload without any OS",
        "Not judged: nothing.",
    ]
    assert ended.code == 0


def test_the_namespace_is_that_of_the_flag_and_otherwise_of_the_context(audit: Callable[..., Ended]) -> None:
    audit("-n", "shop")
    assert [each for each in Server.asked if each.startswith("config")] == []
    assert f"{CORE}/namespaces/shop/pods" in Server.asked
    Server.namespace = ""
    try:
        audit()
    finally:
        Server.namespace = "shop"
    assert f"{CORE}/namespaces/default/pods" in Server.asked


def test_all_namespaces_are_read_with_the_same_number_of_calls(audit: Callable[..., Ended]) -> None:
    pods = [an_object("a", plain(), namespace=each, **RUNNING) for each in ("shop", "bank")]
    ended = audit("-A", answers={f"{CORE}/pods": pods, **NODES})
    assert subjects(ended) == ["shop/Pod/a", "bank/Pod/a"]
    assert len(Server.asked) == 13
    assert not [each for each in Server.asked if "/namespaces/" in each or each.startswith("config")]


def test_a_long_list_is_read_page_by_page(audit: Callable[..., Ended]) -> None:
    pods = [an_object(f"p{n}", plain(), **RUNNING) for n in range(501)]
    ended = audit(answers={OF_NAMESPACE[7]: pods, **NODES})
    assert Server.asked.count(OF_NAMESPACE[7]) == 2
    assert len(ended.out) == 501


def test_what_a_built_in_controller_makes_is_judged_with_it_alone(audit: Callable[..., Ended]) -> None:
    template = in_a_deployment(plain())
    answers = {
        OF_NAMESPACE[0]: [an_object("web", template)],
        OF_NAMESPACE[4]: [
            an_object("backup-1", template, "batch/v1", "CronJob", "backup"),
            an_object("once", template),
        ],
        OF_NAMESPACE[5]: [
            an_object("web-1", template, "apps/v1", "Deployment", "web"),
            an_object("old", template),
        ],
        OF_NAMESPACE[7]: [
            an_object("web-1-a", plain(), "apps/v1", "ReplicaSet", "web-1", **RUNNING),
            an_object("once-a", plain(), "batch/v1", "Job", "once", **RUNNING),
            an_object("alone", plain(), **RUNNING),
        ],
        **NODES,
    }
    assert subjects(audit(answers=answers)) == [
        "shop/Deployment/web",
        "shop/Job/once",
        "shop/ReplicaSet/old",
        "shop/Pod/alone",
    ]


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (OF_NAMESPACE[0], ("apps/v1", "Deployment", "web")),
        (OF_NAMESPACE[1], ("apps.kruise.io/v1beta1", "StatefulSet", "web")),
        (OF_NAMESPACE[4], ("apps/v1", "Deployment", "web")),
        (OF_NAMESPACE[5], ("batch/v1", "Job", "web")),
        (OF_NAMESPACE[7], ("batch/v1", "CronJob", "web")),
        (OF_NAMESPACE[7], ("v1", "Node", "w1")),
    ],
)
def test_what_a_built_in_controller_does_not_make_is_judged_whatever_owns_it(
    audit: Callable[..., Ended], path: str, owner: tuple[str, str, str]
) -> None:
    pod = a_pod({"hostPID": True})
    content = pod if path == OF_NAMESPACE[7] else in_a_deployment(pod)
    answers = {path: [an_object("a", content, *owner, **RUNNING)], **NODES}
    assert found(audit(answers=answers)) == [("R12", "Error")]


def test_pods_of_another_controller_are_judged_once_and_named_after_it(audit: Callable[..., Ended]) -> None:
    def pods(kind: str, version: str, number: int) -> list[Object]:
        bound = a_pod({"nodeSelector": {}, "nodeName": "l1"}, {"image": "nginx"}, os_name=None)
        return [an_object(f"{kind}-{n}", bound, version, kind, "web", **RUNNING) for n in range(number)]

    kruise = pods("StatefulSet", "apps.kruise.io/v1beta1", 600)
    answers = {OF_NAMESPACE[7]: [*pods("CloneSet", "apps.kruise.io/v1alpha1", 3), *kruise], **NODES}
    ended = audit(answers=answers)
    assert subjects(ended) == ["shop/CloneSet/web", "shop/StatefulSet/web"]
    assert "P1 Warning spec.template.spec.nodeSelector" in ended.out[0]


@pytest.mark.parametrize("kind", ["RuntimeClass", "Pod", "CronJob", "PodTemplate"])
def test_the_kind_of_another_controller_hides_no_finding(audit: Callable[..., Ended], kind: str) -> None:
    pod = an_object("a", a_pod({"hostPID": True}), "evil/v1", kind, "web", **RUNNING)
    ended = audit(answers={OF_NAMESPACE[7]: [pod], **NODES})
    assert (ended.code, subjects(ended), found(ended)) == (3, [f"shop/{kind}/web"], [("R12", "Error")])


def test_each_template_of_another_controller_is_judged_once(audit: Callable[..., Ended]) -> None:
    def pod(number: int, spec: Object, *, node: str = "l1") -> Object:
        token = {"name": f"kube-api-access-abc{number:02}", "emptyDir": {}}
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}
        of_one = {"nodeName": node, "hostname": f"h{number}", "volumes": [token, claim]}
        mounts = [{"name": token["name"], "mountPath": "/token"}]
        content = a_pod({**spec, **of_one}, {"volumeMounts": mounts, "image": "iis"})
        return an_object(f"p{number}", content, "argoproj.io/v1alpha1", "Workflow", "build", **RUNNING)

    def job(number: int, spec: Object) -> Object:
        content = in_a_deployment(a_pod(spec))
        content["spec"]["selector"] = {"matchLabels": {"controller-uid": str(number)}}
        return an_object(f"j{number}", content, "jobset.x-k8s.io/v1alpha2", "JobSet", "train")

    steps: tuple[Object, ...] = ({}, {"hostPID": True}, {"hostIPC": True})
    jobs = [job(number, steps[number % 2]) for number in range(4)]
    pods = [pod(number, steps[number % 3], node=f"l{number}") for number in range(99)]
    answers = {OF_NAMESPACE[4]: jobs, OF_NAMESPACE[7]: pods, **NODES}
    ended = audit(answers=answers)
    assert subjects(ended) == ["shop/JobSet/train", "shop/Workflow/build", "shop/Workflow/build"]
    assert ended.err[0].startswith("5 workloads for Windows, ")


def test_of_the_replica_sets_of_another_controller_one_that_runs_is_judged(
    audit: Callable[..., Ended],
) -> None:
    def replica_set(name: str, replicas: int, container: Object) -> Object:
        content = in_a_deployment(a_pod(container=container))
        content["spec"]["replicas"] = replicas
        return an_object(name, content, "argoproj.io/v1alpha1", "Rollout", "web")

    old = replica_set("web-1", 0, {"securityContext": {"privileged": True}})
    answers = {OF_NAMESPACE[5]: [old, replica_set("web-2", 3, {})], **NODES}
    assert audit(answers=answers).out == []
    ended = audit(answers={OF_NAMESPACE[5]: [old], **NODES})
    assert (subjects(ended), found(ended)) == (["shop/Rollout/web"], [("R17", "Error")])


def test_what_has_finished_and_mirror_pods_are_no_findings(audit: Callable[..., Ended]) -> None:
    mirror = an_object("static", plain(), **RUNNING)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    answers = {
        OF_NAMESPACE[4]: [
            an_object("done", in_a_deployment(plain()), **done),
            an_object("running", in_a_deployment(plain()), status={"conditions": []}),
        ],
        OF_NAMESPACE[7]: [mirror, an_object("ended", plain(), status={"phase": "Failed"})],
        **NODES,
    }
    posing = an_object("posing", in_a_deployment(plain()))
    posing["metadata"]["annotations"] = mirror["metadata"]["annotations"]
    answers[OF_NAMESPACE[0]] = [posing]
    assert subjects(audit(answers=answers)) == ["shop/Deployment/posing", "shop/Job/running"]
    [asked] = [query for path, query in Server.queries if path == OF_NAMESPACE[7]]
    assert asked["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_workloads_that_are_named_are_read_alone(audit: Callable[..., Ended]) -> None:
    web = f"{OF_NAMESPACE[0]}/web"
    pod = f"{OF_NAMESPACE[7]}/web-1-a"
    answers = {
        web: an_object("web", in_a_deployment(plain())),
        pod: an_object("web-1-a", plain(), "apps/v1", "ReplicaSet", "web-1", **RUNNING),
        **NODES,
    }
    ended = audit("deploy/web", "pods/web-1-a", "-n", "shop", answers=answers)
    assert subjects(ended) == ["shop/Deployment/web", "shop/Pod/web-1-a"]
    kinds = [each for each in Server.asked if "/namespaces/shop/" in each]
    assert sorted(kinds) == sorted([web, pod, f"{CORE}/namespaces/shop/limitranges"])


@pytest.mark.parametrize(
    "name", ["deploy/a", "Deployment/a", "deployments.apps/a", "po/a", "sts/a", "cj/a", "rc/a"]
)
def test_kinds_are_named_as_for_kubectl(name: str) -> None:
    assert audit_reader.workload_name(name).name == "a"


def test_what_decides_about_workloads_is_read_from_the_cluster(audit: Callable[..., Ended]) -> None:
    """One workload for each of the other rules that need it: their own tests are in ``unit/audit``."""
    host_process = {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}
    mount = {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}]}
    tolerant = {"tolerations": [{"key": "os", "operator": "Exists"}]}
    contents = {
        "host": a_pod({"hostNetwork": True, "securityContext": host_process, **tolerant}),
        "gone": a_pod({"runtimeClassName": "gone", **tolerant}),
        "class": a_pod({"runtimeClassName": "win"}),
        "mount": a_pod({**volumes, **tolerant}, {"volumeMounts": [mount]}),
        "memory": a_pod(tolerant, {"resources": {}}),
        "pending": a_pod(),
    }
    scheduling = {"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerant["tolerations"]}
    limits = [{"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "512Mi"}}]
    answers = {
        OF_NAMESPACE[7]: [an_object(name, each, **RUNNING) for name, each in contents.items()],
        f"{CORE}/nodes": [
            a_node(
                taints=[{"key": "os", "value": "windows", "effect": "NoSchedule"}],
                runtimeHandlers=[{"name": "", "features": {"recursiveReadOnlyMounts": False}}],
            )
        ],
        CLASSES: [{"metadata": {"name": "win"}, "handler": "docker", "scheduling": scheduling}],
        OF_NAMESPACE[8]: [{"metadata": {"name": "l", "namespace": "shop"}, "spec": {"limits": limits}}],
        f"{CORE}/namespaces/shop": {
            "metadata": {"name": "shop", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}
        },
    }
    ended = audit(answers=answers)
    assert [line.split(" ")[:2] for line in ended.out] == [
        ["shop/Pod/host:", "W10"],
        ["shop/Pod/gone:", "P8"],
        ["shop/Pod/class:", "P9"],
        ["shop/Pod/mount:", "W16"],
        ["shop/Pod/memory:", "W34"],
        ["shop/Pod/pending:", "P4"],
    ]
    assert "spec.containers[0].resources.requests.memory" in ended.out[4]
    assert ended.code == 3
    assert ended.err[-1] == "Not judged: drivers of PersistentVolumes."


def test_a_runtime_class_of_the_cluster_is_judged(audit: Callable[..., Ended]) -> None:
    scheduling = {"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.17763"}}
    answers = {CLASSES: [{"metadata": {"name": "old"}, "handler": "h", "scheduling": scheduling}], **NODES}
    ended = audit(answers=answers)
    assert ended.out[0].startswith("RuntimeClass/old: P10 Warning scheduling.nodeSelector: ")


def test_runtime_classes_in_files_are_judged_for_the_nodes_of_a_pool(audit: Callable[..., Ended]) -> None:
    answers: Object = {f"{CORE}/nodes": [a_node(labels={**WINDOWS, "agentpool": "red"}, taints=[TAINT])]}
    answers[POOL] = RED_POOL
    for tolerations, code in (([], "P10"), ([{"operator": "Exists"}], "")):
        scheduling = {"nodeSelector": WINDOWS, "tolerations": tolerations}
        content = {"kind": "RuntimeClass", "metadata": {"name": "old"}, "scheduling": scheduling}
        ended = audit("-f", "-", "--pool", "win", stdin=json.dumps(content), answers=answers)
        assert (ended.code, [each for each, _ in found(ended)]) == (0, [code] * bool(code))
        assert ended.err[0].endswith("; 1 RuntimeClass read")
        assert ended.err[-1] == "Not judged: nothing."


def test_with_a_pool_its_nodes_are_the_hosts(audit: Callable[..., Ended]) -> None:
    pod = a_pod({"nodeSelector": {"kubernetes.io/os": "windows"}}, {"image": "acme/app:ltsc2025"})
    red, blue = a_node("w1", {**WINDOWS, "agentpool": "red"}), a_node("w2", {**WINDOWS, "agentpool": "blue"})
    blue["status"]["nodeInfo"]["kernelVersion"] = "10.0.26100.1"
    answers = {
        OF_NAMESPACE[7]: [an_object("a", pod, **RUNNING)],
        f"{CORE}/nodes": [red, blue],
        POOL: RED_POOL,
    }
    assert found(audit(answers=answers)) == [("P7", "Warning")]
    ended = audit("--pool", "win", answers=answers)
    assert found(ended) == [("W44", "Warning")]
    assert "On 10.0.20348.4052 (w1): " in ended.out[0]
    manifest = json.dumps(pod)
    ended = audit("-f", "-", "--pool", "wnp/win", stdin=manifest, answers=answers)
    assert (ended.code, found(ended)) == (0, [("W44", "Warning")])
    assert Server.asked == [POOL, f"{CORE}/nodes", CLASSES]
    assert ended.err[-1] == (
        "Not judged: runtime handlers of Windows nodes (P9, W16), Pod Security of namespaces (W10), "
        "LimitRanges (W34), drivers of PersistentVolumes."
    )
    ended = audit("-f", "-", "--pool", "win", stdin=manifest, answers={**answers, f"{CORE}/nodes": [blue]})
    assert (ended.code, ended.out, ended.err) == (1, [], ["the pool win selects no Windows node"])


def test_with_a_host_build_no_node_is_read(audit: Callable[..., Ended]) -> None:
    pod = a_pod(container={"image": "acme/app:ltsc2025"})
    ended = audit("--host-build", "2022", answers={OF_NAMESPACE[7]: [an_object("a", pod, **RUNNING)]})
    assert found(ended) == [("W44", "Warning")]
    assert f"{CORE}/nodes" not in Server.asked


def test_it_is_judged_for_the_api_server_that_is_asked(audit: Callable[..., Ended]) -> None:
    pods = {OF_NAMESPACE[7]: [an_object("a", a_pod({"hostUsers": True}), **RUNNING)], **NODES}
    for version, more, severity in (
        ("v1.32.2", (), "Warning"),
        ("v1.36.3-eks-1", (), "Error"),
        ("v1.36.3", ("--kubernetes", "1.32"), "Warning"),
    ):
        ended = audit(*more, answers={**pods, "/version": {"gitVersion": version}})
        assert found(ended) == [("R15", severity)]
    ended = audit(answers={**pods, "/version": {"gitVersion": "v1.30.1"}})
    assert ended.err[0] == "Kubernetes 1.30 is older than the rules: judged as 1.32"


# What cannot be read


def test_what_someone_may_not_list_is_named_and_the_rest_is_audited(audit: Callable[..., Ended]) -> None:
    answers = {
        OF_NAMESPACE[0]: [an_object("web", in_a_deployment(plain()))],
        OF_NAMESPACE[7]: forbidden("pods", namespace="shop"),
        OF_NAMESPACE[5]: forbidden("replicasets", group="apps", namespace="shop"),
        **NODES,
    }
    ended = audit(answers=answers)
    assert (ended.code, subjects(ended)) == (1, ["shop/Deployment/web"])
    assert ended.err[-1] == (
        "Not judged: replicasets, pods, which cannot be read: jane may not list them: add that to a Role in "
        "shop that is bound to jane."
    )
    answers[OF_NAMESPACE[0]] = [an_object("web", in_a_deployment(a_pod({"hostPID": True})))]
    assert audit(answers=answers).code == 3


def test_where_nodes_cannot_be_read_rules_about_them_are_named(audit: Callable[..., Ended]) -> None:
    answers = {
        OF_NAMESPACE[0]: [an_object("a", in_a_deployment(plain())), an_object("b", in_a_deployment(a_pod()))],
        f"{CORE}/nodes": forbidden("nodes"),
        f"{CORE}/namespaces/shop": KubectlError("Error from server (NotFound): the server could not find it"),
    }
    ended = audit(answers=answers)
    assert (ended.code, ended.out) == (1, [])
    said = ended.err[-1]
    assert "labels and taints of nodes (P1, P2, P4, P10)" in said
    assert "Pod Security of namespaces (W10)" in said
    assert "1 workload without any OS (shop/Deployment/a): whether they can land on Windows nodes" in said
    assert "nodes, which cannot be read: jane may not list them: add that to a ClusterRole that is" in said
    assert "Pod Security of namespaces, which cannot be read: Error from server (NotFound)" in said


def test_with_all_namespaces_a_missing_right_says_how_one_is_read(audit: Callable[..., Ended]) -> None:
    answers = {
        f"{CORE}/pods": forbidden("pods"),
        f"{CORE}/nodes": forbidden("nodes"),
        CLASSES: NotAskedError("no"),
    }
    said = audit("-A", answers=answers).err[-1]
    assert "pods, which cannot be read: jane may not list them: add that to a ClusterRole that is" in said
    assert "bound to jane, or read one namespace with -n" in said
    assert said.count("with -n") == 1
    assert said.startswith("Not judged: no workload was found; ")


def test_a_workload_that_does_not_exist_is_named(audit: Callable[..., Ended]) -> None:
    gone = KubectlError('Error from server (NotFound): deployments.apps "web" not found')
    ended = audit("deploy/web", answers={f"{OF_NAMESPACE[0]}/web": gone, **NODES})
    assert ended.code == 1
    assert (
        'deployments/web, which cannot be read: Error from server (NotFound): deployments.apps "web" not'
        in (ended.err[-1])
    )


def test_an_api_server_that_cannot_be_asked_is_told_once(audit: Callable[..., Ended]) -> None:
    ended = audit(answers={"/version": KubectlError("Unable to connect to the server: EOF")})
    assert (ended.code, ended.out, len(ended.err)) == (NotAskedError.code, [], 1)
    assert "Unable to connect to the server: EOF" in ended.err[0]
    assert Server.asked == ["/version"]


# Output


def test_for_programs_a_finding_has_namespace_kind_and_name(audit: Callable[..., Ended]) -> None:
    answers = {OF_NAMESPACE[0]: [an_object("web", in_a_deployment(plain()))], **NODES}
    ended = audit("-o", "json", answers=answers)
    assert (ended.code, ended.err) == (0, [])
    [finding] = json.loads("\n".join(ended.out))["findings"]
    keys = ("namespace", "kind", "name", "code", "severity")
    assert [finding[each] for each in keys] == ["shop", "Deployment", "web", "P1", "Warning"]
    assert not {"file", "line"} & finding.keys()


def test_annotations_of_objects_in_the_cluster_ignore_rules(audit: Callable[..., Ended]) -> None:
    deployment = an_object("web", in_a_deployment(plain()))
    deployment["metadata"]["annotations"] = {"winpool.dev/audit-ignore": "P1: it tolerates both; R99"}
    ended = audit(answers={OF_NAMESPACE[0]: [deployment], **NODES})
    assert ended.out == []
    assert ended.err[0].startswith("shop/Deployment/web: 'R99' in the annotation")
    assert ended.err[1].endswith("1 ignored (P1: 1); 1 workload without any OS")


def test_a_text_of_the_cluster_cannot_move_the_cursor(audit: Callable[..., Ended]) -> None:
    evil = "w\x1b[2J\u202e"
    node = a_node(evil)
    node["status"]["nodeInfo"]["containerRuntimeVersion"] = evil
    pod = a_pod(container={"name": evil, "image": f"{evil}:ltsc2025"})
    ended = audit(answers={OF_NAMESPACE[7]: [an_object(evil, pod, **RUNNING)], f"{CORE}/nodes": [node]})
    assert ended.out
    assert all(line.isprintable() for line in (*ended.out, *ended.err))


@pytest.mark.parametrize(
    ("is_terminal", "quiet", "is_shown"), [(True, 0.0, True), (True, 60.0, False), (False, 0.0, False)]
)
def test_a_terminal_shows_how_far_a_long_audit_is(
    audit: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_terminal: bool,
    quiet: float,
    is_shown: bool,
) -> None:
    def slowly(self: Server, path: str, **query: str) -> bytes:
        time.sleep(0.05 if path.endswith("/pods") else 0.0)
        return get(self, path, **query)

    get = Server.get
    monkeypatch.setattr(Server, "get", slowly)
    monkeypatch.setattr(reader, "QUIET_SECONDS", quiet)
    monkeypatch.setattr(reader, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    ended = audit(answers=NODES)
    assert any("1 object read" in line for line in ended.err) is is_shown
