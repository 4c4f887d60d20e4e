"""Each value is in the one place that it is about, and changes nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from chart.helm import Helm, is_test, one
from chart.places import DIGEST, EXPRESSION, EXPRESSIONS, IMAGE, WHERE, Place
from harness.manifests import containers_of, key_of, template_of
from release.values import values

Object = dict[str, Any]

ALSO: Final = {
    "metrics.auth": {
        ("ClusterRole", "winpool-metrics-auth"),
        ("ClusterRoleBinding", "winpool-metrics-auth"),
    },
    "priorityClassName": {("ResourceQuota", "winpool-critical-pods")},
    "replicas": {("ResourceQuota", "winpool-critical-pods")},
}
"""Other objects that follow a value."""

WITH_TEST_OF_ITS_OWN: Final = {
    *("crd.create", "networkPolicy.create", "resourceQuota.create"),
    *("monitoring.prometheusOperator", "monitoring.labels", "monitoring.endpoint"),
    "monitoring.runbooks",
    *("memory.enabled", "memory.kubeletCAFile", "memory.kubeletInsecureTLS", "memory.dataSourcesSecretName"),
    *("rollout.enabled", "rollout.force"),
}


def test_every_value_has_its_test() -> None:
    assert WHERE.keys() | WITH_TEST_OF_ITS_OWN == {each.path for each in values()}


def set_to(path: str, value: Any) -> tuple[str, str]:
    return "--set-json", f"{path}={json.dumps(value)}"


def at(manifest: Any, path: Place) -> Any:
    for step in path:
        manifest = manifest[step]
    return manifest


@pytest.fixture(scope="session")
def default(helm: Helm) -> list[Object]:
    """The objects with default values; do not change them."""
    return helm.template()


def changed(default: list[Object], found: list[Object]) -> set[tuple[str, str]]:
    """Return kind and name of the objects that differ from those with default values, or are in one only."""
    before, after = (
        {key_of(each): each for each in rendered if not is_test(each)} for rendered in (default, found)
    )
    keys = before.keys() | after.keys()
    return {(key[1], key[3]) for key in keys if before.get(key) != after.get(key)}


@pytest.mark.parametrize("path", WHERE)
def test_a_value_is_where_it_belongs_and_nowhere_else(helm: Helm, default: list[Object], path: str) -> None:
    value, kind, where, wanted = WHERE[path]
    rendered = helm.template(*set_to(path, value))
    found = one(rendered, kind)
    assert at(found, where) == wanted
    assert changed(default, rendered) == {(kind, found["metadata"]["name"]), *ALSO.get(path, ())}


def test_a_digest_pins_the_image_and_the_tag_says_its_version(helm: Helm) -> None:
    found = helm.template(*set_to("image.digest", DIGEST), *set_to("image.tag", "1.0"))
    (container,) = containers_of(one(found, "Deployment"))
    assert container["image"] == f"{IMAGE}:1.0@{DIGEST}"


def test_the_replicas_stay_on_linux_nodes_of_no_pool_whatever_is_added(
    helm: Helm, default: list[Object]
) -> None:
    found = helm.template(*set_to("affinity.nodeExpressions", [EXPRESSION]))
    always = at(one(default, "Deployment"), EXPRESSIONS)
    assert [each["key"] for each in always] == ["kubernetes.io/os", "winpool.dev/pool"]
    assert at(one(found, "Deployment"), EXPRESSIONS) == [*always, EXPRESSION]


@pytest.mark.parametrize(
    ("switch", "gone"),
    [
        ("crd.create=false", {("CustomResourceDefinition", "windowsnodepools.winpool.dev")}),
        ("networkPolicy.create=false", {("NetworkPolicy", "winpool")}),
        ("resourceQuota.create=false", {("ResourceQuota", "winpool-critical-pods")}),
    ],
)
def test_a_switch_removes_its_object_and_no_other(
    helm: Helm, default: list[Object], switch: str, gone: set[tuple[str, str]]
) -> None:
    found = helm.template("--set", switch)
    assert changed(default, found) == gone
    assert not {each["kind"] for each in found} & {kind for kind, _ in gone}


def test_without_a_priority_class_there_is_no_quota(helm: Helm) -> None:
    found = helm.template("--set", "priorityClassName=")
    assert "priorityClassName" not in template_of(one(found, "Deployment"))["spec"]
    assert "ResourceQuota" not in {each["kind"] for each in found}


@pytest.mark.parametrize(("replicas", "pods"), [(1, "6"), (2, "6"), (5, "12")])
def test_the_quota_has_room_for_a_rollout_while_old_pods_still_end(
    helm: Helm, replicas: int, pods: str
) -> None:
    found = one(helm.template("--set", f"replicas={replicas}"), "ResourceQuota")
    assert found["spec"]["hard"] == {"pods": pods}


def test_no_one_reaches_the_metrics_where_no_peer_is_named(helm: Helm) -> None:
    found = one(helm.template("--set-json", "networkPolicy.metricsFrom=[]"), "NetworkPolicy")
    assert [[port["port"] for port in rule["ports"]] for rule in found["spec"]["ingress"]] == [["health"]]


def test_a_certificate_is_mounted_named_and_scraped_by_https(helm: Helm) -> None:
    found = helm.template(
        *("--set", "metrics.tlsSecretName=winpool-tls", "--set", "monitoring.prometheusOperator=true"),
        *set_to("monitoring.endpoint", {"tlsConfig": {"serverName": "winpool.winpool-system.svc"}}),
    )
    (container,) = containers_of(one(found, "Deployment"))
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "tls"]
    assert mount["readOnly"] is True
    files = {each["name"]: each["value"] for each in container["env"] if "_TLS_" in each["name"]}
    assert files == {
        "WINPOOL_TLS_CERT_FILE": f"{mount['mountPath']}/tls.crt",
        "WINPOOL_TLS_KEY_FILE": f"{mount['mountPath']}/tls.key",
    }
    assert one(found, "PodMonitor")["spec"]["podMetricsEndpoints"] == [
        {
            "port": "metrics",
            "path": "/metrics",
            "scheme": "https",
            "tlsConfig": {"serverName": "winpool.winpool-system.svc"},
        }
    ]


def variables(found: list[Object], *names: str) -> dict[str, str]:
    """Return those settings of these names that the operator gets."""
    (container,) = containers_of(one(found, "Deployment"))
    return {each["name"]: each["value"] for each in container["env"] if each["name"] in names}


KUBELETS: Final = ("WINPOOL_KUBELET_CA_FILE", "WINPOOL_KUBELET_INSECURE_TLS", "WINPOOL_DATA_SOURCES_FILE")


def test_kubelets_are_verified_by_the_file_that_is_set_or_not_at_all(helm: Helm) -> None:
    enabled = ("--set", "memory.enabled=true")
    other = set_to("memory.kubeletCAFile", "/etc/kubelets/ca.crt")
    assert variables(helm.template(*enabled, *other), *KUBELETS) == {
        "WINPOOL_KUBELET_CA_FILE": "/etc/kubelets/ca.crt"
    }
    assert variables(helm.template(*enabled, *set_to("memory.kubeletCAFile", "")), *KUBELETS) == {}
    insecure = set_to("memory.kubeletInsecureTLS", value=True)
    assert variables(helm.template(*enabled, *other, *insecure), *KUBELETS) == {
        "WINPOOL_KUBELET_INSECURE_TLS": "true"
    }


def test_data_sources_are_a_file_of_the_secret_that_is_mounted(helm: Helm) -> None:
    found = helm.template(
        "--set", "memory.enabled=true", "--set", "memory.dataSourcesSecretName=winpool-sources"
    )
    (container,) = containers_of(one(found, "Deployment"))
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "data-sources"]
    assert mount["readOnly"] is True
    assert variables(found, "WINPOOL_DATA_SOURCES_FILE") == {
        "WINPOOL_DATA_SOURCES_FILE": f"{mount['mountPath']}/data-sources.yaml"
    }
    volumes = template_of(one(found, "Deployment"))["spec"]["volumes"]
    assert {
        "name": "data-sources",
        "secret": {"secretName": "winpool-sources", "defaultMode": 0o440},
    } in volumes


def test_values_of_memory_change_nothing_while_it_is_not_enabled(helm: Helm, default: list[Object]) -> None:
    found = helm.template(
        *set_to("memory.kubeletCAFile", "/a"),
        *set_to("memory.kubeletInsecureTLS", value=True),
        *set_to("memory.dataSourcesSecretName", "a"),
    )
    assert changed(default, found) == set()


def test_without_network_policies_there_is_none_for_kubelets(helm: Helm) -> None:
    found = helm.template("--set", "memory.enabled=true", "--set", "networkPolicy.create=false")
    assert "NetworkPolicy" not in {each["kind"] for each in found}
    assert "winpool-kubelet-reader" in {each["metadata"]["name"] for each in found}


def test_labels_of_monitoring_are_on_both_objects_beside_ours(helm: Helm) -> None:
    found = helm.template(
        "--set", "monitoring.prometheusOperator=true", "--set", "monitoring.labels.release=monitoring"
    )
    for kind in ("PodMonitor", "PrometheusRule"):
        assert one(found, kind)["metadata"]["labels"] == {
            "app.kubernetes.io/name": "winpool",
            "release": "monitoring",
        }


def test_the_runbooks_of_all_alerts_are_where_the_value_says(helm: Helm) -> None:
    mirror = "https://mirror.example:8443/winpool/runbooks"
    found = helm.template(
        "--set", "monitoring.prometheusOperator=true", "--set", f"monitoring.runbooks={mirror}"
    )
    rules = [rule for group in one(found, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]]
    assert rules
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"{mirror}/{rule['alert']}.html"


def test_the_guard_and_the_fence_cannot_be_turned_off() -> None:
    assert [each.path for each in values() if "guard" in each.path or "fence" in each.path] == [
        "fence.allowNoExecute"
    ]


def test_the_pod_of_the_test_runs_the_same_image_where_the_replicas_may_run(
    helm: Helm, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "image": {"digest": DIGEST, "pullSecrets": ["a"]},
                "nodeSelector": {"a": "1"},
                "tolerations": [{"key": "b", "operator": "Exists"}],
            }
        )
    )
    found = helm.template("--values", str(file))
    (pod,) = (each["spec"] for each in found if is_test(each))
    operator = template_of(one(found, "Deployment"))["spec"]
    for field in ("imagePullSecrets", "nodeSelector", "tolerations"):
        assert pod[field] == operator[field]
    assert {**pod["securityContext"], "fsGroup": 65532} == operator["securityContext"], "it has no volume"
    assert pod["automountServiceAccountToken"] is False
    for field in ("image", "imagePullPolicy", "securityContext"):
        assert pod["containers"][0][field] == operator["containers"][0][field]
