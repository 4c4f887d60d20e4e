"""The manifests of ``deploy``, as files: what each object may and must say."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness.documents import ROOT
from harness.every import every
from harness.manifests import (
    CHECKOV,
    COMPONENTS,
    DEPLOY,
    OVERLAYS,
    containers_of,
    key_of,
    kustomization_of,
    objects_of,
    template_of,
)
from release.install import ReleaseError, images_of, require_version
from winpool import __version__
from winpool.api.fence import PARAMETERS
from winpool.api.keys import POOL_LABEL, READER_ACCOUNT
from winpool.kube.credentials import SERVICE_ACCOUNT_FOLDER
from winpool.kubelet.addresses import KUBELET_PORT
from winpool.settings import Settings

Object = dict[str, Any]

OBJECTS: Final = objects_of(DEPLOY)
NAMESPACE: Final = "winpool-system"
IN_DEFAULT: Final = {("Role", "winpool-events"), ("RoleBinding", "winpool-events")}
"""Kubernetes keeps the events of cluster-scoped objects there."""
NAMESPACED: Final = {
    *("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota"),
    *("Role", "RoleBinding", "Service", "ServiceAccount"),
}
CLUSTER_SCOPED: Final = {
    *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "FlowSchema", "Namespace"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}


def of_kind(kind: str) -> list[Object]:
    found = [each for each in OBJECTS if each["kind"] == kind]
    assert found, f"deploy has no {kind}"
    return found


def the(kind: str) -> Object:
    (found,) = of_kind(kind)
    return found


DEPLOYMENT: Final = the("Deployment")
TEMPLATE: Final = template_of(DEPLOYMENT)
POD: Final = TEMPLATE["spec"]
(OPERATOR,) = containers_of(DEPLOYMENT)
LABELS: Final = TEMPLATE["metadata"]["labels"]

every_object = every("each", OBJECTS, ids=lambda each: "-".join(key_of(each)[1:]))
every_workload = pytest.mark.parametrize(
    "workload", [each for each in OBJECTS if list(containers_of(each))], ids=lambda each: each["kind"]
)


@every_object
def test_an_object_says_whose_it_is(each: Object) -> None:
    assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "winpool"


@every_object
def test_an_object_is_in_our_namespace_or_in_none(each: Object) -> None:
    metadata, kind = each["metadata"], each["kind"]
    assert kind in NAMESPACED | CLUSTER_SCOPED
    if kind in CLUSTER_SCOPED:
        assert "namespace" not in metadata
    else:
        ours = "default" if (kind, metadata["name"]) in IN_DEFAULT else NAMESPACE
        assert metadata["namespace"] == ours


def test_no_object_is_there_twice() -> None:
    assert [key for key, count in Counter(map(key_of, OBJECTS)).items() if count > 1] == []


@pytest.mark.parametrize("kind", ["ClusterRole", "Role", "FlowSchema"])
def test_no_rule_has_a_wildcard(kind: str) -> None:
    rules = [rule for each in of_kind(kind) for rule in rules_of(each)]
    assert rules
    assert not [rule for rule in rules if "*" in "".join(map(str, rule.values()))]


def rules_of(each: Object) -> Iterator[Object]:
    if each["kind"] == "FlowSchema":
        for rule in each["spec"]["rules"]:
            yield from rule["resourceRules"]
    else:
        yield from each["rules"]


# The profile restricted of Pod Security. test_deploy.py of the cluster asks its own admission.


def test_the_namespace_enforces_the_restricted_profile() -> None:
    assert the("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@every_workload
def test_a_workload_is_restricted(workload: Object) -> None:
    spec = template_of(workload)["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]} <= {"projected"}
    for container in containers_of(workload):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not [port for port in container["ports"] if "hostPort" in port]


@every_workload
def test_a_workload_says_what_it_needs(workload: Object) -> None:
    assert template_of(workload)["spec"]["priorityClassName"] == "system-cluster-critical"
    for container in containers_of(workload):
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}


def test_requests_cover_what_was_measured_and_the_limit_leaves_as_much_again() -> None:
    """With 5,000 nodes and 150,000 pods, by the runs of the benches."""
    requests, limits = OPERATOR["resources"]["requests"], OPERATOR["resources"]["limits"]
    lines = (ROOT / "docs" / "reference" / "benchmark-runs.md").read_text().splitlines()
    figures = [json.loads(line) for line in lines if line.startswith('{"nodes": 5000, "pods": 150000,')]
    assert figures
    for each in figures:
        assert memory(requests["memory"]) >= each["operator_peak_rss_bytes"]
        assert cores(requests["cpu"]) >= each["steady_cpu_fraction"]
    assert memory(limits["memory"]) >= 2 * memory(requests["memory"])


def memory(quantity: str) -> int:
    """Return the bytes of a quantity in Mi."""
    return int(quantity.removesuffix("Mi")) * 2**20


def cores(quantity: str) -> float:
    """Return the CPUs of a quantity in m."""
    return int(quantity.removesuffix("m")) / 1000


def test_a_restart_takes_a_minute_without_an_answer() -> None:
    probe = OPERATOR["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 60


def test_a_pod_has_longer_to_end_than_the_operator_needs() -> None:
    """Two seconds, by the page about its run."""
    assert "end the operator within two seconds" in (ROOT / "docs" / "operator" / "run.md").read_text()
    assert POD["terminationGracePeriodSeconds"] > 2


def test_a_rollout_removes_no_pod_before_another_is_ready() -> None:
    assert DEPLOYMENT["spec"]["strategy"]["type"] == "RollingUpdate"
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_the_operator_may_read_its_token_by_its_group_and_others_may_not() -> None:
    """The kubelet gives the files of a projected volume to fsGroup."""
    (volume,) = [each["projected"] for each in POD["volumes"] if "projected" in each]
    assert volume["defaultMode"] == 0o440
    context = POD["securityContext"]
    assert context["fsGroup"] == context["runAsGroup"]


def test_there_is_no_place_to_write_to() -> None:
    """The image says the same of itself, and is tested without one."""
    assert [each["name"] for each in POD["volumes"]] == ["kube-api-access"]
    assert [each["readOnly"] for each in OPERATOR["volumeMounts"]] == [True]
    assert "without a volume for temporary files" in (ROOT / "docs" / "image.md").read_text()


def test_the_image_is_that_of_this_version_and_named_in_one_place() -> None:
    (image,) = kustomization_of(DEPLOY / "operator")["images"]
    assert OPERATOR["image"].partition("@")[0] == f"{image['newName']}:{__version__}"
    naming = {path for path in DEPLOY.rglob("*.yaml") if image["newName"] in path.read_text()}
    # Both are generated from deploy/release.env.
    assert naming == {DEPLOY / "operator" / "kustomization.yaml", DEPLOY / "chart" / "values.yaml"}
    assert not [path for path in DEPLOY.rglob("*.yaml") if re.search(r":latest\b", path.read_text())]


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(f"registry.example/winpool:{__version__}", id="tag"),
        pytest.param(f"registry.example:5000/winpool:{__version__}@sha256:{'0' * 64}", id="digest"),
    ],
)
def test_a_release_is_made_of_its_own_image(image: str) -> None:
    require_version(images_of(yaml.safe_dump(workload_with(image))))


@pytest.mark.parametrize(
    "image", ["registry.example/winpool:0.0.9", f"registry.example:{__version__}/winpool"]
)
def test_a_release_with_the_image_of_another_version_is_refused(image: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(image)):
        require_version(images_of(yaml.safe_dump(workload_with(image))))


def workload_with(image: str) -> Object:
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


def test_settings_of_the_deployment_exist_and_have_valid_values() -> None:
    assert all(each["name"].startswith("WINPOOL_") for each in OPERATOR["env"])
    variables = {each["name"].removeprefix("WINPOOL_").lower(): each for each in OPERATOR["env"]}
    assert variables.keys() <= Settings.model_fields.keys()
    values = {name: each["value"] for name, each in variables.items() if "value" in each}
    settings = Settings(**values)
    ports = {each["name"]: each["containerPort"] for each in OPERATOR["ports"]}
    assert ports == {"metrics": settings.port, "health": settings.health_port}
    assert settings.log_format == "json"
    assert values["leader_elect"] == "true", "two replicas would both write"


def test_the_operator_knows_the_node_that_it_runs_on() -> None:
    (found,) = (each["valueFrom"] for each in OPERATOR["env"] if each["name"] == "WINPOOL_NODE_NAME")
    assert found["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_probes_ask_the_paths_of_health_on_its_own_port() -> None:
    asked = {kind: OPERATOR[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")}
    assert asked == {
        "liveness": {"path": "/healthz", "port": "health"},
        "readiness": {"path": "/readyz", "port": "health"},
    }


def test_the_only_token_is_a_short_lived_one_where_the_operator_searches_for_it() -> None:
    accounts = {each["metadata"]["name"]: each for each in of_kind("ServiceAccount")}
    assert [name for name, each in accounts.items() if each["automountServiceAccountToken"]] == []
    assert POD["automountServiceAccountToken"] is False
    assert POD["serviceAccountName"] in accounts
    (mount,) = [each for each in OPERATOR["volumeMounts"] if each["mountPath"] == str(SERVICE_ACCOUNT_FOLDER)]
    (volume,) = [each for each in POD["volumes"] if each["name"] == mount["name"]]
    token, ca, namespace = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    assert ca["configMap"]["name"] == "kube-root-ca.crt"
    assert [item["path"] for item in ca["configMap"]["items"]] == ["ca.crt"]
    assert [item["path"] for item in namespace["downwardAPI"]["items"]] == ["namespace"]


def test_pods_run_on_linux_nodes_that_belong_to_no_pool() -> None:
    required = POD["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": POOL_LABEL, "operator": "DoesNotExist"},
    ]


def test_everything_that_selects_pods_selects_those_of_the_operator_and_no_others() -> None:
    (spread,) = POD["topologySpreadConstraints"]
    (monitor,) = yaml.safe_load_all(
        (DEPLOY / "components" / "prometheus-operator" / "podmonitor.yaml").read_text()
    )
    selectors = [
        DEPLOYMENT["spec"]["selector"]["matchLabels"],
        the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        the("Service")["spec"]["selector"],
        spread["labelSelector"]["matchLabels"],
        monitor["spec"]["selector"]["matchLabels"],
    ]
    assert [each for each in selectors if each != LABELS] == []


def test_ports_are_named_as_in_the_deployment() -> None:
    named = {each["name"] for each in OPERATOR["ports"]}
    policy = the("NetworkPolicy")["spec"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == named
    assert [port["targetPort"] for port in the("Service")["spec"]["ports"]] == ["metrics"]


def test_egress_is_the_api_server_and_dns() -> None:
    policy = the("NetworkPolicy")["spec"]
    assert sorted(policy["policyTypes"]) == ["Egress", "Ingress"]
    assert [rule.keys() - {"ports"} for rule in policy["egress"]] == [set(), set()], "no selector names them"
    opened = [{(port["port"], port["protocol"]) for port in rule["ports"]} for rule in policy["egress"]]
    assert opened == [
        {(443, "TCP"), (6443, "TCP")},
        {(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")},
    ]


def test_metrics_are_open_to_chosen_namespaces_only() -> None:
    rules = the("NetworkPolicy")["spec"]["ingress"]
    (rule,) = [rule for rule in rules if "metrics" in {port["port"] for port in rule["ports"]}]
    assert [each["namespaceSelector"]["matchLabels"] for each in rule["from"]] == [{"metrics": "enabled"}]


def test_the_quota_has_room_for_a_rollout_while_old_pods_still_end() -> None:
    quota = the("ResourceQuota")["spec"]
    (scope,) = quota["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [POD["priorityClassName"]]
    replicas = DEPLOYMENT["spec"]["replicas"]
    surge = DEPLOYMENT["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    assert int(quota["hard"]["pods"]) >= 2 * (replicas + surge)


def test_flow_schemas_are_for_the_operator_alone() -> None:
    for schema in of_kind("FlowSchema"):
        for rule in schema["spec"]["rules"]:
            assert rule["subjects"] == [
                {
                    "kind": "ServiceAccount",
                    "serviceAccount": {
                        "name": POD["serviceAccountName"],
                        "namespace": DEPLOYMENT["metadata"]["namespace"],
                    },
                }
            ]


def test_each_component_has_an_overlay_of_its_name_with_all_of_winpool() -> None:
    assert [each.name for each in OVERLAYS] == [each.name for each in COMPONENTS]
    everything = {(DEPLOY / each).resolve() for each in kustomization_of(DEPLOY)["resources"]}
    for overlay in OVERLAYS:
        kustomization = kustomization_of(overlay)
        assert {(overlay / each).resolve() for each in kustomization["resources"]} == everything
        (component,) = kustomization["components"]
        assert (overlay / component).resolve() == DEPLOY / "components" / overlay.name
        assert f"kubectl apply -k deploy/overlays/{overlay.name}\n" in text_of(overlay)


def test_the_operator_may_review_tokens_only_where_its_metrics_ask_for_them() -> None:
    assert not [each for each in of_kind("ClusterRole") if reviews(each)]
    assert "WINPOOL_METRICS_AUTH" not in {each["name"] for each in OPERATOR["env"]}
    asking = {each for each in COMPONENTS if "WINPOOL_METRICS_AUTH" in text_of(each)}
    permitting = {
        component
        for component in COMPONENTS
        for name in kustomization_of(component).get("resources", ())
        if (component / name).is_file()
        for each in yaml.safe_load_all((component / name).read_text())
        if each["kind"] == "ClusterRole" and reviews(each)
    }
    assert asking == permitting == {DEPLOY / "components" / "metrics-tls"}


MEMORY: Final = DEPLOY / "components" / "memory"
ADDED: Final = {
    (each["kind"], each["metadata"]["name"]): each
    for name in kustomization_of(MEMORY)["resources"]
    for each in yaml.safe_load_all((MEMORY / name).read_text())
}
"""What memory pressure needs, by kind and name."""


def test_what_memory_pressure_needs_comes_with_its_component_alone() -> None:
    assert ADDED.keys().isdisjoint((each["kind"], each["metadata"]["name"]) for each in OBJECTS)
    assert {kind for kind, _ in ADDED} == {
        *("ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "Role", "RoleBinding", "ServiceAccount"),
    }
    for (kind, name), each in ADDED.items():
        assert each["metadata"]["labels"] == {"app.kubernetes.io/name": "winpool"}
        assert each["metadata"].get("namespace") == (NAMESPACE if kind in NAMESPACED else None), name
        assert not [rule for rule in each.get("rules", ()) if "*" in str(rule)]
    page = (ROOT / "docs" / "operator" / "memory.md").read_text()
    assert [name for _, name in ADDED if f"`{name}`" not in page] == []


def test_what_a_rollout_needs_comes_with_its_component_alone() -> None:
    component = DEPLOY / "components" / "rollout"
    added = [
        each
        for name in kustomization_of(component)["resources"]
        for each in yaml.safe_load_all((component / name).read_text())
    ]
    assert {key_of(each) for each in added}.isdisjoint(map(key_of, OBJECTS))
    assert [each["kind"] for each in added] == ["ClusterRole", "ClusterRoleBinding"]
    for each in added:
        assert each["metadata"]["labels"] == {"app.kubernetes.io/name": "winpool"}
        assert not [rule for rule in each.get("rules", ()) if "*" in str(rule)]
    page = (ROOT / "docs" / "operator" / "rollouts.md").read_text()
    assert [each["metadata"]["name"] for each in added if f"`{each['metadata']['name']}`" not in page] == []


def test_no_pod_gets_the_token_that_kubelets_are_shown() -> None:
    assert ADDED["ServiceAccount", READER_ACCOUNT]["automountServiceAccountToken"] is False
    text = "".join(path.read_text() for path in DEPLOY.rglob("*.yaml"))
    assert f"serviceAccountName: {READER_ACCOUNT}" not in text


def test_egress_to_kubelets_is_that_of_the_replicas_and_to_one_port() -> None:
    policy = ADDED["NetworkPolicy", "winpool-kubelets"]["spec"]
    assert policy["podSelector"] == the("NetworkPolicy")["spec"]["podSelector"]
    assert policy["policyTypes"] == ["Egress"], "it would close what the other policy has opened"
    assert policy["egress"] == [{"ports": [{"port": KUBELET_PORT, "protocol": "TCP"}]}]


def test_kubelets_are_verified_by_a_file_that_is_in_the_pod() -> None:
    ((added,),) = (yaml.safe_load(each["patch"]) for each in kustomization_of(MEMORY)["patches"])
    assert added["path"] == "/spec/template/spec/containers/0/env/-"
    variable = added["value"]
    settings = Settings(**{variable["name"].removeprefix("WINPOOL_").lower(): variable["value"]})
    assert settings.kubelet_ca_file == SERVICE_ACCOUNT_FOLDER / "ca.crt"


def reviews(role: Object) -> bool:
    """Whether a role permits to ask whose a token is, or what its user may do."""
    named = {resource for rule in role.get("rules", ()) for resource in rule.get("resources", ())}
    return bool(named & {"tokenreviews", "subjectaccessreviews"})


def text_of(folder: Path) -> str:
    return (folder / "kustomization.yaml").read_text()


PAGES_OF: Final = {
    "ValidatingAdmissionPolicy": ("[the guard](guard.md)", "[the fence](fence.md)"),
    "ValidatingAdmissionPolicyBinding": ("[the guard](guard.md)", "[the fence](fence.md)"),
    "ConfigMap": ("[the fence](fence.md)",),
    "CustomResourceDefinition": ("the CRD of [crds](../crds)",),
}
"""What says on the page of the operator that such an object is installed, in place of its name."""


@every_object
def test_the_page_of_the_operator_says_what_the_object_is_for(each: Object) -> None:
    page = (ROOT / "docs" / "operator.md").read_text()
    for said in PAGES_OF.get(each["kind"], (f"`{each['metadata']['name']}`",)):
        assert said in page


def test_the_config_map_of_the_fence_has_no_data_so_that_an_apply_keeps_what_an_admin_has_set() -> None:
    assert the("ConfigMap")["metadata"]["name"] == PARAMETERS
    assert the("ConfigMap").keys() == {"apiVersion", "kind", "metadata"}


@every_object
def test_an_exception_for_checkov_names_the_check_and_the_reason(each: Object) -> None:
    for key, value in each["metadata"].get("annotations", {}).items():
        if key.startswith(CHECKOV):
            assert re.fullmatch(r"checkov\.io/skip\d+", key)
            assert re.fullmatch(r"CKV2?_K8S_\d+=[A-Z].{20,}\.", value)
