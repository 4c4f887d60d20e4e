"""What is to be said of a CRD that is older than the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.crd_fields import SET_KEYS, name_of
from winpool.api.issues import IssueReason
from winpool.api.keys import CRD_NAME
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.snapshot import Snapshot


def crd_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what concerns every pool: fields of spec and status that the API server does not know."""
    if snapshot.lacking_fields and not snapshot.pool.deleting:
        names = ", ".join(map(name_of, snapshot.lacking_fields))
        waits = " The operator sets no new labels and taints until then." if _forgets_keys(snapshot) else ""
        yield Finding(
            IssueReason.CRD_OUTDATED,
            (),
            f"The CRD {CRD_NAME} is older than the operator. No spec can set the fields that it lacks, and "
            f"the status does not have them.{waits} It lacks {names}.",
            "Apply the CRD that belongs to the version of the operator "
            "(docs/operator.md#upgrade-and-downgrade): kubectl apply -k crds, or helm upgrade",
            cause="the CRD is older than the operator",
        )


def _forgets_keys(snapshot: Snapshot) -> bool:
    """Whether the status cannot remember what the pool sets, which it has to before a node gets it."""
    return SET_KEYS in snapshot.lacking_fields
