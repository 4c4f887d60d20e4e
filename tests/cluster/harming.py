"""Requests that a stolen token of the operator would be used for, and the objects that they are aimed at."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.identity import MERGE_PATCH

Object = dict[str, Any]

MARK: Final = "winpool-stolen"
"""In everything that one of these requests would write, so that it can be looked for."""
PLACE: Final = "{place}"
"""Stands for the namespace of the targets, and in names of objects without a namespace for the same word."""

CORE: Final = "/api/v1"
THERE: Final = f"{CORE}/namespaces/{PLACE}"
SYSTEM: Final = f"{CORE}/namespaces/winpool-system"
APPS: Final = f"/apis/apps/v1/namespaces/{PLACE}"
NODES: Final = f"{CORE}/nodes"
POOLS: Final = "/apis/winpool.dev/v1alpha1/windowsnodepools"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"
REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces"
CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/windowsnodepools.winpool.dev"

ME: Final = {"kind": "ServiceAccount", "name": "winpool", "namespace": "winpool-system"}
LABELLED: Final[Object] = {"metadata": {"labels": {MARK: "yes"}}}
CONTAINER: Final = {"name": "c", "image": "example.com/c:1", "args": [MARK]}


@dataclass(frozen=True)
class Harm:
    """A request, and the ``targets``: paths of the objects that must be the same after it."""

    method: str
    path: str
    body: Object | None = None
    targets: tuple[str, ...] = ()
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def read(path: str, *targets: str) -> Harm:
    return Harm("GET", path, targets=targets)


def create(collection: str, kind: str, version: str = "v1", **parts: Any) -> Harm:
    """Return the creation of an object that is not there, and must not be there afterwards."""
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": MARK}, **parts}
    return Harm("POST", collection, body, targets=(f"{collection}/{MARK}",))


def post(path: str, body: Object, *targets: str) -> Harm:
    return Harm("POST", path, body, targets=targets)


def change(path: str, patch: Object = LABELLED, *, subresource: str = "") -> Harm:
    return Harm("PATCH", f"{path}{subresource}", patch, targets=(path,), kind=MERGE_PATCH)


def delete(path: str) -> Harm:
    return Harm("DELETE", path, targets=(path,))


def delete_all(collection: str, *targets: str) -> Harm:
    return Harm("DELETE", collection, targets=targets)


def as_somebody(path: str, **headers: str) -> Harm:
    return Harm("GET", path, headers={f"Impersonate-{name}": value for name, value in headers.items()})


def rights_to_all(kind: str) -> Object:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "cluster-admin"}
    return {"roleRef": role, "subjects": [ME]}


def a_token_for(account: str) -> Harm:
    """Return the request for a token, which the API server keeps nowhere."""
    spec = {"audiences": ["https://kubernetes.default.svc.cluster.local"], "expirationSeconds": 600}
    return post(f"{account}/token", {"spec": spec}, account)


HARMS: Final = {
    # Secrets and settings
    "read a Secret": read(f"{THERE}/secrets/target"),
    "list the Secrets of a namespace": read(f"{THERE}/secrets"),
    "list all Secrets": read(f"{CORE}/secrets"),
    "watch all Secrets": read(f"{CORE}/secrets?watch=1&timeoutSeconds=1"),
    "read a ConfigMap": read(f"{THERE}/configmaps/target"),
    "change a Secret": change(f"{THERE}/secrets/target"),
    "turn the switch of the fence": change(
        f"{SYSTEM}/configmaps/winpool-fence", {"data": {"allowNoExecute": MARK}}
    ),
    "delete the switch of the fence": delete(f"{SYSTEM}/configmaps/winpool-fence"),
    # Pods
    "create a pod": create(f"{THERE}/pods", "Pod", spec={"containers": [CONTAINER]}),
    "create a pod beside the operator": create(f"{SYSTEM}/pods", "Pod", spec={"containers": [CONTAINER]}),
    "read a pod": read(f"{THERE}/pods/target"),
    "watch all pods": read(f"{CORE}/pods?watch=1&timeoutSeconds=1"),
    "delete a pod": delete(f"{THERE}/pods/target"),
    "delete all pods": delete_all(f"{THERE}/pods", f"{THERE}/pods/target"),
    "evict a pod": post(
        f"{THERE}/pods/target/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "target", "namespace": PLACE}},
        f"{THERE}/pods/target",
    ),
    "change a pod": change(f"{THERE}/pods/target"),
    "say how a pod is": change(f"{THERE}/pods/target", {"status": {"reason": MARK}}, subresource="/status"),
    "bind a pod": post(
        f"{THERE}/pods/target/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "target"},
            "target": {"kind": "Node", "name": MARK},
        },
        f"{THERE}/pods/target",
    ),
    "debug in a pod": change(
        f"{THERE}/pods/target",
        {"spec": {"ephemeralContainers": [{"name": MARK, "image": "example.com/c:1"}]}},
        subresource="/ephemeralcontainers",
    ),
    "run a command in a pod": post(f"{THERE}/pods/target/exec?command={MARK}&stdout=1", {}),
    "run a command in a pod by GET": read(f"{THERE}/pods/target/exec?command={MARK}&stdout=1"),
    "attach to a pod": post(f"{THERE}/pods/target/attach?stdout=1", {}),
    "forward a port of a pod": post(f"{THERE}/pods/target/portforward?ports=80", {}),
    "read the log of a pod": read(f"{THERE}/pods/target/log"),
    "call a pod": read(f"{THERE}/pods/target/proxy/"),
    "call a service": read(f"{THERE}/services/target/proxy/"),
    "delete a PodDisruptionBudget": delete(f"/apis/policy/v1/namespaces/{PLACE}/poddisruptionbudgets/target"),
    "scale a Deployment": change(
        f"{APPS}/deployments/target", {"spec": {"replicas": 1}}, subresource="/scale"
    ),
    "change a Deployment": change(f"{APPS}/deployments/target"),
    "create a DaemonSet": create(
        f"{APPS}/daemonsets",
        "DaemonSet",
        "apps/v1",
        spec={
            "selector": {"matchLabels": {"app": MARK}},
            "template": {"metadata": {"labels": {"app": MARK}}, "spec": {"containers": [CONTAINER]}},
        },
    ),
    # Nodes
    "read a node": read(f"{NODES}/{PLACE}"),
    "create a node": create(NODES, "Node"),
    "delete a node": delete(f"{NODES}/{PLACE}"),
    "delete all nodes": delete_all(f"{NODES}?labelSelector=example.com/place={PLACE}", f"{NODES}/{PLACE}"),
    "replace a node": Harm(
        "PUT",
        f"{NODES}/{PLACE}",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": PLACE, "labels": {MARK: "yes"}}},
        targets=(f"{NODES}/{PLACE}",),
    ),
    "say how a node is": change(f"{NODES}/{PLACE}", {"status": {"phase": MARK}}, subresource="/status"),
    "say that a node is Linux": change(
        f"{NODES}/{PLACE}", {"metadata": {"labels": {"kubernetes.io/os": MARK}}}
    ),
    "call a kubelet": read(f"{NODES}/{PLACE}/proxy/pods"),
    "run a command through a kubelet": post(f"{NODES}/{PLACE}/proxy/run/{PLACE}/target/c?cmd={MARK}", {}),
    "speak for a kubelet": change(
        f"{LEASES}/kube-node-lease/leases/{PLACE}", {"spec": {"holderIdentity": MARK}}
    ),
    # Tokens, certificates and other people
    "create a token for itself": a_token_for(f"{SYSTEM}/serviceaccounts/winpool"),
    "create a token for another account": a_token_for(f"{THERE}/serviceaccounts/target"),
    "create a ServiceAccount": create(f"{SYSTEM}/serviceaccounts", "ServiceAccount"),
    "change its ServiceAccount": change(f"{SYSTEM}/serviceaccounts/winpool"),
    "ask for a certificate": create(
        REQUESTS,
        "CertificateSigningRequest",
        "certificates.k8s.io/v1",
        spec={"request": "", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]},
    ),
    "approve a certificate": change(
        f"{REQUESTS}/{PLACE}",
        {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": MARK}]}},
        subresource="/approval",
    ),
    "issue a certificate": change(
        f"{REQUESTS}/{PLACE}", {"status": {"certificate": MARK}}, subresource="/status"
    ),
    "act as an admin": as_somebody(f"{THERE}/secrets", User="admin", Group="system:masters"),
    "act as a group": as_somebody(
        f"{THERE}/secrets", User="system:serviceaccount:winpool-system:winpool", Group="system:masters"
    ),
    "act as another ServiceAccount": as_somebody(
        f"{THERE}/secrets", User="system:serviceaccount:kube-system:namespace-controller"
    ),
    "act as a kubelet": as_somebody(f"{NODES}/{PLACE}", User=f"system:node:{PLACE}", Group="system:nodes"),
    # Its own rights, the guard and the fence
    "give itself all rights": create(
        f"{RBAC}/clusterrolebindings",
        "ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1",
        **rights_to_all("ClusterRole"),
    ),
    "give itself all rights in its namespace": create(
        f"{RBAC}/namespaces/winpool-system/rolebindings",
        "RoleBinding",
        "rbac.authorization.k8s.io/v1",
        **rights_to_all("ClusterRole"),
    ),
    "change its ClusterRole": change(f"{RBAC}/clusterroles/winpool"),
    "change its binding": change(f"{RBAC}/clusterrolebindings/winpool"),
    "change its Role": change(f"{RBAC}/namespaces/default/roles/winpool-events"),
    "change a role that others have": change(f"{RBAC}/clusterroles/system:discovery"),
    "change the guard": change(f"{ADMISSION}/validatingadmissionpolicies/winpool-guard"),
    "delete the guard": delete(f"{ADMISSION}/validatingadmissionpolicies/winpool-guard"),
    "soften the guard": change(
        f"{ADMISSION}/validatingadmissionpolicybindings/winpool-guard",
        {"spec": {"validationActions": ["Audit"]}},
    ),
    "delete the binding of the guard": delete(f"{ADMISSION}/validatingadmissionpolicybindings/winpool-guard"),
    "change the fence": change(f"{ADMISSION}/validatingadmissionpolicies/winpool-fence-nodes"),
    "delete the fence": delete(f"{ADMISSION}/validatingadmissionpolicybindings/winpool-fence-pools"),
    "read another policy": read(f"{ADMISSION}/validatingadmissionpolicies/winpool-fence-nodes"),
    "see every object": create(
        f"{ADMISSION}/mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
        webhooks=[],
    ),
    # Pools, Leases and events
    "create a pool": create(POOLS, "WindowsNodePool", "winpool.dev/v1alpha1", spec={}),
    "delete a pool": delete(f"{POOLS}/{PLACE}"),
    "change the spec of a pool": change(f"{POOLS}/{PLACE}", {"spec": {"labels": {"example.com/a": MARK}}}),
    "label a pool": change(f"{POOLS}/{PLACE}"),
    "delete the CRD": delete(CRD),
    "change the CRD": change(CRD),
    "create a Lease elsewhere": create(
        f"{LEASES}/{PLACE}/leases", "Lease", "coordination.k8s.io/v1", spec={}
    ),
    "delete a Lease of its namespace": delete(f"{LEASES}/winpool-system/leases/{PLACE}"),
    "change another Lease of its namespace": change(
        f"{LEASES}/winpool-system/leases/{PLACE}", {"spec": {"holderIdentity": MARK}}
    ),
    "lead instead of others": change(f"{LEASES}/{PLACE}/leases/target", {"spec": {"holderIdentity": MARK}}),
    "write an event elsewhere": create(
        f"{EVENTS}/{PLACE}/events",
        "Event",
        "events.k8s.io/v1",
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController=MARK,
        reportingInstance=MARK,
        action="A",
        reason="R",
        type="Normal",
        regarding={"kind": "Pod", "name": "target", "namespace": PLACE},
    ),
    "write an event of the old kind": create(
        f"{CORE}/namespaces/default/events", "Event", involvedObject={"kind": "Node", "name": PLACE}
    ),
    "read events": read(f"{EVENTS}/default/events"),
    "delete events": delete_all(f"{EVENTS}/default/events"),
    # The rest of the cluster
    "create a namespace": create(f"{CORE}/namespaces", "Namespace"),
    "delete a namespace": delete(f"{CORE}/namespaces/{PLACE}"),
    "loosen the Pod Security of its namespace": change(SYSTEM),
    "mount a disk": create(
        f"{CORE}/persistentvolumes",
        "PersistentVolume",
        spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}},
    ),
    "delete a quota": delete(f"{THERE}/resourcequotas/target"),
    "redirect an API": change("/apis/apiregistration.k8s.io/v1/apiservices/v1.apps"),
    "starve others of the API server": change(
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/system-nodes"
    ),
    "read the metrics of the API server": read("/metrics"),
    "profile the API server": read("/debug/pprof/cmdline"),
    "read the logs of the control plane": read("/logs/"),
}
"""All of them answer 403. What admission policies would let through on nodes and pools: ``test_fence``."""


def a_signing_request() -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "target")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def targets(place: str) -> list[Object]:
    """Return the objects that the requests are aimed at, in the namespace ``place`` and of that name."""

    def there(kind: str, version: str = "v1", **parts: Any) -> Object:
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "target", "namespace": place},
            **parts,
        }

    app = {"matchLabels": {"app": "target"}}
    # A scheduler of this name does not exist, so the pod stays where it is: nowhere.
    spec = {
        "schedulerName": "no-scheduler",
        "serviceAccountName": "target",
        "containers": [{"name": "c", "image": "example.com/c:1"}],
    }
    template = {"metadata": {"labels": {"app": "target"}}, "spec": spec}
    name = {"name": place}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": name},
        there("Secret", stringData={"password": "x"}),
        there("ConfigMap", data={"a": "b"}),
        there("ServiceAccount"),
        there("Pod", spec=spec),
        there("Service", spec={"ports": [{"port": 80}]}),
        there("ResourceQuota", spec={"hard": {"pods": "10"}}),
        there("PodDisruptionBudget", "policy/v1", spec={"minAvailable": 1, "selector": app}),
        there("Deployment", "apps/v1", spec={"replicas": 0, "selector": app, "template": template}),
        there("Lease", "coordination.k8s.io/v1", spec={"holderIdentity": "others"}),
        *(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {**name, "namespace": namespace},
                "spec": {"holderIdentity": "others"},
            }
            for namespace in ("winpool-system", "kube-node-lease")
        ),
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": name,
            "spec": {
                "request": b64encode(a_signing_request()).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {**name, "labels": {"kubernetes.io/os": "windows", "example.com/place": place}},
        },
        {
            "apiVersion": "winpool.dev/v1alpha1",
            "kind": "WindowsNodePool",
            "metadata": name,
            "spec": {
                "nodeSelector": {"matchLabels": {"example.com/run": f"of-{place}"}},
                "os": {"version": "2022"},
            },
        },
    ]
