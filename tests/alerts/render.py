"""Renders the alerts: ``python -m alerts.render rules`` and ``python -m alerts.render prometheusrule``.

The source is ``deploy/alerts/alerts.yaml``. From it come a rule file for a Prometheus that is set up by
files, and a PrometheusRule for one that the Prometheus operator sets up: the same groups in both, so that
nobody has alerts that others do not have.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from release.addresses import Addresses

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "alerts"
SOURCE: Final = FOLDER / "alerts.yaml"
COMMAND: Final = "make generate"
HEADER: Final = f"# Generated from deploy/alerts/{SOURCE.name}. Do not edit; run: {COMMAND}\n"
RUNBOOKS: Final = Addresses.read().runbooks()
WIDTH: Final = 110
"""Columns of a line, as in the rest of the repository."""

Groups = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What ``alerts.yaml`` says: groups of alerts."""

    groups: Groups

    @classmethod
    def read(cls, path: Path = SOURCE) -> "Source":
        """Read it. Raises TypeError where it has other keys."""
        return cls(**yaml.safe_load(path.read_text()))

    def published(self) -> Groups:
        """Return the groups as Prometheus is to have them: each alert with the address of its runbook."""
        return [
            group | {"rules": [self._with_runbook(rule) for rule in group["rules"]]} for group in self.groups
        ]

    def _with_runbook(self, rule: dict[str, Any]) -> dict[str, Any]:
        address = {"runbook_url": runbook(rule["alert"])}
        return rule | {"annotations": rule["annotations"] | address}


def runbook(alert: str) -> str:
    """Return the address of the page of an alert, in the docs of this version."""
    return f"{RUNBOOKS}/{alert}.html"


def rules(source: Source) -> str:
    """Return the rule file, for ``rule_files`` in the configuration of Prometheus."""
    return HEADER + _dump({"groups": source.published()})


def prometheusrule(source: Source) -> str:
    """Return the PrometheusRule, for ``kubectl apply -f``."""
    metadata = {
        "name": "winpool",
        "namespace": "winpool-system",
        "labels": {"app.kubernetes.io/name": "winpool"},
    }
    return HEADER + _dump(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": metadata,
            "spec": {"groups": source.published()},
        }
    )


FILES: Final = {
    "rules": ("winpool.rules.yaml", rules),
    "prometheusrule": ("prometheusrule.yaml", prometheusrule),
}
"""What can be rendered: the name of the file in ``deploy/alerts``, and what makes its content."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, so that an expression can be read where it is deployed."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _dump(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=WIDTH, allow_unicode=True)


def main() -> None:
    """Entry point: prints one of ``FILES``."""
    parser = argparse.ArgumentParser(prog="python -m alerts.render", description=__doc__.partition("\n")[0])
    parser.add_argument("file", choices=FILES)
    _, render = FILES[parser.parse_args().file]
    sys.stdout.write(render(Source.read()))


if __name__ == "__main__":
    main()
