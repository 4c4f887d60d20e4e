"""The addresses of a release, from ``deploy/release.env``, and the files that repeat them.

``python -m release.addresses`` writes them into those files. Where else an address stands, it is made from
these when it is rendered: in the alerts, the chart, the label of the image, and the pages of the docs site.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from winpool import __version__

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "deploy" / "release.env"
KUSTOMIZATION: Final = ROOT / "deploy" / "operator" / "kustomization.yaml"
INSIGHTS: Final = ROOT / "security-insights.yml"
BRANCH: Final = "/blob/main"
"""Between the address of the repository and the path of a file, as GitHub has it."""
RESERVED: Final = ".invalid"
"""The end of names that no host may have (RFC 6761)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the parts of a release are published."""

    image: str
    """Registry and name of the image, without a tag."""
    repository: str
    docs: str

    @classmethod
    def read(cls, path: Path = FILE) -> Self:
        """Read the file. Raises TypeError where it has other names than the three."""
        lines = re.findall(r"^([A-Z]+)=(\S+)$", path.read_text(), re.MULTILINE)
        return cls(**{name.lower(): value for name, value in lines})

    @property
    def placeholders(self) -> list[str]:
        """The names, as in the file, of those that cannot be reached by anyone."""
        hosts = {
            name: urlsplit(value if "://" in value else f"//{value}").hostname or ""
            for name, value in asdict(self).items()
        }
        return [name.upper() for name, host in hosts.items() if host.endswith(RESERVED)]

    def runbooks(self, version: str = __version__) -> str:
        """Return where the runbooks of a version are; the page of an alert has its name there."""
        return f"{self.docs}/{version}/runbooks"

    def assets(self, version: str = __version__) -> str:
        """Return where the files of a release can be downloaded."""
        return f"{self.repository}/releases/download/v{version}"

    @property
    def charts(self) -> str:
        """Where the chart is pushed to, in the registry of the image."""
        return f"oci://{self.image.rpartition('/')[0]}/charts"


def files(addresses: Addresses) -> dict[Path, str]:
    """Return the files that repeat an address, with these in place of what they have."""
    return {
        KUSTOMIZATION: re.sub(
            r"(?m)^(  newName: )\S+$", rf"\g<1>{addresses.image}", KUSTOMIZATION.read_text()
        ),
        INSIGHTS: re.sub(
            rf"(?m)(: )https?://\S+?(?={BRANCH}/|$)", rf"\g<1>{addresses.repository}", INSIGHTS.read_text()
        ),
    }


def main() -> int:
    """Entry point: write the files."""
    for path, content in files(Addresses.read()).items():
        path.write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
