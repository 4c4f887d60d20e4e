"""The proxies for a managed Prometheus: their manifests, and what the page says about them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster.admission.tables import SMALLEST
from harness.clock import Seconds
from harness.documents import ROOT
from harness.manifests import (
    DEPLOY,
    QUERY_PROXIES,
    containers_of,
    kustomization_of,
    objects_of,
    template_of,
)
from winpool.cli.manifests import faults_of
from winpool.kubelet.exporter import Query
from winpool.kubelet.prometheus import PrometheusClient
from winpool.sampling import read_data_sources

Object = dict[str, Any]

PAGES: Final = ("memory-setup.md", "memory-managed-prometheus.md")
PAGE: Final = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
BLOCKS: Final = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SOURCES: Final = [block for block in BLOCKS if block.startswith("dataSources:")]
NAMESPACE: Final = "winpool-system"
[OPERATOR] = [each for each in objects_of(DEPLOY) if each["kind"] == "Deployment"]
LABELS: Final = template_of(OPERATOR)["metadata"]["labels"]

every_proxy = pytest.mark.parametrize("path", QUERY_PROXIES, ids=lambda path: path.stem)


def objects_in(path: Path) -> list[Object]:
    return [*yaml.safe_load_all(path.read_text())]


def of_kind(path: Path, kind: str) -> list[Object]:
    return [each for each in objects_in(path) if each["kind"] == kind]


def the(path: Path, kind: str) -> Object:
    [found] = of_kind(path, kind)
    return found


def test_the_operator_takes_every_data_source_of_the_page() -> None:
    assert len(SOURCES) == 1 + len(QUERY_PROXIES)
    for block in SOURCES:
        assert list(read_data_sources(block, monotonic=Seconds())) == ["main"]


def test_a_pool_of_the_page_is_accepted_and_names_its_data_source() -> None:
    [block] = [yaml.safe_load(block) for block in BLOCKS if block.startswith("spec:")]
    about = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "page"}}
    assert faults_of({**about, "spec": {**SMALLEST, **block["spec"]}}) == ()
    [first, _] = block["spec"]["memoryPressure"]["sources"]
    assert first["prometheus"] == {"dataSource": "main", "nodeLabel": "instance"}


@every_proxy
def test_the_page_names_the_service_and_tells_clusters_apart(path: Path) -> None:
    service = the(path, "Service")
    [port] = service["spec"]["ports"]
    address = f"http://{service['metadata']['name']}.{NAMESPACE}.svc:{port['port']}"
    [block] = [block for block in SOURCES if address in block]
    client = read_data_sources(block, monotonic=Seconds())["main"].client
    assert isinstance(client, PrometheusClient)
    assert {"job", "cluster"} <= client.matchers.keys()
    assert (client.token, client.user, client.headers) == (None, None, {}), "the proxy gets no secret of ours"
    assert f"../{path.relative_to(ROOT)}" in PAGE


@every_proxy
def test_the_page_names_the_image(path: Path) -> None:
    [container] = containers_of(the(path, "Deployment"))
    name = container["image"].rpartition("/")[2]
    assert re.fullmatch(r"[a-z0-9-]+:[a-z0-9.-]*\d[a-z0-9.-]*", name), "a version, and not latest"
    assert f"`{name}`" in PAGE


@every_proxy
def test_every_object_is_in_our_namespace_which_pods_of_the_restricted_profile_enter(path: Path) -> None:
    assert all(each["metadata"]["namespace"] == NAMESPACE for each in objects_in(path))
    assert all(each["metadata"]["labels"]["app.kubernetes.io/name"] == "winpool" for each in objects_in(path))
    spec = template_of(the(path, "Deployment"))["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["runAsGroup"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}
    assert {"livenessProbe", "readinessProbe"} <= container.keys()


@every_proxy
def test_a_proxy_has_an_identity_of_its_own_and_none_for_the_api_server(path: Path) -> None:
    account, spec = the(path, "ServiceAccount"), template_of(the(path, "Deployment"))["spec"]
    assert spec["serviceAccountName"] == account["metadata"]["name"] != "winpool"
    assert account["automountServiceAccountToken"] is spec["automountServiceAccountToken"] is False
    assert "volumes" not in spec
    assert {each["kind"] for each in objects_in(path)} == {
        *("Deployment", "NetworkPolicy", "Service", "ServiceAccount")
    }


@every_proxy
def test_only_the_operator_reaches_a_proxy_and_is_permitted_to(path: Path) -> None:
    labels = template_of(the(path, "Deployment"))["metadata"]["labels"]
    mine = {key: labels[key] for key in ("app.kubernetes.io/name", "app.kubernetes.io/component")}
    assert mine != LABELS
    assert the(path, "Deployment")["spec"]["selector"]["matchLabels"] == mine
    assert the(path, "Service")["spec"]["selector"] == mine
    policies = {
        each["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: each["spec"]
        for each in of_kind(path, "NetworkPolicy")
    }
    assert policies.keys() == {mine["app.kubernetes.io/component"], "operator"}
    proxy, operator = policies[mine["app.kubernetes.io/component"]], policies["operator"]
    [container] = containers_of(the(path, "Deployment"))
    [port] = container["ports"]
    assert (proxy["podSelector"], proxy["policyTypes"]) == ({"matchLabels": mine}, ["Ingress", "Egress"])
    assert proxy["ingress"] == [
        {
            "from": [{"podSelector": {"matchLabels": LABELS}}],
            "ports": [{"port": port["name"], "protocol": "TCP"}],
        }
    ]
    assert (operator["podSelector"], operator["policyTypes"]) == ({"matchLabels": LABELS}, ["Egress"])
    assert operator["egress"] == [
        {
            "to": [{"podSelector": {"matchLabels": mine}}],
            "ports": [{"port": port["containerPort"], "protocol": "TCP"}],
        }
    ]
    assert the(path, "Service")["spec"]["ports"] == [
        {"name": port["name"], "port": port["containerPort"], "targetPort": port["name"]}
    ]


def test_no_kustomization_has_a_proxy() -> None:
    """Each has values of its reader, so that none can be applied as it is."""
    names = {path.name for path in QUERY_PROXIES}
    kustomizations = sorted(DEPLOY.rglob("kustomization.yaml"))
    assert kustomizations
    for each in kustomizations:
        assert not names & {Path(name).name for name in kustomization_of(each.parent).get("resources", ())}


def test_the_keep_list_of_the_page_has_every_metric_that_is_read() -> None:
    read = {name for query in Query for name in re.findall(r"windows_memory_\w+", query.value)}
    *_, keep_list = re.findall(r'^windowsexporter = "(.*)"$', PAGE, re.MULTILINE)
    names = re.fullmatch(r"windows_memory_\((.*)\)", keep_list)
    assert names is not None
    assert {f"windows_memory_{name}" for name in names[1].split("|")} == read
    [row] = [line for line in PAGE.splitlines() if line.startswith("| a keep-list or an ingestion profile")]
    assert read == {f"windows_memory_{name}" for name in re.findall(r"`(\w+)`", row)} - {
        "windows_memory_windows_memory_"
    }
