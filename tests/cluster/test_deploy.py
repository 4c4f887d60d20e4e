"""``deploy`` on a real API server: applied in every way, admitted, scheduled, and prioritized."""

from __future__ import annotations

import base64
import functools
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3
import yaml

from cluster.forging import NOBODY, a_record
from harness.documents import ROOT
from harness.election import ELECTING, wait_leading
from harness.identity import Caller
from harness.manifests import (
    DEPLOY,
    OVERLAYS,
    QUERY_PROXIES,
    containers_of,
    key_of,
    objects_of,
    template_of,
    without_checkov,
)
from harness.operator import USER, Operator
from harness.waiting import eventually
from release.install import FILE, images_of, kustomized, render, require_version
from release.rendered import main as write_rendered
from testbed.api import ApiError
from testbed.cluster import Testbed
from winpool import __version__
from winpool.api.fence import ALLOW_NO_EXECUTE, PARAMETERS
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.settings import Settings

Object = dict[str, Any]

NAMESPACE: Final = "winpool-system"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
POOLS: Final = "/apis/winpool.dev/v1alpha1/windowsnodepools"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
PATHS: Final = {
    "deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "flowschema": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "poddisruptionbudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    "podmonitors": f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/podmonitors",
    "prometheusrules": f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/prometheusrules",
    "resourcequota": f"/api/v1/namespaces/{NAMESPACE}/resourcequotas",
}
EVERY: Final = [DEPLOY, *OVERLAYS]
TLS: Final = DEPLOY / "overlays" / "metrics-tls"
MATCHED_BY: Final = "X-Kubernetes-PF-FlowSchema-UID"
"""The header with which the API server says which FlowSchema a request belongs to."""
CRITICAL: Final = 2_000_000_000
"""What system-cluster-critical is worth."""

RESENT: Final = {"poddisruptionbudget.policy/winpool configured"}
"""kubectl replaces the selector of a budget as a whole (its patchStrategy), so it always sends a patch."""

MONITORING: Final = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}
"""Kinds of the Prometheus operator. The testbed has their names only, so that their objects are taken."""

every_way = pytest.mark.parametrize("folder", EVERY, ids=lambda folder: folder.name)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A cluster in which a person has applied the file of a release; two hosts are for the operator."""
    directory = tmp_path_factory.mktemp("deploy")
    with Testbed.up(directory=directory, windows=2, linux=3) as testbed:
        name = names(testbed, "kubernetes.io/os=linux")[0]
        testbed.kubectl("label", "node", name, f"{POOL_LABEL}=of-a-pool")
        # An operator leaves it alone: it does not know the owner that this record names.
        testbed.kubectl("annotate", "node", name, f"{APPLIED_ANNOTATION}={a_record(NOBODY)}")
        for kind, plural in MONITORING.items():
            testbed.kubectl("apply", "-f", "-", stdin=json.dumps(a_crd(kind, plural)))
            testbed.kubectl("wait", "--for=condition=Established", f"crd/{plural}.monitoring.coreos.com")
        (directory / FILE).write_text(render())
        assert lines_but("created", testbed.kubectl("apply", "-f", str(directory / FILE))) == []
        yield testbed


def a_crd(kind: str, plural: str) -> Object:
    group = "monitoring.coreos.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


def names(testbed: Testbed, selector: str) -> list[str]:
    listed = testbed.api().get("/api/v1/nodes", labelSelector=selector)
    return sorted(each["metadata"]["name"] for each in listed["items"])


@functools.cache
def rendered(folder: Path) -> list[Object]:
    """Return the objects of a kustomization as kubectl renders them; do not change them."""
    return [*yaml.safe_load_all(kustomized(folder))]


def read(testbed: Testbed, kind: str, name: str = "winpool") -> Object:
    return testbed.api().get(f"{PATHS[kind]}/{name}")


def pods(testbed: Testbed) -> list[Object]:
    found: list[Object] = testbed.api().get(PODS)["items"]
    return found


def lines_but(outcome: str, applied: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what kubectl says of the objects that have another outcome than this."""
    return [line for line in applied.stdout.splitlines() if not line.endswith(f" {outcome}")]


