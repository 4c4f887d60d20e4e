"""Audits public manifests: ``python tools/public_manifests.py REPOSITORIES INTO HELM``.

REPOSITORIES has a Git repository OWNER/NAME for each of docs/reference/audit-of-public-manifests.md. HELM is
the program that ``python -m testbed.helm`` builds. It writes each source,
as rendered, and its findings into the folder INTO, and prints the counts by rule.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "audit-of-public-manifests.md"
KUBERNETES: Final = "1.37"
_COMMIT: Final = re.compile(r"^\| (\S+/\S+) \| ([0-9a-f]{40}) \|", re.MULTILINE)
_ROW: Final = re.compile(r"^\| (\d+) \| (\S+/\S+) \| `([^`]+)` \| ([^|`]*)(?:`([^`]*)`)? \|$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^( *)(?:```|----)[^\n]*\n(.*?)^\1(?:```|----) *$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """A row of the list."""

    number: int
    repository: str
    commit: str
    path: str
    how: str
    arguments: list[str]


def sources(page: str) -> list[Source]:
    """Return the list of the page. The last commit counts where the page names one for each file."""
    commits = dict(_COMMIT.findall(page))
    return [
        Source(int(number), repository, commits.get(repository, "HEAD"), path, how, shlex.split(given))
        for number, repository, path, how, given in _ROW.findall(page)
    ]


def extract(source: Source, repositories: Path, folder: Path) -> None:
    """Write what a source needs of its repository: its path, its values, and dependencies of a chart."""
    git = _git(repositories, source.repository)
    values = [each for each in source.arguments if each.endswith(".yaml") and "=" not in each]
    is_folder = source.how.startswith("as it is") and "." not in source.path.rsplit("/")[-1]
    paths = [f"{source.path}/*.y*ml"] if is_folder else [source.path]
    _archived(git, source.commit, [*paths, *values], folder)
    chart = folder / source.path
    for name in ("Chart.yaml", "requirements.yaml"):
        file = chart / name
        content = yaml.safe_load(file.read_text()) if file.exists() else None
        if content and content.get("dependencies"):
            here = [each for each in content["dependencies"] if _is_here(each["name"], chart)]
            for each in content["dependencies"]:
                found = None if each in here else _charts(repositories, source.repository, each["name"])
                if found:
                    _archived(found[0], "HEAD", [found[1]], folder)
                    (chart / "charts").mkdir(exist_ok=True)
                    (folder / found[1]).rename(chart / "charts" / each["name"])
                    here.append(each | {"version": ">=0.0.0-0"})
            file.write_text(yaml.safe_dump(content | {"dependencies": here}))


def _is_here(name: str, chart: Path) -> bool:
    charts = chart / "charts"
    return (charts / name).exists() or any(charts.glob(f"{name}-[0-9]*.tgz"))


def _charts(repositories: Path, repository: str, name: str) -> tuple[tuple[str, ...], str] | None:
    """Return where a repository has a chart, or another one of its owner."""
    owner = Path(repository).parent
    for each in (repository, *(str(owner / other.name) for other in (repositories / owner).iterdir())):
        git = _git(repositories, each)
        listed = _output(*git, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        for path in (path for path in listed if path.endswith(f"/{name}/Chart.yaml")):
            return git, path.removesuffix("/Chart.yaml")
    return None


def _git(repositories: Path, repository: str) -> tuple[str, ...]:
    return ("git", f"--git-dir={(repositories / repository).resolve()}")


def _archived(git: tuple[str, ...], commit: str, paths: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run([*git, "archive", commit, *paths], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def manifests(source: Source, folder: Path, helm: str) -> str:
    """Return the manifests of a source as one stream."""
    at = folder / source.path
    if source.how.startswith("Helm"):
        command = ("template", "release", str(at), "--kube-version", KUBERNETES, *source.arguments)
        return _output(helm, *command, cwd=folder)
    files = [at] if at.is_file() else sorted(each for each in at.rglob("*.y*ml") if each.is_file())
    texts = [each.read_text(encoding="utf-8-sig") for each in files]
    if source.how.startswith("its YAML"):
        blocks = [dedent(each) for text in texts for _, each in _BLOCK.findall(text)]
        texts = [each for each in blocks if re.search("^kind:", each, re.MULTILINE)]
    return "\n---\n".join(texts)


def _output(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


def audited(file: Path) -> dict[str, Any]:
    """Return the report of the audit on a file."""
    flags = ("-o", "json", "--kubernetes", KUBERNETES, "--min-severity", "Info")
    command = (sys.executable, "-m", "winpool.cli", "audit", "-f", str(file), *flags)
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def row(source: Source, report: dict[str, Any]) -> str:
    """Return the row of a source in the table of the page."""
    found = report["findings"]
    codes = Counter(each["code"] for each in found)
    severities = Counter(each["severity"] for each in found)
    counts = [report["workloads"][each] for each in ("windows", "linux", "unknown")]
    counts += [severities[each] for each in ("Error", "Warning", "Info")]
    said = ", ".join(f"{code} {count}" for code, count in codes.items())
    return f"| {' | '.join([str(source.number), *map(str, counts), said])} |\n"


def main(repositories: Path, into: Path, helm: str) -> None:
    """Render and audit all sources of the page."""
    into = into.resolve()
    for source in sources(PAGE.read_text()):
        folder = into / f"{source.number:02}"
        try:
            if not folder.exists():
                extract(source, repositories, folder)
            file = into / f"{source.number:02}.yaml"
            file.write_text(manifests(source, folder, helm))
        except (subprocess.CalledProcessError, OSError) as error:
            sys.stderr.write(f"{source.number} is not rendered: {error}\n")
            continue
        report = audited(file)
        (into / f"{source.number:02}.json").write_text(json.dumps(report, indent=1))
        sys.stdout.write(row(source, report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
