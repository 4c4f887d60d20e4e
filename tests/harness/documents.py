"""The commands in the documentation: fenced blocks marked ``console``, one command per line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]

NEVER_RUN_HERE: Final = {
    "make test": "it is what runs this",
    'python -m winpool run --kubeconfig "$CREDENTIALS/kubeconfig"': "one operator runs already",
}
"""Commands that tests do not type, and why."""

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


NIGHTLY = ("docs/benchmarks.md", "docs/memory-benchmark.md")
"""Pages whose commands measure for minutes: ``make nightly`` types them, ``make test`` does not."""

UNINSTALL = "docs/uninstall.md"
"""It removes what others need, or needs an operator that has ended: ``cluster/test_uninstall.py``."""

DRILL = "docs/drill.md"
"""It needs nodes that are broken: ``cluster/test_drill.py``."""

RELEASE = "docs/install.md"
"""It begins with the files of a release: ``image/test_release.py``."""

ON_THEIR_OWN = (UNINSTALL, DRILL, RELEASE)
"""Pages with a test of their own, which types their commands."""

WITH_HELM = ("docs/helm.md",)
"""Pages about helm, which ``make test`` does not build: ``chart/test_page.py`` types their commands."""

MAY_BE_SILENT: Final = {
    "kubectl get nodes -l winpool.dev/pool=win-2022": "the pool was deleted just before",
    "kubectl diff -f deploy/operator/guard.yaml": "the guard is as it was applied",
    "kubectl -n winpool-system get pods -o wide": "the operator runs beside the cluster",
    "kubectl -n winpool-system get events": "the operator runs beside the cluster",
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations": "there are none",
    "kubectl get events -n default --field-selector reason=PoolGone": "no pool was deleted by force",
    "kubectl get events --field-selector reason=DriftRepaired": "nobody touched a node",
    "kubectl get events --field-selector reason=ForeignTaintConflict": "nobody touched a node",
    "kubectl get csr --field-selector=spec.signerName=kubernetes.io/kubelet-serving": (
        "the certificates of simulated kubelets are made beside the cluster"
    ),
    "kubectl get pods -A --field-selector status.phase=Pending": "all pods have their node",
    "kubectl get pods -A --field-selector=status.phase=Pending": "all pods have their node",
    "kubectl get pdb -A": "the pods of these tests have no budget",
    'kubectl get wnp win-2022 -o jsonpath=\'{range .status.conditions[?(@.type=="MemoryHealthy")]}{.reason}'
    '{": "}{.message}{"\\n"}{end}\'': "the pool watches no memory",
    "kubectl get wnp win-2022 -o jsonpath='{.spec.memoryPressure.eviction.maxPressuredNodes}{\"\\n\"}'": (
        "the pool watches no memory"
    ),
    'kubectl config view --raw --minify --flatten > "$CREDENTIALS/kubeconfig"': "into a file",
    'kubectl -n winpool-system create token winpool --duration=24h > "$CREDENTIALS/token"': "into a file",
}
"""Commands that may print nothing where tests type them, and why; every other has to show something."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page with its commands, in order."""

    path: str
    commands: tuple[str, ...]


def documents() -> Iterator[Document]:
    """Yield every page that has commands a reader is to type."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        commands = tuple(commands_of(page.read_text()))
        if commands:
            yield Document(str(page.relative_to(ROOT)), commands)


def commands_of(text: str) -> Iterator[str]:
    """Yield the commands of a page: without trailing comments, and without what cannot run here."""
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            command = re.sub(r"\s+# .*$", "", line).strip()
            if command and command not in NEVER_RUN_HERE:
                yield command


def sections_of(text: str) -> dict[str, tuple[str, ...]]:
    """Return the commands of each section of a page by its heading, which has to be unique."""
    _, *parts = _HEADING.split(text)
    headings, bodies = parts[::2], parts[1::2]
    assert len(set(headings)) == len(headings)
    return {heading: tuple(commands_of(body)) for heading, body in zip(headings, bodies, strict=True)}


def blocks_of(text: str, heading: str) -> Iterator[str]:
    """Yield the lines of a section's plain blocks: commands for a place that this page does not run in."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, f"no section {heading}"
    for block in re.findall(r"^```\n(.*?)^```", _BLOCK.sub("", section), re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


def links_of(text: str) -> Iterator[str]:
    """Yield the relative links of a page; what stands in code is none."""
    for target, _ in anchored_links_of(text):
        if target:
            yield target


def anchored_links_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the relative links of a page as file and anchor; without a file it is the page itself."""
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", re.sub(r"`[^`\n]*`", "", text)):
        if "://" not in target:
            yield target, anchor


def anchors_of(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    }


def outside_make(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a make is a reader's own, no part of the make that runs the tests."""
    return {k: v for k, v in environment.items() if k not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
