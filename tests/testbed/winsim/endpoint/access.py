"""Which right a request to a kubelet needs. Pure.

Follows ``pkg/kubelet/server/auth.go`` at v1.37.1 for the paths that are served here.
"""

from __future__ import annotations

from typing import Final

FINE_GRAINED_SINCE: Final = 33
"""The minor from which the gate KubeletFineGrainedAuthz is on by default (``kube_features.go``)."""

_VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCES: Final = {"/stats": "stats", "/metrics": "metrics", "/logs": "log", "/checkpoint": "checkpoint"}
_FINE_GRAINED: Final = {"/pods": "pods", "/runningpods": "pods", "/healthz": "healthz", "/configz": "configz"}


def api_verb(method: str) -> str:
    """Return the verb of the API for an HTTP method; empty for those that a kubelet gives none."""
    return _VERBS.get(method, "")


def subresources(path: str, *, minor: int) -> tuple[str, ...]:
    """Return the subresources of ``nodes`` of which one has to be allowed, in the order of asking.

    Args:
        path: the path of the request.
        minor: the minor version of the kubelet.

    """
    fine = _matching(path, _FINE_GRAINED) if minor >= FINE_GRAINED_SINCE else None
    own = _matching(path, _SUBRESOURCES) or "proxy"
    return (own,) if fine is None else (fine, own)


def _matching(path: str, prefixes: dict[str, str]) -> str | None:
    return next((name for at, name in prefixes.items() if path == at or path.startswith(f"{at}/")), None)
