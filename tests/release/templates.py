"""The templates of the chart: the files that ``kubectl apply -k deploy`` applies, with values in them.

An edit names the text that it replaces, and fails where the file does not have it. So a change of a
manifest is in the chart too, or ``make generate`` says which edit to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from release.edits import EDITS, NO_TEMPLATE, WRAPPED, Edit

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
OPERATOR: Final = DEPLOY / "operator"
ALWAYS: Final = (
    ROOT / "crds" / "windowsnodepools.winpool.dev.yaml",
    DEPLOY / "components" / "metrics-tls" / "metrics-auth.yaml",
    *(
        DEPLOY / "components" / "memory" / name
        for name in ("memory-rights.yaml", "kubelet-reader.yaml", "kubelet-egress.yaml")
    ),
    DEPLOY / "components" / "rollout" / "rollout-rights.yaml",
    DEPLOY / "components" / "force" / "force-rights.yaml",
    DEPLOY / "components" / "prometheus-operator" / "podmonitor.yaml",
    DEPLOY / "alerts" / "prometheusrule.yaml",
)
"""What the chart has besides the files of the operator."""
NAMES: Final = {"windowsnodepools.winpool.dev.yaml": "crd.yaml"}

Object = dict[str, Any]


class ChartError(Exception):
    """The chart cannot be made of the manifests; the text says which file and what to change."""


@dataclass(frozen=True, slots=True)
class Template:
    """A file below ``templates/``."""

    name: str
    content: str


def templates() -> list[Template]:
    """Return all generated templates.

    Raises:
        ChartError: an edit is about a text that its file does not have.

    """
    kustomization = yaml.safe_load((OPERATOR / "kustomization.yaml").read_text())
    files = [OPERATOR / name for name in kustomization["resources"] if name not in NO_TEMPLATE]
    edits = {**EDITS, "rbac.yaml": (*EDITS.get("rbac.yaml", ()), *annotating(kustomization))}
    found = [_template(path, edits=edits) for path in (*files, *ALWAYS)]
    if unused := (edits.keys() | WRAPPED.keys()) - {path.name for path in (*files, *ALWAYS)}:
        raise ChartError(f"there are edits for {', '.join(sorted(unused))}, which no kustomization applies")
    return found


def annotating(kustomization: Mapping[str, Any]) -> list[Edit]:
    """Return what the patches of a kustomization do, as edits: they add annotations to objects of a name.

    Raises:
        ChartError: a patch does something else.

    """
    found = []
    for each in kustomization.get("patches", ()):
        operations = yaml.safe_load(each["patch"])
        if [(one["op"], one["path"]) for one in operations] != [("add", "/metadata/annotations")]:
            raise ChartError(
                "a patch in deploy/operator/kustomization.yaml does more than add annotations: "
                "write it into the manifest, or teach tests/release/templates.py"
            )
        head = f"metadata:\n  name: {each['target']['name']}\n"
        lines = "".join(f"    {key}: {value}\n" for key, value in operations[0]["value"].items())
        kinds = len(each["target"]["kind"].split("|"))
        found.append(Edit(head, f"{head}  annotations:\n{lines}", count=kinds))
    return found


def edited(text: str, edits: Sequence[Edit], *, name: str) -> str:
    """Return a manifest with the edits made, and what a template would read as its own escaped.

    Raises:
        ChartError: a text is not there as often as an edit says.

    """
    text = text.replace("{{", '{{ "{{" }}')
    for edit in edits:
        count = text.count(edit.old)
        if count != edit.count:
            raise ChartError(
                f"{name} has {count} times, not {edit.count} times, what an edit of the chart replaces. "
                f"Change the edit in tests/release/edits.py:\n{edit.old}"
            )
        text = text.replace(edit.old, edit.new)
    return text


def _template(path: Path, *, edits: Mapping[str, Sequence[Edit]]) -> Template:
    origin = path.relative_to(ROOT)
    text = edited(path.read_text(), edits.get(path.name, ()), name=str(origin))
    condition = WRAPPED.get(path.name)
    body = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text
    header = f"{{{{- /* Generated from {origin}. Do not edit; run: make generate */ -}}}}\n"
    return Template(NAMES.get(path.name, path.name), header + body)
