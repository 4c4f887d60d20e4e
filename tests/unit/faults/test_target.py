"""Requests have the verb and resource that RBAC and the audit log give them."""

from __future__ import annotations

from harness.every import every
from testbed.faults.target import Target, target_of

POOLS = "/apis/winpool.dev/v1alpha1/windowsnodepools"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/winpool-system/leases"


@every(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/nodes", Target(verb="list", resource="nodes")),
        ("GET", "/api/v1/nodes?limit=500&continue=abc", Target(verb="list", resource="nodes")),
        ("GET", "/api/v1/nodes?watch=1&resourceVersion=7", Target(verb="watch", resource="nodes")),
        ("GET", "/api/v1/nodes?watch=true", Target(verb="watch", resource="nodes")),
        ("GET", "/api/v1/nodes?watch", Target(verb="watch", resource="nodes")),
        ("GET", "/api/v1/nodes?watch=0", Target(verb="list", resource="nodes")),
        ("GET", "/api/v1/nodes?watch=False", Target(verb="list", resource="nodes")),
        ("GET", "/api/v1/nodes/w1", Target(verb="get", resource="nodes", name="w1")),
        ("HEAD", "/api/v1/nodes/w1", Target(verb="get", resource="nodes", name="w1")),
        ("GET", "/api/v1/nodes/w1?watch=1", Target(verb="get", resource="nodes", name="w1")),
        ("GET", "/api/v1/watch/nodes", Target(verb="watch", resource="nodes")),
        ("PATCH", "/api/v1/nodes/w%2E1", Target(verb="patch", resource="nodes", name="w.1")),
        ("PATCH", "/api/v1/nodes/w1/status", Target(verb="patch", resource="nodes/status", name="w1")),
        ("DELETE", "/api/v1/nodes/w1", Target(verb="delete", resource="nodes", name="w1")),
        ("DELETE", "/api/v1/nodes", Target(verb="deletecollection", resource="nodes")),
        (
            "PATCH",
            f"{POOLS}/win/status?force=true",
            Target(verb="patch", resource="windowsnodepools/status", group="winpool.dev", name="win"),
        ),
        (
            "PUT",
            f"{LEASES}/winpool",
            Target(
                verb="update",
                resource="leases",
                group="coordination.k8s.io",
                namespace="winpool-system",
                name="winpool",
            ),
        ),
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/eviction",
            Target(verb="create", resource="pods/eviction", namespace="a", name="p"),
        ),
        ("POST", "/api/v1/namespaces", Target(verb="create", resource="namespaces")),
        ("GET", "/api/v1/namespaces/a", Target(verb="get", resource="namespaces", namespace="a", name="a")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            Target(verb="update", resource="namespaces/finalize", namespace="a", name="a"),
        ),
        (
            "GET",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3Da.b&watch=1",
            Target(
                verb="watch", resource="customresourcedefinitions", group="apiextensions.k8s.io", name="a.b"
            ),
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Da,spec.nodeName%3Dw1",
            Target(verb="list", resource="pods"),
        ),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dw1", Target(verb="list", resource="pods")),
        ("GET", "/version?timeout=32s", Target(verb="get")),
        ("GET", "/api", Target(verb="get")),
        ("GET", "/api/v1", Target(verb="get")),
        ("GET", "/apis/winpool.dev/v1alpha1", Target(verb="get")),
        ("POST", "/", Target(verb="create")),
    ],
)
def test_a_request_is_read_as_the_api_server_reads_it(method: str, path: str, expected: Target) -> None:
    assert target_of(method, path) == expected
