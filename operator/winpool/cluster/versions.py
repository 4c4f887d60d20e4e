"""The order of resourceVersions.

Since Kubernetes 1.35 they are defined as integers without leading zeros, comparable within
one resource (KEP-5504); servers with etcd behind them have always behaved so. An
aggregated or older server may use other texts: these have no order.
"""

from __future__ import annotations


def is_older(version: str, than: str) -> bool | None:
    """Return whether ``version`` comes before ``than``; None where the two have no order.

    Equal texts are never older. Integers may have any length: the comparison is by length,
    then by digits, as KEP-5504 defines it.
    """
    if version == than:
        return False
    if not (is_comparable(version) and is_comparable(than)):
        return None
    return (len(version), version) < (len(than), than)


def newer_of(version: str, than: str) -> str:
    """Return the newer of two; ``version`` where they have no order or ``than`` is empty."""
    return than if is_older(version, than) else version


def is_comparable(version: str) -> bool:
    """Whether a resourceVersion is a positive integer as KEP-5504 defines it.

    "0" is not one: in requests it means "any version".
    """
    return version.isascii() and version.isdigit() and version[0] != "0"