@pytest.mark.nightly
def test_a_second_apply_changes_nothing_and_neither_does_one_by_the_server(installed: Testbed) -> None:
    kinds = ("deployment", "poddisruptionbudget")
    before = [read(installed, kind) for kind in kinds]
    assert {*lines_but("unchanged", installed.kubectl("apply", "-k", str(DEPLOY)))} <= RESENT
    done = installed.kubectl("apply", "--server-side", "-k", str(DEPLOY))
    assert lines_but("serverside-applied", done) == []
    assert done.stderr == "", "it conflicts with the apply before"
    installed.kubectl("apply", "-k", str(DEPLOY))
    assert {*lines_but("unchanged", installed.kubectl("apply", "-k", str(DEPLOY)))} <= RESENT
    after = [read(installed, kind) for kind in kinds]
    assert [each["spec"] for each in after] == [each["spec"] for each in before]
    generations = [[each["metadata"]["generation"] for each in found] for found in (before, after)]
    assert generations[0] == generations[1]


@pytest.mark.nightly
@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client", "server"])
def test_noexecute_taints_that_an_admin_has_forbidden_stay_so_when_deploy_is_applied_again(
    installed: Testbed, how: tuple[str, ...]
) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{PARAMETERS}"
    assert "data" not in installed.api().get(path)
    node = f"/api/v1/nodes/{names(installed, 'kubernetes.io/os=windows')[0]}?dryRun=All"
    taint = {"spec": {"taints": [{"key": "os", "value": "windows", "effect": "NoExecute"}]}}
    with Caller.named(installed, USER, "system:authenticated") as operator:

        def status() -> int:
            return operator.patch(node, taint)[0]

        eventually(lambda: status() == HTTPStatus.OK, what="NoExecute taints are allowed without the key")
        try:
            installed.api().merge(path, {"data": {ALLOW_NO_EXECUTE: "false"}})
            eventually(lambda: status() == HTTPStatus.FORBIDDEN, what="NoExecute taints are refused")
            for _ in range(2):
                installed.kubectl("apply", *how, "-k", str(DEPLOY))
                assert installed.api().get(path)["data"] == {ALLOW_NO_EXECUTE: "false"}
            assert installed.kubectl("diff", "-k", str(DEPLOY)).stdout == ""
            assert status() == HTTPStatus.FORBIDDEN
        finally:
            installed.api().merge(path, {"data": None})
            # As it was: after an apply by the server, the next one of the client changes each object.
            installed.kubectl("apply", "-k", str(DEPLOY))
        eventually(lambda: status() == HTTPStatus.OK, what="NoExecute taints are allowed again")


@every_way
def test_the_api_server_takes_every_object(installed: Testbed, folder: Path) -> None:
    count = len(rendered(folder))
    for server_side in ([], ["--server-side"]):
        done = installed.kubectl(
            "apply", *server_side, "--dry-run=server", "--validate=strict", "-k", str(folder)
        )
        assert len(done.stdout.splitlines()) == count
        assert "deprecated" not in done.stderr


@pytest.mark.parametrize("manifest", QUERY_PROXIES, ids=lambda path: path.stem)
def test_the_api_server_takes_the_proxy_of_a_managed_prometheus(installed: Testbed, manifest: Path) -> None:
    done = installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(manifest))
    assert len(done.stdout.splitlines()) == len([*yaml.safe_load_all(manifest.read_text())])
    assert done.stderr == "", "a warning, such as one of Pod Security"


def test_the_files_read_without_kubectl_are_what_it_renders() -> None:
    by_kubectl = {key_of(each): without_checkov(each) for each in rendered(DEPLOY)}
    assert by_kubectl == {key_of(each): without_checkov(each) for each in objects_of(DEPLOY)}


@pytest.mark.nightly
def test_deploy_and_every_overlay_are_written_for_checkov_and_nothing_from_before_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / "an-overlay-that-is-gone.yaml").touch()
    assert write_rendered([str(tmp_path)]) == 0
    found = {path.name: [*yaml.safe_load_all(path.read_text())] for path in tmp_path.iterdir()}
    assert found == {f"{folder.name}.yaml": rendered(folder) for folder in EVERY}


