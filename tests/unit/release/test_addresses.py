"""The addresses of a release are in one file, and every other place has what that file says."""

from __future__ import annotations

import re
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from harness.documents import RELEASE, ROOT
from release.addresses import FILE, Addresses, files
from winpool import __version__

GIVEN: Final = Addresses(
    image="registry.example:5000/team/winpool",
    repository="https://git.example/team/winpool",
    docs="https://docs.example/winpool",
)
RESERVED: Final = re.compile(r"\b(?:registry|repository|docs)\.invalid\b")
"""The hosts of the placeholders of ``deploy/release.env``."""


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", ":!tests", ":!CHANGELOG.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


TEXTS: Final = {
    path: path.read_text() for path in tracked() if path.suffix not in {".png", ".svg", ".gz", ".jsonl"}
}


def test_the_files_that_repeat_an_address_have_those_of_the_one_file() -> None:
    stale = [path for path, content in files(Addresses.read()).items() if path.read_text() != content]
    assert stale == [], "run: make generate"


def test_other_addresses_reach_all_of_those_files() -> None:
    given = files(GIVEN)
    assert [path for path, content in given.items() if RESERVED.search(content)] == []
    for path, content in given.items():
        assert any(address in content for address in asdict(GIVEN).values()), path


def test_a_placeholder_stands_nowhere_once_it_has_been_replaced() -> None:
    """A page that tells of a placeholder has to be written anew for the first release."""
    known = set(RESERVED.findall(FILE.read_text()))
    left = {str(path.relative_to(ROOT)): set(RESERVED.findall(text)) - known for path, text in TEXTS.items()}
    assert {path: found for path, found in left.items() if found} == {}


def test_no_page_is_promised_at_the_name_of_the_api_group() -> None:
    assert [str(path) for path, text in TEXTS.items() if "https://winpool.dev" in text] == []


def test_what_follows_from_the_three_addresses() -> None:
    assert GIVEN.runbooks("1.2.3") == "https://docs.example/winpool/1.2.3/runbooks"
    assert GIVEN.runbooks().endswith(f"/{__version__}/runbooks")
    assert GIVEN.assets("1.2.3") == "https://git.example/team/winpool/releases/download/v1.2.3"
    assert GIVEN.charts == "oci://registry.example:5000/team/charts"


@pytest.mark.parametrize(
    ("image", "placeholders"),
    [("registry.example:5000/winpool", []), ("registry.invalid:5000/winpool", ["IMAGE"])],
)
def test_a_placeholder_is_known_by_its_host(image: str, placeholders: list[str]) -> None:
    assert Addresses(image=image, repository=GIVEN.repository, docs=GIVEN.docs).placeholders == placeholders


def test_a_file_with_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "release.env"
    path.write_text(f"{FILE.read_text()}MIRROR=https://mirror.example\n")
    with pytest.raises(TypeError, match="mirror"):
        Addresses.read(path)


def test_the_page_about_installing_a_release_has_the_addresses_of_this_version() -> None:
    page, addresses = (ROOT / RELEASE).read_text(), Addresses.read()
    assert f"export RELEASE={addresses.assets()}\n" in page
    assert f"helm install winpool {addresses.charts}/winpool --version {__version__} " in page
    workflow = f"{addresses.repository}/.github/workflows/release.yaml@refs/tags/v{__version__}"
    assert f"--certificate-identity {workflow} " in page
    assert f"`{addresses.runbooks()}`" in page
