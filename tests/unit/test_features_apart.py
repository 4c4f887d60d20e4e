"""Features do not know each other: the rule stands, and it would notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from winpool.decide import FEATURES

REPOSITORY: Final = Path(__file__).parents[2]
CONFIGURATION: Final = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
CONTRACTS: Final = tomllib.loads(CONFIGURATION)["tool"]["importlinter"]["contracts"]
PACKAGES: Final = {feature.__module__.rpartition(".")[0] for feature in FEATURES}
LINE: Final = "winpool.features.contract | "
ANOTHER_FEATURE: Final = "from winpool.features.feature import FeatureResult\n"


def test_the_rooms_share_one_line_of_the_layers() -> None:
    """Packages on one line, with | between them, may not import each other."""
    [layers] = [each["layers"] for each in CONTRACTS if each["type"] == "layers"]
    assert any(set(line.split(" | ")) >= PACKAGES for line in layers)


def test_each_room_is_among_the_pure_packages() -> None:
    [pure] = [each["source_modules"] for each in CONTRACTS if each["name"].startswith("Pure folders")]
    assert set(pure) >= PACKAGES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("importer", "line", "broken"),
    [
        ("features/yours/feature.py", "", None),
        (
            "features/yours/feature.py",
            "from winpool.features.contract.feature import contract\n",
            "winpool.features.yours -> winpool.features.contract",
        ),
        (
            "features/contract/feature.py",
            "from winpool.features.yours.feature import FeatureResult\n",
            "winpool.features.contract -> winpool.features.yours",
        ),
    ],
    ids=["apart", "the-new-one-imports-the-old", "the-old-one-imports-the-new"],
)
def test_a_room_that_imports_another_is_found(
    importer: str, line: str, broken: str | None, tmp_path: Path
) -> None:
    winpool = tmp_path / "operator" / "winpool"
    shutil.copytree(
        REPOSITORY / "operator" / "winpool", winpool, ignore=shutil.ignore_patterns("__pycache__")
    )
    feature = winpool / "features" / "yours" / "feature.py"
    feature.parent.mkdir()
    (feature.parent / "__init__.py").write_text("")
    feature.write_text(ANOTHER_FEATURE)
    path = winpool / importer
    path.write_text(path.read_text(encoding="utf-8") + line, encoding="utf-8")
    # As docs/how-to-add.md says a new feature has to be written there.
    listed = CONFIGURATION.replace(f'  "{LINE}', f'  "winpool.features.yours | {LINE}')
    assert listed != CONFIGURATION
    (tmp_path / "pyproject.toml").write_text(listed, encoding="utf-8")

    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(winpool.parent), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == (0 if broken is None else 1), done.stdout
    if broken is not None:
        assert broken in done.stdout.replace("is not allowed to import", "->")
