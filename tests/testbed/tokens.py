"""ServiceAccount tokens signed with the testbed's own key.

The TokenRequest API refuses lifetimes under ten minutes, which no test can wait for. A token signed
with the cluster's key and carrying the same claims is accepted like any bound token, for as short as
wanted. The API server adds about 60 s of leeway after ``exp`` and caches a verdict for 10 s.
"""

import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import jwt

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
"""``--service-account-issuer``, and the audience of tokens for the API server."""
NAMESPACE: Final = "winpool-system"
SERVICE_ACCOUNT: Final = "winpool"
DEFAULT_LIFETIME_SECONDS: Final = 600
"""What the shortest TokenRequest grants; renewals then happen within a long test, unasked."""


def subject(*, namespace: str = NAMESPACE, name: str = SERVICE_ACCOUNT) -> str:
    """Return the user name of a ServiceAccount, as RBAC and the audit log spell it."""
    return f"system:serviceaccount:{namespace}:{name}"


def mint(
    *,
    key_file: Path,
    uid: str,
    now: datetime,
    lifetime_seconds: float,
    namespace: str = NAMESPACE,
    name: str = SERVICE_ACCOUNT,
) -> str:
    """Sign a token for a ServiceAccount.

    Args:
        key_file: private key of the cluster, PEM, P-256.
        uid: UID of the ServiceAccount; the API server refuses the token once that object is gone.
        now: time of issue, aware.
        lifetime_seconds: until ``exp``; negative makes one that has expired already.
        namespace: of the ServiceAccount.
        name: of the ServiceAccount.

    """
    expires = now + timedelta(seconds=lifetime_seconds)
    issued = min(now, expires)  # a token that expired before it was issued would be malformed, not expired
    claims = {
        "iss": ISSUER,
        "sub": subject(namespace=namespace, name=name),
        "aud": [ISSUER],
        "iat": int(issued.timestamp()),
        "nbf": int(issued.timestamp()),
        "exp": int(expires.timestamp()),
        "jti": str(uuid.uuid4()),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
    }
    return jwt.encode(claims, key_file.read_text(), algorithm="ES256")
