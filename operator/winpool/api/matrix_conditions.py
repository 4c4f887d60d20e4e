"""What the support matrix adds to the conditions of a pool: OSSupported, and reasons of Ready and Accepted.

Beside ``CONDITIONS`` since no pass judges nodes by the support matrix yet: with the first one that
does, ``OS_SUPPORTED`` becomes a member of ``ConditionType`` and these rows become part of that table.
"""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import CONDITIONS, ConditionKind, ConditionType, Meaning, Polarity, Reason

OS_SUPPORTED: Final = "OSSupported"
"""The type of condition that says whether the nodes' Windows is in the support matrix and in support."""

_SEE_ACCEPTED: Final = "Accepted is False because of the support matrix: see there."

MATRIX_MEANINGS: Final = {
    ConditionType.READY: (
        Meaning("False", Reason.MATRIX_CONTRADICTORY, _SEE_ACCEPTED),
        Meaning("False", Reason.MATRIX_UNREADABLE, _SEE_ACCEPTED),
    ),
    ConditionType.ACCEPTED: (
        Meaning(
            "False",
            Reason.MATRIX_CONTRADICTORY,
            "Rows of the pool, of the operator's matrix file and of the built-in matrix do not go together; "
            "the message names them, and which to change.",
        ),
        Meaning(
            "False",
            Reason.MATRIX_UNREADABLE,
            "The operator's matrix file cannot be read, so no verdict can be given; the message has file, "
            "line and fault.",
        ),
    ),
}
"""The further reasons of conditions that there are already."""

OS_SUPPORTED_KIND: Final = ConditionKind(
    OS_SUPPORTED,
    Polarity.GOOD,
    "Every node runs a Windows that the support matrix allows under this version of Kubernetes, at a "
    "revision and with a kubelet and a runtime that are supported. Where nodes differ, the worst is told.",
    (
        Meaning("True", Reason.NODES_SUPPORTED, "Every node is supported."),
        Meaning(
            "True", Reason.BUILD_WARNED, "Every node is supported, some with a warning: see status.issues."
        ),
        Meaning("True", Reason.SUPPORT_ENDING, "Support of a build that nodes run ends within 90 days."),
        Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is unsupported."),
        Meaning("True", Reason.POOL_OVERLAP, "All nodes that match belong to other pools."),
        Meaning(
            "Unknown",
            Reason.BUILD_UNKNOWN,
            "The support matrix does not know a build that nodes run or this version of Kubernetes, or what "
            "a node reports cannot be read.",
        ),
        Meaning("Unknown", Reason.OWNER_UNKNOWN, "Nobody knows yet whose the nodes are that match."),
        Meaning("Unknown", Reason.SPEC_REJECTED, "The spec was not accepted, so its rows are not known."),
        Meaning("Unknown", Reason.MATRIX_CONTRADICTORY, _SEE_ACCEPTED),
        Meaning("Unknown", Reason.MATRIX_UNREADABLE, _SEE_ACCEPTED),
        Meaning(
            "False",
            Reason.BUILD_UNSUPPORTED,
            "Nodes run a build that the support matrix does not allow under this version of Kubernetes, or "
            "denies.",
        ),
        Meaning("False", Reason.SUPPORT_ENDED, "The last day of support of a build that nodes run passed."),
        Meaning(
            "False",
            Reason.REVISION_BELOW_FLOOR,
            "Nodes run a revision below the highest of `os.minRevision` and the support matrix's floors.",
        ),
        Meaning(
            "False",
            Reason.VERSION_SKEW,
            "Nodes run a kubelet that is newer than the control plane, or older than it may be.",
        ),
        Meaning(
            "False",
            Reason.RUNTIME_TOO_OLD,
            "Nodes run a container runtime that is too old for their build of Windows.",
        ),
    ),
)


def documented() -> tuple[ConditionKind, ...]:
    """Return every type of condition with every meaning, for the reference page."""
    known = tuple(
        ConditionKind(kind.type, kind.polarity, kind.true_means, kind.meanings + more)
        for kind in CONDITIONS
        for more in (MATRIX_MEANINGS.get(ConditionType(kind.type), ()),)
    )
    return (*known, OS_SUPPORTED_KIND)
