"""Kubeconfigs: one per role, with paths to files instead of embedded keys.

Paths, because clients that find keys embedded write them to temporary files of their own, and because
a ``tokenFile`` is what makes a client read a renewed token without being told.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.paths import Layout, write_atomically
from testbed.pki import MASTERS, Authority, Pair, Pki

ADMIN: Final = "admin"
KCM: Final = "kcm"
SCHEDULER: Final = "scheduler"
SUPERVISOR: Final = "supervisor"
WINPOOL: Final = "winpool"

IDENTITIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    ADMIN: ("admin", (MASTERS,)),
    KCM: ("system:kube-controller-manager", ()),
    SCHEDULER: ("system:kube-scheduler", ()),
    # Its own name, so that what the testbed itself asks is never taken for an admin's request.
    SUPERVISOR: ("testbed:supervisor", (MASTERS,)),
}
"""Role → (user, groups). The bootstrap RBAC of Kubernetes binds the two components by these names."""


def render(*, server: str, ca_file: Path, user: str, credentials: dict[str, str]) -> str:
    """Return the text of a kubeconfig with one cluster, one user and one context."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "testbed", "cluster": {"server": server, "certificate-authority": str(ca_file)}},
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    }
    return yaml.safe_dump(document, sort_keys=False)


def by_certificate(*, server: str, ca_file: Path, user: str, pair: Pair) -> str:
    """Return a kubeconfig that authenticates by client certificate."""
    credentials = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    return render(server=server, ca_file=ca_file, user=user, credentials=credentials)


def by_token_file(*, server: str, ca_file: Path, user: str, token_file: Path) -> str:
    """Return a kubeconfig that authenticates by a token that somebody renews in a file."""
    return render(server=server, ca_file=ca_file, user=user, credentials={"tokenFile": str(token_file)})


def write_user(
    layout: Layout,
    *,
    server: str,
    role: str,
    user: str,
    groups: Sequence[str] = (),
    authority: Authority | None = None,
) -> Path:
    """Issue a client certificate for a user and write a kubeconfig that uses it.

    Args:
        layout: the testbed's directory.
        server: URL of the API server.
        role: base name of the kubeconfig, the certificate and the key.
        user: user name, the certificate's common name.
        groups: groups of the user, the certificate's organizations.
        authority: the cluster's authority, where the caller has it at hand.

    """
    pki = Pki(layout.pki)
    authority = authority or Authority.load(pki.ca)
    pair = authority.issue_client(
        pki.pair(f"user-{role}"), common_name=user, organizations=groups, now=datetime.now(UTC)
    )
    path = layout.kubeconfig(role)
    write_atomically(path, by_certificate(server=server, ca_file=pki.ca.certificate, user=user, pair=pair))
    return path


def write_all(layout: Layout, *, server: str) -> None:
    """Write the kubeconfigs of every role the testbed knows."""
    layout.kubeconfigs.mkdir(exist_ok=True)
    pki = Pki(layout.pki)
    authority = Authority.load(pki.ca)
    for role, (user, groups) in IDENTITIES.items():
        write_user(layout, server=server, role=role, user=user, groups=groups, authority=authority)
    content = by_token_file(server=server, ca_file=pki.ca.certificate, user=WINPOOL, token_file=layout.token)
    write_atomically(layout.kubeconfig(WINPOOL), content)
