"""What an account may do, by the API server's own word and by requests that would do harm."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from cluster.harming import MARK, PLACE, Harm, targets
from gen.rights import Right
from harness.identity import Caller
from testbed.cluster import Testbed

Object = dict[str, Any]
Rule = tuple[str, str, str, str]
"""Verb, API group, resource with its subresource, and the name of the one object or no name."""

AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TOKEN_SECONDS: Final = 3600
"""Longer than the slowest run of this file."""

EVERYONE: Final[set[Rule]] = {
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews", ""),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews", ""),
    ("create", "authentication.k8s.io", "selfsubjectreviews", ""),
}
"""What Kubernetes gives every account: to ask what it may do itself (ClusterRole system:basic-user).
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#api-discovery-roles"""

TRUST_ROLE: Final = "system:cluster-trust-bundle-discovery"
TRUST: Final[set[Rule]] = {
    (verb, "certificates.k8s.io", "clustertrustbundles", "") for verb in ("get", "list", "watch")
}
"""What that ClusterRole gives every ServiceAccount, where the API server has it: from Kubernetes 1.37 on."""

EVERYONES_PATHS: Final = {
    # By the ClusterRole system:discovery:
    *("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),
    # By that one and system:public-info-viewer:
    *("/healthz", "/livez", "/readyz", "/version", "/version/"),
    # By system:service-account-issuer-discovery, for ServiceAccounts:
    *("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks"),
    "/openid/v1/jwks/",
}
"""The paths without an object that it may read."""


@dataclass(frozen=True)
class Ground:
    """The API server as ``token`` asks it, and as an admin, and the objects to do harm to."""

    caller: Caller
    admin: Caller
    testbed: Testbed
    token: str
    place: str
    everyones: set[Rule]
    """What this version of Kubernetes gives every ServiceAccount."""

    def may(self, verb: str, group: str, resource: str, *, namespace: str, name: str = "") -> bool:
        """Return whether the API server lets the account do that, by its own word."""
        kind, _, subresource = resource.partition("/")
        asked = {
            "verb": verb,
            "group": group,
            "resource": kind,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }
        return self._review({"resourceAttributes": asked})

    def may_read(self, path: str) -> bool:
        return self._review({"nonResourceAttributes": {"path": path, "verb": "get"}})

    def _review(self, spec: Object) -> bool:
        status, said = self.caller.ask("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec})
        assert status == HTTPStatus.CREATED, said
        return bool(said["status"]["allowed"])

    def rules(self, namespace: str) -> Object:
        """Return all that the account may do in a namespace and in the cluster, in the same way."""
        body = {"spec": {"namespace": namespace}}
        status, said = self.caller.ask("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", body)
        assert status == HTTPStatus.CREATED, said
        found: Object = said["status"]
        return found

    def send(self, harm: Harm) -> tuple[int, Object]:
        """Make the request with the token; return status and answer."""
        path, body = self._placed(harm.path), self._placed(harm.body)
        if not harm.headers:
            return self.caller.ask(harm.method, path, body, kind=harm.kind)
        headers = {"Authorization": f"Bearer {self.token}", **self._placed(harm.headers)}
        with Caller(self.testbed, headers) as somebody:
            return somebody.ask(harm.method, path, body, kind=harm.kind)

    def look(self, path: str) -> tuple[object, ...]:
        """Return what of an object must not change; it may change by itself otherwise."""
        status, found = self.admin.ask("GET", self._placed(path))
        meta = found.get("metadata", {})
        marks = json.dumps(found).count(MARK) if status == HTTPStatus.OK else 0
        return status, meta.get("uid"), meta.get("generation"), meta.get("deletionTimestamp"), marks

    def _placed(self, part: Any) -> Any:
        return json.loads(json.dumps(part).replace(PLACE, self.place))


@contextmanager
def standing(testbed: Testbed, *, directory: Path, token: str) -> Iterator[Ground]:
    """Create the objects to do harm to; take them away again. ``token`` is that of a ServiceAccount."""
    place = f"harmed-{secrets.token_hex(3)}"
    file = directory / "targets.yaml"
    file.write_text(yaml.safe_dump_all(targets(place)))
    testbed.kubectl("apply", "-f", str(file))
    try:
        with (
            Caller.bearer(testbed, token) as caller,
            Caller.named(testbed, "witness", "system:masters") as admin,
        ):
            status, _ = admin.ask("GET", f"{ROLES}/{TRUST_ROLE}")
            everyones = EVERYONE | TRUST if status == HTTPStatus.OK else EVERYONE
            yield Ground(caller, admin, testbed, token, place, everyones)
    finally:
        testbed.kubectl("delete", "-f", str(file), "--wait=false")


def flat(rules: Iterable[Object]) -> set[Rule]:
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or ("",)
    }


def granted(rights: Iterable[Right]) -> set[Rule]:
    return {
        (verb, right.group, resource, name)
        for right in rights
        for verb in right.verbs
        for resource in right.resources
        for name in right.names or ("",)
    }
