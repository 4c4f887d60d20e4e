"""The licences that the image has; what it ships without one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from licenses import main

SITE: Final = "lib/python3.13/site-packages"


def distribution(root: Path, name: str, metadata: str, *files: str) -> None:
    info = root / SITE / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{metadata}\n\nLicense-File: in its text\n")
    for file in files:
        (info / file).parent.mkdir(parents=True, exist_ok=True)
        (info / file).write_text(f"{name}: {file}")


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_each_text_is_in_the_folder_of_its_distribution_and_in_the_overview(tmp_path: Path) -> None:
    distribution(
        tmp_path,
        "New_One",
        "License-Expression: MIT AND ISC\nLicense-File: LICENSE\nLicense-File: vendor/c/LICENSE",
        "licenses/LICENSE",
        "licenses/vendor/c/LICENSE",
    )
    distribution(tmp_path, "old", "Classifier: License :: OSI Approved :: BSD License", "COPYING", "NOTICE")
    assert main([str(tmp_path), str(tmp_path / "to")]) == 0
    found = written(tmp_path / "to")
    overview = found.pop("README.txt")
    assert found == {
        "new-one/LICENSE": "New_One: licenses/LICENSE",
        "new-one/vendor/c/LICENSE": "New_One: licenses/vendor/c/LICENSE",
        "old/COPYING": "old: COPYING",
        "old/NOTICE": "old: NOTICE",
    }
    assert overview.splitlines()[-2:] == [
        "new-one 1.0: MIT AND ISC (new-one/LICENSE, new-one/vendor/c/LICENSE)",
        "old 1.0: BSD License (old/COPYING, old/NOTICE)",
    ]


@pytest.mark.parametrize(
    ("metadata", "files", "says"),
    [
        ("License: MIT", (), "bad: there is no text of its licence"),
        ("License: MIT", ("AUTHORS",), "bad: there is no text of its licence"),
        ("License-File: LICENSE", ("licenses/COPYING",), "bad: METADATA names LICENSE, which is not there"),
    ],
)
def test_a_distribution_without_its_licence_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    metadata: str,
    files: tuple[str, ...],
    says: str,
) -> None:
    distribution(tmp_path, "good", "License: MIT", "LICENSE")
    distribution(tmp_path, "bad", metadata, *files)
    assert main([str(tmp_path), str(tmp_path / "to")]) == 1
    assert capsys.readouterr().err.startswith(says)
    assert not (tmp_path / "to").exists()


def test_an_environment_without_distributions_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), str(tmp_path / "to")]) == 1
    assert "has no distributions" in capsys.readouterr().err
