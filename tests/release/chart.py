"""Writes the generated files of the Helm chart: ``python -m release.chart``.

The chart has the objects that ``kubectl apply -k deploy`` applies, made from the same files. What is written
by hand in ``deploy/chart`` restates nothing of them: helpers, notes, and the test of ``helm test``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from release.templates import DEPLOY, ROOT, ChartError, templates
from release.values import values
from release.values_files import page, schema_json, values_yaml
from winpool import __version__

CHART: Final = DEPLOY / "chart"
PAGE: Final = ROOT / "docs" / "reference" / "chart.md"
COMMAND: Final = "make generate"
OLDEST: Final = "1.32"
"""The oldest Kubernetes that is supported."""

CHART_YAML: Final = f"""\
# Generated from tests/release/chart.py. Do not edit; run: {COMMAND}
apiVersion: v2
name: winpool
description: Kubernetes operator for the lifecycle of Windows node pools
type: application
version: {__version__}
appVersion: "{__version__}"
# With -0, versions such as v1.32.1-eks-1a2b3c4 count too.
kubeVersion: ">={OLDEST}.0-0"
"""

BY_HAND: Final = frozenset(
    CHART / name
    for name in (
        *(".helmignore", "templates/NOTES.txt", "templates/_helpers.tpl", "templates/checks.yaml"),
        "templates/tests/readyz.yaml",
    )
)
"""The files of the chart that are not generated."""


def files() -> dict[Path, str]:
    """Return every generated file with its content.

    Raises:
        ChartError: the manifests and what is known of them do not fit.

    """
    table = values()
    return {
        CHART / "Chart.yaml": CHART_YAML,
        CHART / "values.yaml": values_yaml(table),
        CHART / "values.schema.json": schema_json(table),
        PAGE: page(table),
        **{CHART / "templates" / each.name: each.content for each in templates()},
    }


def chart_files(*, image: str, digest: str) -> dict[str, bytes]:
    """Return the files of the chart as Helm packs them, by their names in the archive, Chart.yaml first.

    The chart then has the image as the default: ``image`` is its registry and name, and ``digest`` its digest
    (``sha256:…``), which may be empty.
    """
    paths = sorted(
        (path for path in CHART.rglob("*") if path.is_file()),
        key=lambda path: (path.name != "Chart.yaml", path),
    )
    found = {f"winpool/{path.relative_to(CHART)}": path.read_bytes() for path in paths}
    defaults = found["winpool/values.yaml"].replace(b"  digest: ''\n", f"  digest: '{digest}'\n".encode())
    named = f"  repository: {image}\n".encode()
    found["winpool/values.yaml"] = re.sub(rb"(?m)^  repository: \S+\n", named, defaults, count=1)
    return found


def stale(expected: dict[Path, str]) -> list[Path]:
    """Return the files of the chart that are neither generated nor known to be written by hand."""
    there = {path for path in CHART.rglob("*") if path.is_file()}
    return sorted(there - expected.keys() - BY_HAND)


def main() -> int:
    """Entry point: write the files, and remove what an earlier version wrote."""
    try:
        generated = files()
    except ChartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for path, content in generated.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for path in stale(generated):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
