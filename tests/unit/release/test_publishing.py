"""What ``make publish`` refuses before anything leaves the machine; ``make test-release`` publishes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import pytest

from release import packing, publish
from release.addresses import Addresses
from release.install import ReleaseError
from release.publish import Release, is_loopback, require_not_replaced, run
from winpool import __version__

DIGEST: Final = f"sha256:{'ab' * 32}"
HERE: Final = {"image": "127.0.0.1:5000/winpool", "index": "http://127.0.0.1:8090/", "key": "cosign.key"}


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A release of one file, and an image that is only named."""
    image = {"digest": DIGEST, "annotations": {"org.opencontainers.image.ref.name": __version__}}
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "index.json").write_text(json.dumps({"manifests": [image]}))
    (tmp_path / "install.yaml").write_text(f"image: winpool@{DIGEST}\n")
    packing.main([str(tmp_path)])
    return tmp_path


@pytest.fixture
def refused(
    dist: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Publish; it has to end with 1 before any program is run, and what it said is returned."""

    def attempt(
        *options: str, image: str = HERE["image"], index: str = HERE["index"], has_key: bool = True
    ) -> str:
        started: list[object] = []
        monkeypatch.setattr(publish, "run", started.append)
        key = ["--key", HERE["key"]] if has_key else []
        assert publish.main([str(dist), "--image", image, "--index", index, *key, *options]) == 1
        assert started == []
        return capsys.readouterr().err

    return attempt


def test_what_is_no_release_is_not_published(refused: Callable[..., str]) -> None:
    said = refused(image="registry.invalid/winpool")
    assert "nothing was published" in said
    assert "IMAGE" in said
    assert "DOCS" in said


@pytest.mark.parametrize(
    "other", [{"image": "registry.example/winpool"}, {"index": "https://upload.pypi.org/legacy/"}]
)
def test_what_is_for_this_machine_stays_on_it(refused: Callable[..., str], other: dict[str, str]) -> None:
    assert "must be of this machine" in refused("--local", **other)


def test_on_this_machine_nobody_is_asked_who_signs(refused: Callable[..., str]) -> None:
    assert "KEY must name a key of cosign" in refused("--local", has_key=False)


def test_a_file_that_has_changed_is_not_published(refused: Callable[..., str], dist: Path) -> None:
    (dist / "install.yaml").write_text("kind: Secret\n")
    assert "install.yaml in" in refused("--local")


def test_a_release_without_an_image_is_not_published(refused: Callable[..., str], dist: Path) -> None:
    (dist / "image" / "index.json").unlink()
    assert "run make image-layout" in refused("--local")


def test_an_image_that_was_built_after_the_release_is_not_published(
    refused: Callable[..., str], dist: Path
) -> None:
    index = dist / "image" / "index.json"
    index.write_text(index.read_text().replace("ab", "cd"))
    assert "run make release again" in refused("--local")


def test_a_folder_without_a_release_is_told_how_to_make_one(refused: Callable[..., str], dist: Path) -> None:
    (dist / packing.SUMS).unlink()
    assert "run make release" in refused("--local")


@pytest.mark.parametrize(
    ("registry", "is_refused"),
    [("printf one", True), ("printf two", False), ("echo manifest unknown; exit 1", False)],
    ids=["another", "the same", "none"],
)
def test_a_version_that_is_published_is_not_replaced_by_another_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str, is_refused: bool
) -> None:
    """As after a second run of the workflow, whose image differs. A program is in the place of skopeo."""
    (tmp_path / "skopeo").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\n{registry}\n')
    (tmp_path / "skopeo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    addresses = dataclasses.replace(Addresses.read(), image=HERE["image"])
    release = Release(directory=tmp_path, addresses=addresses, index="", key="")
    with pytest.raises(ReleaseError, match="is published already") if is_refused else nullcontext():
        require_not_replaced(release, digest=f"sha256:{hashlib.sha256(b'two').hexdigest()}")
    asked = f"inspect --raw --tls-verify=false docker://{HERE['image']}:{__version__}\n"
    assert (tmp_path / "asked").read_text() == asked


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://127.0.0.1:8090/", True),
        ("//[::1]:5000/winpool", True),
        ("//registry.example/winpool", False),
        ("//127.0.0.1.example/winpool", False),
        ("https://192.0.2.1/", False),
    ],
)
def test_a_machine_is_this_one_by_its_number(address: str, found: bool) -> None:
    assert is_loopback(address) is found


def test_only_a_registry_of_this_machine_is_asked_by_http() -> None:
    release = Release(directory=Path(), addresses=Addresses.read(), index="", key="")
    assert not release.plain
    here = dataclasses.replace(release.addresses, image=HERE["image"])
    assert dataclasses.replace(release, addresses=here).plain


def test_a_program_that_fails_is_named_with_what_it_said() -> None:
    with pytest.raises(ReleaseError, match=" -c failed:\nno such key"):
        run([sys.executable, "-c", "import sys; sys.exit('no such key')"])


@pytest.mark.slow
@pytest.mark.parametrize("program", ["raise SystemExit(1)", "import time; time.sleep(60)"])
def test_a_password_in_an_address_is_not_shown(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(publish, "STEP_SECONDS", 1.0)
    with pytest.raises(ReleaseError) as caught:
        run([sys.executable, "-c", program, "--publish-url", "https://me:hidden@index.example/"])
    assert "hidden" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(ReleaseError, match="no-such-program is missing: install the package"):
        run(["no-such-program", "copy"])
