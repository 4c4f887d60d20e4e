"""The rules about nodes: one row for each cause for which a Windows node does not work.

The conditions are functions of ``conditions.py``. The rows are in the order in which findings of one severity
are reported. What is not here, and why, is in ``tools/gen/node_rules_reference.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from winpool.features.diagnose import conditions
from winpool.features.diagnose.conditions import Find
from winpool.features.diagnose.evidence import Evidence, Found, Source, quoted


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "Error"
    """The node does not work, or pods do not start on it."""
    WARNING = "Warning"
    """It works, and some pods will not, or it may be the cause of trouble."""


SEVERITIES: Final = tuple(Severity)
"""The worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A row. ``about`` is what is read, ``needs`` the sources of it.

    ``finding`` is what is wrong, ``means`` what follows from it, ``fix`` what to do about it.
    """

    code: str
    about: str
    needs: tuple[Source, ...]
    finding: str
    means: str
    fix: str
    sources: tuple[str, ...]
    find: Find
    severity: Severity = Severity.ERROR


_DEBUG: Final = "https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/"

RULES: Final = (
    Rule(
        code="N1",
        about="the condition Ready and its message; events NetworkNotReady where nodes cannot be read",
        needs=(Source.NODES,),
        finding="The node is not Ready, because its CNI is not.",
        means="The runtime finds no configuration of a CNI, so only pods with hostNetwork start. The node "
        "agent of the CNI writes it.",
        fix="Check the pod of the node agent on this node and its log; on RKE2 the agent is a part of the "
        "service rke2. If it runs, check that it writes to the folder that the runtime reads.",
        sources=("https://github.com/kubernetes-sigs/sig-windows-tools/issues/285",),
        find=conditions.no_network,
    ),
)


LOG_CAUSES: Final = (
    (re.compile("cni plugin not initialized", re.IGNORECASE), "the CNI has no configuration"),
)
"""What lines of the logs of kubelet and containerd say, by the texts that they have."""


class Finding(NamedTuple):
    """What a rule found on the node ``node``."""

    rule: Rule
    node: str
    found: Found

    @property
    def severity(self) -> Severity:
        """That of the rule, or less."""
        return Severity.WARNING if self.found.is_mild else self.rule.severity

    @property
    def says(self) -> str:
        """What is wrong, and what this case adds to it."""
        return " ".join(filter(None, (self.rule.finding, self.found.more)))

    @property
    def fix(self) -> str:
        """What to do."""
        return self.found.fix or self.rule.fix


class Unexplained(NamedTuple):
    """Something that does not work, and of which no rule knows the cause.

    ``pod`` is empty where it is the node that is not Ready. ``quote`` is what is said of it, ``log`` what the
    logs of the node have, by how many lines.
    """

    node: str
    pod: str
    reason: str
    quote: str
    log: Mapping[str, int]


class Diagnosis(NamedTuple):
    """All about one node. ``unknown`` are rules that found nothing in what is not known whole."""

    findings: tuple[Finding, ...]
    unexplained: tuple[Unexplained, ...]
    unknown: tuple[tuple[Rule, tuple[Source, ...]], ...]


def judge(seen: Evidence) -> Diagnosis:
    """Apply all rules to a node."""
    findings: list[Finding] = []
    unknown: list[tuple[Rule, tuple[Source, ...]]] = []
    for rule in RULES:
        found = [Finding(rule, seen.name, each) for each in rule.find(seen)]
        findings += found
        missing = tuple(each for each in rule.needs if each in seen.unknown)
        if missing and not found:
            unknown.append((rule, missing))
    return Diagnosis(tuple(findings), tuple(_unexplained(seen, findings)), tuple(unknown))


def _unexplained(seen: Evidence, findings: list[Finding]) -> Iterator[Unexplained]:
    node, codes = seen.node, {each.rule.code for each in findings}
    if "N1" in codes:
        return  # pods wait for the same
    if node is not None and node.ready != "True":
        reason = quoted(node.reason) or "the kubelet has not said whether it is"
        yield Unexplained(seen.name, "", reason, quoted(node.message), seen.log)
        return
    explained = {pod for each in findings for pod in each.found.pods}
    for pod, reason in seen.stuck():
        if pod.name not in explained:
            said = [each.message for each in seen.events if each.pod == pod.name]
            quote = quoted((*said, *pod.messages, "")[0])
            yield Unexplained(seen.name, pod.name, quoted(reason), quote, seen.log)
