"""Writes what an audit found as a SARIF log, which code scanners show beside the lines of a change.

SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from winpool import __version__
from winpool.cli.parsing import Exit
from winpool.features.audit.rules import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.cli.audit_report import Report, Subject
    from winpool.features.audit.audit import Finding

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def log_of(report: Report, *, not_judged: str) -> dict[str, Any]:
    """Return the log of one audit. What is ignored is in it as suppressed, with the reason."""
    found = [(*each, None) for each in report.shown] + report.suppressed
    rules = list(dict.fromkeys(each.rule for _, each, _ in found))
    notifications = [(each, "error") for each in report.unread]
    notifications += [(each, "note") for each in (*report.notes, not_judged)]
    run = {
        "tool": {
            "driver": {"name": "winpool", "version": __version__, "rules": [_rule(each) for each in rules]}
        },
        "invocations": [
            {
                "executionSuccessful": report.code is not Exit.UNKNOWN,
                "exitCode": int(report.code),
                "toolExecutionNotifications": [
                    {"level": level, "message": {"text": text}} for text, level in notifications
                ],
            }
        ],
        "results": [_result(rules, *each) for each in found],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    pages = [each for each in rule.sources if each.startswith("https://")]
    return {
        "id": rule.code,
        "shortDescription": {"text": f"{', '.join(rule.fields)}: {rule.happens}"},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        **({"helpUri": pages[0]} if pages else {}),
    }


def _result(
    rules: Sequence[Rule],
    subject: Subject,
    finding: Finding,
    suppression: Mapping[str, str] | None,
) -> dict[str, Any]:
    workload, manifest = subject.workload, subject.manifest
    name = "/".join(filter(None, (workload.namespace, workload.kind, workload.name, finding.field)))
    place: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": name}]}
    if manifest is not None:  # the cluster has no lines
        place["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(manifest.file)},
            "region": {"startLine": manifest.line_of(finding.field)},
        }
    return {
        "ruleId": finding.rule.code,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{workload.title}: {finding.field}: {finding.says} {finding.fix}"},
        "locations": [place],
        **({"suppressions": [suppression]} if suppression else {}),
    }


def _uri(file: str) -> str:
    """Return a file as an URI: a relative one, as it was given, is below the root of the sources."""
    path = Path(file)
    quoted = quote(os.fsencode(path))
    return f"file://{quoted}" if path.is_absolute() else quoted
