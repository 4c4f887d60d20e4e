"""What the operator's /metrics say at one moment. A metric that is not there is None, not an error. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Scrape:
    """All series and their values, by name and labels."""

    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text format of Prometheus."""
        return cls(
            {
                (sample.name, frozenset(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
        )

    @property
    def series(self) -> int:
        """How many there are."""
        return len(self.values)

    def total(self, name: str, **labels: str) -> float | None:
        """Return the sum of all series of a name that have these labels; None where there is none."""
        wanted = labels.items()
        found = [
            value
            for (each, given), value in self.values.items()
            if each == name and wanted <= dict(given).items()
        ]
        return sum(found) if found else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of all series of a name by the value of a label."""
        found: dict[str, float] = {}
        for (each, given), value in self.values.items():
            if each == name and (text := dict(given).get(label)) is not None:
                found[text] = found.get(text, 0.0) + value
        return found


@dataclass(frozen=True, slots=True)
class PodPasses:
    """What one process of the operator has told of its passes over all pods; None what it does not tell."""

    passes: float | None
    errors: float | None
    seconds: float | None
    """All passes added up, those that failed too."""
    pods_seen: float | None
    """In the last."""

    @classmethod
    def read(cls, scrape: Scrape) -> Self:
        """Pick them out."""
        return cls(
            passes=scrape.total("winpool_pod_passes_total", result="Success"),
            errors=scrape.total("winpool_pod_passes_total", result="Error"),
            seconds=scrape.total("winpool_pod_pass_seconds_total"),
            pods_seen=scrape.total("winpool_pods_seen"),
        )

    @property
    def seconds_each(self) -> float | None:
        """How long a pass took on average."""
        all_passes = (self.passes or 0.0) + (self.errors or 0.0)
        return self.seconds / all_passes if self.seconds is not None and all_passes else None
