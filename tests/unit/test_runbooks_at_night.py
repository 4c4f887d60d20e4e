"""What the runbooks have someone do at night: what is missing, and nothing that resets the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from harness.documents import ROOT

RUNBOOKS: Final = ROOT / "docs" / "runbooks"
FOR_A_FIRST_INSTALLATION: Final = 'MANIFESTS: Final = "install.yaml"'
"""What ``api/keys.py`` says of it. These verbs tell someone to apply it where there is no installation."""
FIRST_INSTALLATIONS: Final = {"kubectl.py", "version.py"}
PAGES: Final = [
    *sorted(RUNBOOKS.glob("*.md")),
    ROOT / "docs" / "troubleshooting.md",
    *sorted((ROOT / "deploy" / "alerts").glob("*.yaml")),
    *sorted((ROOT / "operator" / "winpool").rglob("*.py")),
]
"""What says how something is repaired: the fixes of issues and the messages of the verbs too."""
INSTALLS: Final = "Install the alerts"
"""The section of the runbooks' overview that installs something, and repairs nothing."""

_END: Final = r"(?=[\s`.,;:\"')]|$)"
WHOLE: Final = (
    re.compile(rf"kubectl\s+apply\s+(?:\S+\s+)*?-k\s+deploy(?:/(?:operator|overlays/[\w-]+))?/?{_END}"),
    re.compile(rf"kubectl\s+apply\s+(?:\S+\s+)*?-f\s+deploy/operator/?{_END}"),
    re.compile(rf"\bapply\s+`?deploy`?{_END}", re.IGNORECASE),
    re.compile(r"\binstall\.yaml\b"),
)
"""What applies all of an installation, and so resets the image and the settings that someone has changed."""


def section(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def applies_all(text: str) -> Iterator[str]:
    """Yield each place of a page that has the whole installation applied again."""
    installs = section(text, INSTALLS)
    for pattern in WHOLE:
        yield from (found[0] for found in pattern.finditer(text.replace(installs, "") if installs else text))


def faults() -> Iterator[str]:
    for page in PAGES:
        text = page.read_text()
        yield from (
            f"{page.name}: {what}" for what in applies_all(text.replace(FOR_A_FIRST_INSTALLATION, ""))
        )
        if re.search(r"\bMANIFESTS\b", text) and page.name not in FIRST_INSTALLATIONS | {"keys.py"}:
            yield f"{page.name}: it has an installation applied again"
    down = section((RUNBOOKS / "WinPoolOperatorDown.md").read_text(), "Diagnosis")
    if "logs POD --previous" not in down:
        yield "WinPoolOperatorDown.md: it does not look at the log of the process that ended"
    if re.search(r"\bADDRESS\b|podIP", down):
        yield "WinPoolOperatorDown.md: it needs the address of a Pod"
    memory = section((RUNBOOKS / "WindowsNodeMemoryPressure.md").read_text(), "Diagnosis")
    first = re.search(r"^```\w*\n(.*?)^```", memory, re.MULTILINE | re.DOTALL)
    commands = first[1].splitlines() if first else []
    verbs = [re.sub(r"/\S+$", "", command) for command in commands]
    if verbs != ["kubectl winpool memory wnp", "kubectl winpool memory node"]:
        yield f"WindowsNodeMemoryPressure.md: the first commands do not lead to the pod: {verbs}"


def test_no_runbook_resets_an_installation_and_each_leads_to_its_cause() -> None:
    assert list(faults()) == []


def test_what_applies_all_is_seen() -> None:
    for said in (
        '- "forbidden" in the log: `kubectl apply -k deploy`.',
        "- Run `kubectl apply --server-side -k deploy/overlays/memory`, in the version that runs.",
        "- Apply `deploy` again.",
        "kubectl apply -k deploy, or helm upgrade",
    ):
        assert list(applies_all(said)), said
    for said in ("`kubectl apply -k crds`", "`kubectl apply -f deploy/operator/rbac.yaml`, in the version"):
        assert not list(applies_all(said)), said