@pytest.mark.nightly
def test_one_file_for_a_release_is_what_k_applies(installed: Testbed) -> None:
    assert [*yaml.safe_load_all(render())] == rendered(DEPLOY)
    assert installed.kubectl("diff", "-k", str(DEPLOY)).stdout == ""


def test_a_digest_beside_the_tag_pins_the_image_of_a_release(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "operator", tmp_path / "operator")
    path = tmp_path / "operator" / "kustomization.yaml"
    digest = f"sha256:{'0' * 64}"
    path.write_text(path.read_text().replace("  newTag: ", f"  digest: {digest}\n  newTag: "))
    images = images_of(kustomized(path.parent))
    require_version(images)
    (image,) = [container["image"] for each in objects_of(DEPLOY) for container in containers_of(each)]
    assert images == [f"{image}@{digest}"]
    assert images == images_of(render(digest=digest)), "as a release has it"
    assert images == [each["image"] for read in objects_of(path.parent) for each in containers_of(read)]


def test_a_release_can_have_an_image_of_another_name() -> None:
    digest = f"sha256:{'0' * 64}"
    assert images_of(render(image="registry.example/mine", digest=digest)) == [
        f"registry.example/mine:{__version__}@{digest}"
    ]


# The Pods.


def test_two_pods_run_on_two_hosts_that_belong_to_no_pool(installed: Testbed) -> None:
    installed.kubectl("rollout", "status", "deployment/winpool", "-n", NAMESPACE, "--timeout=120s")
    hosts = sorted(pod["spec"]["nodeName"] for pod in pods(installed))
    assert hosts == names(installed, f"kubernetes.io/os=linux,!{POOL_LABEL}")


def test_a_new_version_is_spread_over_both_hosts_too(installed: Testbed) -> None:
    installed.kubectl("rollout", "restart", "deployment/winpool", "-n", NAMESPACE)
    installed.kubectl("rollout", "status", "deployment/winpool", "-n", NAMESPACE, "--timeout=120s")
    eventually(lambda: len(pods(installed)) == 2, what="the pods of the version before gone")
    hosts = sorted(pod["spec"]["nodeName"] for pod in pods(installed))
    assert hosts == names(installed, f"kubernetes.io/os=linux,!{POOL_LABEL}")


def test_pods_have_the_priority_the_quota_counts_and_one_token(installed: Testbed) -> None:
    eventually(lambda: len(pods(installed)) == 2, what="two pods")
    for pod in pods(installed):
        assert pod["spec"]["priority"] == CRITICAL
        assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["kube-api-access"]
    eventually(
        lambda: read(installed, "resourcequota", "winpool-critical-pods")["status"]["used"] == {"pods": "2"},
        what="both pods in the quota",
    )


def test_the_namespace_admits_our_pods_and_refuses_those_that_are_not_restricted(installed: Testbed) -> None:
    template = template_of(read(installed, "deployment"))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-hand"}, "spec": template["spec"]}
    assert installed.api().create(PODS, pod, dryRun="All")["metadata"]["name"] == "by-hand"
    for field in ("runAsNonRoot", "seccompProfile"):
        context = {key: value for key, value in pod["spec"]["securityContext"].items() if key != field}
        with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
            installed.api().create(
                PODS, {**pod, "spec": {**pod["spec"], "securityContext": context}}, dryRun="All"
            )


