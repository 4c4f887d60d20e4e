"""Applies the rules to a workload, for the API server of one Kubernetes minor.

And says of a rule what people read of it, on the page of all rules and from ``--explain``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from winpool.api.keys import GROUP
from winpool.features.audit.cluster import Cluster
from winpool.features.audit.rules import RULES, Needs, Outcome, Rule, Severity
from winpool.features.audit.workloads import RUNTIME_CLASS, Place, Workload, below
from winpool.support.versions import Minor

IGNORE_ANNOTATION: Final = f"{GROUP}/audit-ignore"
"""On an object or its pods: which rules not to report, and why: ``W13: only a cache; R17, R18: a chart``."""

_CODES: Final = frozenset(rule.code for rule in RULES)
_ENTRIES: Final = re.compile(r"\n|;(?=\s*[A-Z]\d)", re.ASCII)
_IGNORED: Final = re.compile(r"\s*([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)\s*(?::\s*(.*))?", re.ASCII | re.DOTALL)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that applies to a field of a workload. ``says`` is what happens, ``fix`` what to do."""

    rule: Rule
    field: str
    severity: Severity
    outcome: Outcome
    says: str
    fix: str


def findings(workload: Workload, minor: Minor) -> list[Finding]:
    """Return what the rules find in a workload: in the order of the rules, then of the object.

    Only rules are applied for which enough is known.
    """
    kind = RUNTIME_CLASS if workload.is_runtime_class else ""
    known = knows(workload.cluster)
    return [
        _finding(rule, workload, place, minor)
        for rule in RULES
        if workload.os in rule.applies_to
        and rule.kind == kind
        and rule.needs in known
        and (rule.since is None or rule.since <= minor)
        for place in rule.places(workload)
    ]


@lru_cache(maxsize=8)
def knows(cluster: Cluster) -> frozenset[Needs]:
    """Return what is known of a cluster. Handlers are, if one Windows node reports them."""
    known = {
        Needs.MANIFEST: True,
        Needs.HOSTS: cluster.hosts is not None,
        Needs.NODES: cluster.has_nodes,
        Needs.HANDLERS: any(each.handlers is not None for each in cluster.hosts or ()),
        Needs.RUNTIME_CLASSES: cluster.has_all_classes,
        Needs.NAMESPACES: cluster.enforced is not None,
        Needs.LIMIT_RANGES: cluster.limits is not None,
    }
    return frozenset(need for need, is_known in known.items() if is_known)


def _finding(rule: Rule, workload: Workload, place: Place, minor: Minor) -> Finding:
    is_os_named = workload.os_name == workload.os
    outcome = rule.outcome(minor, is_os_named=is_os_named)
    severity, happens = rule.severity, rule.happens
    if outcome is Outcome.DROPPED:
        on = next((since for since, each in rule.outcomes if each is Outcome.REFUSED), None)
        severity = Severity.WARNING if on else severity
        later = f"That of {on} and later refuses the pods if spec.os.name is windows." if on else happens
        happens = f"The API server of Kubernetes {minor} drops it. {later}"
    elif outcome is Outcome.REFUSED and rule.without_os is not None:
        happens = "The API server refuses the pods, because spec.os.name is windows."
    else:
        if rule.without_os is not None:
            severity = rule.without_os
        if rule.worse is not None and rule.worse.test(workload, place):
            severity = rule.worse.severity
    says = f"{happens} {place.more}" if place.more else happens
    return Finding(rule=rule, field=place.path, severity=severity, outcome=outcome, says=says, fix=rule.fix)


def ignored(workload: Workload) -> tuple[Mapping[str, str], list[str]]:
    """Return which rules the annotation of a workload ignores, with the reasons, and what it says besides.

    That of the pods counts too, and adds to that of the object.
    """
    field = f"metadata.annotations[{IGNORE_ANNOTATION}]"
    texts = [each.value for each in (*below(workload.content, field), *workload.places(field))]
    codes: dict[str, str] = {}
    unread: list[str] = []
    for text in dict.fromkeys(each for each in texts if isinstance(each, str)):
        more, not_read = codes_in(text)
        codes.update(more)
        unread += not_read
    return codes, unread


def codes_in(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the rules that an annotation or a comment names, with the reasons, and what it says besides."""
    codes: dict[str, str] = {}
    unread: list[str] = []
    for entry in filter(str.strip, _ENTRIES.split(text)):
        found = _IGNORED.fullmatch(entry)
        named = re.findall(r"[A-Z]\d+", found[1]) if found else []
        known = [code for code in named if code in _CODES]
        codes.update(dict.fromkeys(known, (found[2] or "").strip() if found else ""))
        if not named or known != named:
            unread.append(entry.strip())
    return codes, unread


def server(rule: Rule) -> str:
    """Return what the API server does with what a rule is about, by its minor."""
    by = " with spec.os.name: windows" if rule.without_os is not None else ""
    said = [
        f"{outcome} from {since} on{by if outcome is Outcome.REFUSED else ''}"
        for since, outcome in rule.outcomes
    ]
    return ", ".join(said) or "accepted" + (f", and disabled from {rule.since} on" if rule.since else "")


def severities(rule: Rule) -> str:
    """Return the severities that a finding of a rule can have, and when."""
    said = str(rule.without_os or rule.severity)
    if rule.worse is not None:
        said = f"{said}, {rule.worse.severity} {rule.worse.where}"
    if rule.without_os is None or said == rule.severity:
        return said
    return f"{rule.severity} with spec.os.name: windows, otherwise {said}"
