"""What is to be said of the guard of our keys, and of pools whose labels a node could get by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.selector import SelectorOperator
from winpool.api.syntax import is_restricted_label
from winpool.report.tally import enumerate_names
from winpool.report.wording import sentence
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.api.v1alpha1 import NodeSelector, WindowsNodePoolSpec
    from winpool.snapshot import Snapshot

_POSITIVE = (SelectorOperator.IN, SelectorOperator.EXISTS)


def guard_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what concerns the pool as a whole."""
    pool = snapshot.pool
    if pool.deleting:
        return
    if snapshot.guard.problem:
        yield Finding(
            IssueReason.GUARD_NOT_IN_FORCE,
            (),
            sentence(
                "The admission policy that stops kubelets from writing the operator's keys on nodes is not "
                f"in force: {snapshot.guard.problem}"
            ),
            "Apply the guard that belongs to the version of the operator (docs/guard.md): kubectl apply -f "
            "deploy/operator/guard.yaml",
            cause="the guard is not in force",
        )
    if pool.spec is not None:
        yield from _of_selector(pool.spec)


def _of_selector(spec: WindowsNodePoolSpec) -> Iterator[Finding]:
    given = sorted(key for key in spec.labels if is_restricted_label(key))
    asked = sorted(_asked_for(spec.node_selector))
    if not given or any(map(is_restricted_label, asked)):
        return
    by = f"only by labels that any kubelet may set ({enumerate_names(asked)})" if asked else "by no label"
    yield Finding(
        IssueReason.SELECTOR_OPEN_TO_KUBELETS,
        (),
        f"The pool sets labels that no kubelet may set on its own node ({enumerate_names(given)}). It "
        f"selects nodes {by}. So any kubelet can obtain them.",
        "Select nodes by a label that kubelets may not set, such as one under "
        "node-restriction.kubernetes.io/ that is set when the machine is created (docs/guard.md).",
        cause="the selector is open",
    )


def _asked_for(selector: NodeSelector) -> set[str]:
    """Return the labels that a node must carry to be selected; those that it must lack keep no node out."""
    positive = (each.key for each in selector.match_expressions if each.operator in _POSITIVE)
    return {*selector.match_labels, *positive}