def test_no_admission_refused_a_pod_and_the_budget_knows_both(installed: Testbed) -> None:
    eventually(
        lambda: read(installed, "poddisruptionbudget")["status"].get("expectedPods") == 2,
        what="a budget for two pods",
    )
    sets = installed.api().get(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets")["items"]
    conditions = [each["type"] for found in sets for each in found["status"].get("conditions", [])]
    assert sets
    assert conditions == []


# Hosts that are drained.


def test_a_second_eviction_is_refused_until_the_first_is_replaced(installed: Testbed) -> None:
    wait_spread(installed)
    eventually(
        lambda: read(installed, "poddisruptionbudget")["status"]["disruptionsAllowed"] >= 1,
        what="the budget permits an eviction",
    )
    (first, host), (second, other) = (
        (pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in pods(installed)
    )
    # Both hosts are cordoned, so nothing replaces the first before the second is asked for. The host of
    # the first is free again before the other: a Pod that waits takes the host that is free first, and stays.
    with cordoned(installed, other):
        with cordoned(installed, host):
            evict(installed, first)
            with pytest.raises(ApiError, match="disruption budget") as refused:
                evict(installed, second)
            assert refused.value.status == HTTPStatus.TOO_MANY_REQUESTS
        wait_spread(installed)

    def is_evicted() -> bool:
        try:
            evict(installed, second)
        except ApiError as error:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return False
        return True

    eventually(is_evicted, what="an eviction once the first is replaced")
    wait_spread(installed)


def evict(testbed: Testbed, name: str) -> None:
    """Evict a pod of the operator as ``kubectl drain`` does."""
    about = {"name": name, "namespace": NAMESPACE}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
    testbed.api().create(f"{PODS}/{name}/eviction", eviction)


def test_a_cordoned_host_leaves_no_pod_pending(installed: Testbed) -> None:
    cordon, other = two_hosts(installed)
    wait_spread(installed)
    with cordoned(installed, cordon):
        delete_pod_on(installed, cordon)
        eventually(lambda: hosts_of(installed) == [other, other], what="both pods on the other host")
    delete_pod_on(installed, other)
    wait_spread(installed)


def two_hosts(testbed: Testbed) -> list[str]:
    """Return the names of the nodes for the operator."""
    return names(testbed, f"kubernetes.io/os=linux,!{POOL_LABEL}")


def hosts_of(testbed: Testbed) -> list[str]:
    """Return the node of each pod that runs, is Ready and does not end."""
    return sorted(
        pod["spec"]["nodeName"]
        for pod in pods(testbed)
        if "deletionTimestamp" not in pod["metadata"]
        for condition in pod["status"].get("conditions", [])
        if (condition["type"], condition["status"]) == ("Ready", "True")
    )


def wait_spread(testbed: Testbed) -> None:
    """Return when there are two pods, one on each host."""
    hosts = two_hosts(testbed)
    eventually(
        lambda: len(pods(testbed)) == 2 and hosts_of(testbed) == hosts, what="a pod on each host", seconds=120
    )


def delete_pod_on(testbed: Testbed, host: str) -> None:
    name = next(pod["metadata"]["name"] for pod in pods(testbed) if pod["spec"]["nodeName"] == host)
    testbed.api().delete(f"{PODS}/{name}")


@contextmanager
def cordoned(testbed: Testbed, *hosts: str) -> Iterator[None]:
    """Cordon hosts for a time; the scheduler goes by the taint that a controller adds to them."""

    def tainted() -> list[str]:
        items = testbed.api().get("/api/v1/nodes")["items"]
        keys = {each["metadata"]["name"]: each["spec"].get("taints", []) for each in items}
        return [host for host in hosts if UNSCHEDULABLE in {taint["key"] for taint in keys[host]}]

    testbed.kubectl("cordon", *hosts)
    try:
        eventually(lambda: len(tainted()) == len(hosts), what="the taint of a cordoned host")
        yield
    finally:
        testbed.kubectl("uncordon", *hosts)
        eventually(lambda: not tainted(), what="the taint of a cordoned host gone")


# Overlays.


def test_one_replica_has_no_budget() -> None:
    found = rendered(DEPLOY / "overlays" / "single-replica")
    assert [each["spec"]["replicas"] for each in found if each["kind"] == "Deployment"] == [1]
    assert difference("single-replica") == {("PodDisruptionBudget", "winpool")}


def test_outside_the_cluster_nothing_is_left_that_belongs_to_pods() -> None:
    assert difference("outside-the-cluster") == {
        ("Deployment", "winpool"),
        ("NetworkPolicy", "winpool"),
        ("PodDisruptionBudget", "winpool"),
        ("ResourceQuota", "winpool-critical-pods"),
        ("Service", "winpool-metrics"),
    }


def test_the_prometheus_operator_gets_its_two_objects(installed: Testbed) -> None:
    assert difference("prometheus-operator") == {
        ("PodMonitor", "winpool"),
        ("PrometheusRule", "winpool"),
    }
    installed.kubectl("apply", "-k", str(DEPLOY / "overlays" / "prometheus-operator"))
    for plural in MONITORING.values():
        assert read(installed, plural)["metadata"]["labels"] == {"app.kubernetes.io/name": "winpool"}


REVIEWING: Final = {("ClusterRole", "winpool-metrics-auth"), ("ClusterRoleBinding", "winpool-metrics-auth")}


def test_metrics_by_tls_changes_the_deployment_and_adds_the_right_to_review_tokens() -> None:
    assert difference("metrics-tls") == REVIEWING
    mine, theirs = ({key_of(each): each for each in rendered(folder)} for folder in (DEPLOY, TLS))
    assert [key[1] for key in mine if mine[key] != theirs[key]] == ["Deployment"]


@pytest.mark.parametrize("overlay", ["metrics-tls", "prometheus-operator-tls"])
def test_metrics_by_tls_have_settings_that_are_valid_and_files_of_the_secret(overlay: str) -> None:
    (deployment,) = (each for each in rendered(DEPLOY / "overlays" / overlay) if each["kind"] == "Deployment")
    (operator,) = containers_of(deployment)
    values: Object = {key.removeprefix("WINPOOL_").lower(): each for key, each in set_in(operator).items()}
    settings = Settings(**values)
    assert (settings.metrics_auth, settings.port, settings.health_port) == ("token", 8080, 8081)
    (mount,) = (each for each in operator["volumeMounts"] if each["name"] == "metrics-tls")
    assert "subPath" not in mount, "the kubelet would not update it"
    (volume,) = (
        each["secret"] for each in template_of(deployment)["spec"]["volumes"] if each["name"] == "metrics-tls"
    )
    files = {f"{mount['mountPath']}/{item['path']}": item["key"] for item in volume["items"]}
    assert files == {str(settings.tls_cert_file): "tls.crt", str(settings.tls_key_file): "tls.key"}


def test_the_prometheus_operator_reads_by_tls_with_a_token_that_may_do_nothing_else(
    installed: Testbed,
) -> None:
    overlay = DEPLOY / "overlays" / "prometheus-operator-tls"
    scraper = "winpool-metrics-scraper"
    further = {("ServiceAccount", scraper), ("Secret", scraper), ("ClusterRoleBinding", scraper)}
    monitoring = {("PodMonitor", "winpool"), ("PrometheusRule", "winpool")}
    assert difference(overlay.name) == {*further, *monitoring, *REVIEWING}
    found = {(each["kind"], each["metadata"]["name"]): each for each in rendered(overlay)}
    (endpoint,) = found["PodMonitor", "winpool"]["spec"]["podMetricsEndpoints"]
    service = found["Service", "winpool-metrics"]["metadata"]
    (volume,) = (
        each["secret"]
        for each in template_of(found["Deployment", "winpool"])["spec"]["volumes"]
        if "secret" in each
    )
    assert endpoint == {
        "port": "metrics",
        "path": "/metrics",
        "scheme": "https",
        "authorization": {"credentials": {"name": scraper, "key": "token"}},
        "tlsConfig": {
            "serverName": f"{service['name']}.{service['namespace']}.svc",
            "ca": {"secret": {"name": volume["secretName"], "key": "ca.crt"}},
        },
    }
    # The Deployment is left as it is: there is no certificate in this cluster. In the order of kubectl: a
    # Secret for an account that is not there yet is deleted by the controller of tokens.
    for kind in ("ServiceAccount", "Secret", "ClusterRoleBinding"):
        installed.kubectl("apply", "-f", "-", stdin=json.dumps(found[kind, scraper]))

    def token() -> str:
        secret = installed.api().get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{scraper}")
        return base64.b64decode(secret.get("data", {}).get("token", "")).decode()

    given = eventually(token, what="its token")
    # The API server learns of a binding a moment after its answer.
    eventually(lambda: status_of(installed, "/metrics", token=given) == 200, what="the right to read metrics")
    assert status_of(installed, "/api/v1/pods", token=given) == 403
    assert status_of(installed, f"/api/v1/namespaces/{NAMESPACE}/secrets", token=given) == 403


MEMORY: Final = {
    ("ServiceAccount", "winpool-kubelet-reader"),
    ("ClusterRole", "winpool-kubelet-reader"),
    ("ClusterRoleBinding", "winpool-kubelet-reader"),
    ("Role", "winpool-kubelet-reader-token"),
    ("RoleBinding", "winpool-kubelet-reader-token"),
    ("ClusterRole", "winpool-memory"),
    ("ClusterRoleBinding", "winpool-memory"),
    ("NetworkPolicy", "winpool-kubelets"),
}


def test_memory_pressure_changes_the_deployment_and_adds_its_rights_and_the_way_to_kubelets() -> None:
    assert difference("memory") == MEMORY
    overlay = DEPLOY / "overlays" / "memory"
    mine, theirs = ({key_of(each): each for each in rendered(folder)} for folder in (DEPLOY, overlay))
    assert [key[1] for key in mine if mine[key] != theirs[key]] == ["Deployment"]
    (before, after) = (
        next(containers_of(next(each for each in found.values() if each["kind"] == "Deployment")))
        for found in (mine, theirs)
    )
    ca = {"name": "WINPOOL_KUBELET_CA_FILE", "value": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"}
    assert {**after, "env": [each for each in after["env"] if each != ca]} == before
    assert ca in after["env"]


def test_a_rollout_changes_nothing_and_adds_its_rights() -> None:
    assert difference("rollout") == {
        ("ClusterRole", "winpool-rollout"),
        ("ClusterRoleBinding", "winpool-rollout"),
    }
    overlay = DEPLOY / "overlays" / "rollout"
    mine, theirs = ({key_of(each): each for each in rendered(folder)} for folder in (DEPLOY, overlay))
    assert [key for key in mine if mine[key] != theirs[key]] == []


def test_force_changes_nothing_and_adds_the_rights_of_a_rollout_and_its_own() -> None:
    """The flag is another key, which no overlay turns."""
    assert difference("force") == {
        *difference("rollout"),
        ("ClusterRole", "winpool-force"),
        ("ClusterRoleBinding", "winpool-force"),
    }
    assert "ALLOW_FORCE" not in str(rendered(DEPLOY / "overlays" / "force"))


def status_of(testbed: Testbed, path: str, *, token: str) -> int:
    """Return the status of a GET. The API server has metrics of its own under the same nonResourceURL."""
    with urllib3.PoolManager(ca_certs=str(testbed.ca_file)) as pool:
        answer = pool.request("GET", f"{testbed.server}{path}", headers={"Authorization": f"Bearer {token}"})
    return answer.status


def difference(overlay: str) -> set[tuple[str, str]]:
    """Return the objects that only ``deploy`` has, or only the overlay, by kind and name."""
    ours = {key_of(each) for each in rendered(DEPLOY)}
    theirs = {key_of(each) for each in rendered(DEPLOY / "overlays" / overlay)}
    return {(kind, name) for _, kind, _, name in ours ^ theirs}


def test_components_combine_in_a_kustomization_of_ones_own_and_the_image_is_replaced_there(
    tmp_path: Path,
) -> None:
    base = tmp_path / "winpool"
    for folder in ("crds", "deploy"):
        (base / folder).parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", str(ROOT / folder), str(base / folder)], check=True)
    (tmp_path / "kustomization.yaml").write_text(own_kustomization())
    found = rendered(tmp_path)
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    assert [each["image"] for each in containers_of(deployment)] == ["registry.example/winpool:0.1.0"]
    assert deployment["spec"]["replicas"] == 1
    assert "PodMonitor" in {each["kind"] for each in found}
    assert "PodDisruptionBudget" not in {each["kind"] for each in found}


SETUP: Final = (ROOT / "docs" / "memory-setup.md").read_text()


def kustomizations_of_setup() -> list[tuple[Object, str]]:
    """Return the blocks of the page that are manifests: each parsed, and as it stands there."""
    blocks = [block.partition("```")[0] for block in SETUP.split("```yaml\n")[1:]]
    return [(yaml.safe_load(block), block) for block in blocks]


def environment_of_setup(tmp_path: Path, *, with_text: str) -> tuple[list[Object], Object]:
    """Render the kustomization of the page that has this text; return all objects and the container."""
    base = tmp_path / "winpool"
    base.mkdir()
    for folder in ("crds", "deploy"):
        subprocess.run(["cp", "-r", str(ROOT / folder), str(base / folder)], check=True)
    found = kustomizations_of_setup()
    (own,) = [text for parsed, text in found if parsed.get("kind") == "Kustomization" and with_text in text]
    (tmp_path / "kustomization.yaml").write_text(own)
    # The others are for a managed Prometheus, which has another manifest.
    sources = next(text for parsed, text in found if "dataSources" in parsed)
    (tmp_path / "data-sources.yaml").write_text(sources)
    (egress,) = [text for parsed, text in found if parsed.get("kind") == "NetworkPolicy"]
    (tmp_path / "prometheus-egress.yaml").write_text(egress)
    objects = rendered(tmp_path)
    containers = [container for each in objects for container in containers_of(each)]
    return objects, containers[0] if containers else {}


def set_in(container: Object) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_the_page_about_setting_up_memory_pressure_sets_another_ca(tmp_path: Path) -> None:
    _, container = environment_of_setup(tmp_path, with_text="configMap")
    file = Path(set_in(container)["WINPOOL_KUBELET_CA_FILE"])
    assert [each for each in container["volumeMounts"] if each["mountPath"] == str(file.parent)]
    assert f"--from-file={file.name}" in SETUP


def test_the_page_about_setting_up_memory_pressure_turns_verification_off_by_name(tmp_path: Path) -> None:
    _, container = environment_of_setup(tmp_path, with_text="$patch: delete")
    values = set_in(container)
    assert values["WINPOOL_KUBELET_INSECURE_TLS"] == "true"
    assert "WINPOOL_KUBELET_CA_FILE" not in values, "the operator refuses both"


def test_the_page_about_setting_up_memory_pressure_names_a_prometheus(tmp_path: Path) -> None:
    objects, container = environment_of_setup(tmp_path, with_text="secretGenerator")
    values = set_in(container)
    assert values["WINPOOL_DATA_SOURCES_FILE"] == "/etc/winpool/data-sources/data-sources.yaml"
    assert "WINPOOL_KUBELET_CA_FILE" in values
    (secret,) = [each for each in objects if each["kind"] == "Secret"]
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    mounted = [each["secret"] for each in template_of(deployment)["spec"]["volumes"] if "secret" in each]
    assert [each["secretName"] for each in mounted] == [secret["metadata"]["name"]]
    assert {"winpool-kubelets", "winpool-prometheus"} <= {
        each["metadata"]["name"] for each in objects if each["kind"] == "NetworkPolicy"
    }


def test_the_page_about_setting_up_memory_pressure_has_the_rights_for_an_operator_outside(
    tmp_path: Path,
) -> None:
    objects, container = environment_of_setup(tmp_path, with_text="components/outside-the-cluster")
    assert container == {}
    assert {key_of(each)[3] for each in objects} >= {name for _, name in MEMORY}


def own_kustomization() -> str:
    """Return the example of the page, which has a ``winpool`` beside it."""
    page = (ROOT / "docs" / "operator.md").read_text()
    (example,) = [
        block.partition("```")[0]
        for block in page.split("```yaml\n")[1:]
        if "kustomize.config.k8s.io" in block.partition("```")[0]
    ]
    return example


# Priorities of the API server.


@pytest.mark.parametrize(
    ("method", "path", "schema"),
    [
        pytest.param("GET", f"{LEASES}/winpool", "winpool-lease", id="get lease"),
        pytest.param("PATCH", f"{LEASES}/winpool", "winpool-lease", id="patch lease"),
        pytest.param("POST", LEASES, "winpool-lease", id="create lease"),
        pytest.param("GET", f"{LEASES}?limit=1", "winpool-lease", id="list leases"),
        pytest.param("GET", f"{LEASES}?watch=1&timeoutSeconds=1", "winpool-lease", id="watch leases"),
        pytest.param("PATCH", "/api/v1/nodes/nobody", "winpool-writes", id="node"),
        pytest.param("PATCH", "/api/v1/nodes/nobody/status", "winpool-writes", id="node status"),
        pytest.param(
            "PATCH", "/apis/winpool.dev/v1alpha1/windowsnodepools/nobody", "winpool-writes", id="pool"
        ),
        pytest.param(
            "PATCH",
            "/apis/winpool.dev/v1alpha1/windowsnodepools/nobody/status",
            "winpool-writes",
            id="pool status",
        ),
        pytest.param("GET", "/api/v1/pods?limit=1", "service-accounts", id="pods"),
        pytest.param("GET", "/api/v1/nodes?limit=1", "service-accounts", id="nodes"),
    ],
)
def test_requests_of_the_operator_have_their_level(
    installed: Testbed, method: str, path: str, schema: str
) -> None:
    uid = read(installed, "flowschema", schema)["metadata"]["uid"]
    eventually(lambda: flow_of(installed, method, path) == uid, what=f"{path} to belong to {schema}")

    def has_its_level() -> bool:
        """The API server goes by a FlowSchema, and writes its status, each at its own time."""
        conditions = read(installed, "flowschema", schema).get("status", {}).get("conditions", [])
        return [each["status"] for each in conditions if each["type"] == "Dangling"] == ["False"]

    eventually(has_its_level, what=f"the level of {schema}")


def test_the_requests_of_a_running_operator_have_their_levels(installed: Testbed, tmp_path: Path) -> None:
    """No request for a Lease and no write to a node or a pool has come under another FlowSchema."""
    before, start = dispatched(installed), datetime.now(UTC)
    operator = Operator(
        kubeconfig=installed.kubeconfig("winpool"), log_file=tmp_path / "operator.log", environment=ELECTING
    )
    pool = a_pool("dispatched")
    try:
        operator.start()
        wait_leading(operator)
        installed.api().create(POOLS, pool)
        eventually(lambda: len(names(installed, f"{POOL_LABEL}=dispatched")) == 2, what="both nodes labelled")
        installed.api().delete(f"{POOLS}/dispatched")
        eventually(lambda: not installed.api().get(POOLS)["items"], what="the pool gone")
        assert operator.stop() == 0
    finally:
        operator.close()
    installed.settle_audit()
    asked = installed.audit.requests(user=USER, since=start)
    after = dispatched(installed)
    leases = [each for each in asked if each.resource == "leases"]
    writes = [each for each in asked if each.writes and each.resource in {"nodes", "windowsnodepools"}]
    assert {"get", "list"} & {each.verb for each in leases}
    assert "patch" in {each.verb for each in leases}
    assert {each.resource for each in writes} == {"nodes", "windowsnodepools"}
    assert after["winpool-lease"] - before["winpool-lease"] >= len(leases)
    assert after["winpool-writes"] - before["winpool-writes"] >= len(writes)


def a_pool(name: str) -> Object:
    """Return a pool of all Windows nodes."""
    return {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"matchLabels": {"kubernetes.io/os": "windows"}},
            "os": {"version": "2022"},
        },
    }


def dispatched(testbed: Testbed) -> Counter[str]:
    """Return how many requests the API server has begun to work on, by FlowSchema."""
    text = testbed.kubectl("get", "--raw", "/metrics").stdout
    found: Counter[str] = Counter()
    for labels, value in re.findall(
        r"^apiserver_flowcontrol_dispatched_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE
    ):
        found[dict(re.findall(r'(\w+)="([^"]*)"', labels))["flow_schema"]] += int(float(value))
    return found


def flow_of(testbed: Testbed, method: str, path: str) -> str | None:
    """Return the UID of the FlowSchema of a request; rights are asked for after that."""
    token = testbed.mint_token(lifetime_seconds=600)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
    body = b"{}" if method == "PATCH" else None
    with urllib3.PoolManager(ca_certs=str(testbed.ca_file)) as pool:
        answer = pool.request(method, f"{testbed.server}{path}", body=body, headers=headers)
    found: str | None = answer.headers.get(MATCHED_BY)
    return found
