"""A release, from ``make release`` to a cluster that knows nothing of this repository, and off it again.

Everything is pushed to servers of this machine and signed with a key. What this does not show is in
``docs/release.md``: signatures without a key, other architectures, and provenance.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from builder import ROOT
from harness.documents import RELEASE, outside_make, sections_of
from harness.manifests import shipped_image
from harness.nodes import carried
from image.building import Image, Storage
from image.conftest import Measured
from image.kubelet import HOSTS, Kubelet
from image.registries import files, index, registry
from image.test_readme import HEARTBEATS
from release.install import images_of
from release.layout import digest_of
from testbed.cluster import Testbed
from testbed.cosign import ensure_cosign
from testbed.helm import ensure_helm
from winpool import __version__
from winpool.api.keys import CRD_NAME, POOL_LABEL

NODES: Final = 3
COMMAND_SECONDS: Final = 600.0
"""Guard for one command: ``make release`` takes a minute, and some more where it installs what it needs."""
MOST_SECONDS: Final = 600.0
"""From a cluster that runs to one that winpool was installed on and removed from, as the README promises."""

IN_ORDER: Final = ("Install it", "Get the plugin", "Create a first pool", "Remove it")
PAGE: Final = (ROOT / RELEASE).read_text()
ON_THE_PATH: Final = 'export PATH="$HOME/kubectl-winpool:$PATH"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A release, where it was written to and pushed to."""

    directory: Path
    registry: str
    index: str
    public: Path
    """The key that verifies it."""

    @property
    def image(self) -> str:
        """The image by its digest, in the registry of this machine."""
        return f"{self.registry}/winpool@{digest_of(self.directory / 'image', __version__)}"


def run(
    *command: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return what came of a command, whatever its exit code."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**outside_make(os.environ), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


def ran(*command: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> str:
    """Return what a command printed that has to work."""
    done = run(*command, folder=folder, environment=environment)
    assert done.returncode == 0, f"$ {' '.join(command)}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def published(
    storage: Storage, image: Image, tmp_path_factory: pytest.TempPathFactory, measured: Measured
) -> Iterator[Published]:
    """A release of this tree, pushed to servers of this machine and signed with a key."""
    folder = tmp_path_factory.mktemp("release")
    directory = folder / "dist"
    storage.write_layout(image.name, directory / "image", version=__version__)
    keys = {"COSIGN_PASSWORD": "of a test"}
    ran(str(ensure_cosign()), "generate-key-pair", folder=folder, environment=keys)
    began = time.monotonic()
    said = ran("make", "--no-print-directory", "release", "LOCAL=1", f"DIST={directory}")
    measured(f"make release: {time.monotonic() - began:.1f} s")
    assert "no image is pinned" not in said
    with registry(folder) as oci, index(folder) as packages:
        began = time.monotonic()
        ran(
            *("make", "--no-print-directory", "publish", "LOCAL=1", f"DIST={directory}"),
            *(f"IMAGE={oci}/winpool", f"INDEX={packages}", f"KEY={folder / 'cosign.key'}"),
            environment={**keys, "UV_PUBLISH_USERNAME": "anyone", "UV_PUBLISH_PASSWORD": "open"},
        )
        measured(f"make publish: {time.monotonic() - began:.1f} s")
        yield Published(directory=directory, registry=oci, index=packages, public=folder / "cosign.pub")


def verified(published: Published, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what cosign says of a signature. No transparency log was asked, so none can be."""
    return run(
        *(str(ensure_cosign()), words[0], f"--key={published.public}", "--insecure-ignore-tlog=true"),
        *words[1:],
        folder=published.directory,
    )


def test_the_checksums_are_signed_and_a_changed_byte_is_noticed(published: Published, tmp_path: Path) -> None:
    shutil.copytree(published.directory, tmp_path / "dist", ignore=shutil.ignore_patterns("image"))
    copy = Published(directory=tmp_path / "dist", registry="", index="", public=published.public)
    sums = copy.directory / "SHA256SUMS"
    signed = ("verify-blob", f"--bundle={sums.name}.sigstore.json", sums.name)
    check = ("sha256sum", "--check", "--quiet", sums.name)
    assert verified(copy, *signed).returncode == 0
    ran(*check, folder=copy.directory)

    changed = copy.directory / "install.yaml"
    changed.write_bytes(changed.read_bytes().replace(b"replicas: 2", b"replicas: 3"))
    assert "install.yaml: FAILED" in run(*check, folder=copy.directory).stdout
    refused = run(
        *("make", "--no-print-directory", "publish", "LOCAL=1", f"DIST={copy.directory}"),
        *(f"IMAGE={published.registry}/winpool", f"INDEX={published.index}"),
        f"KEY={published.public.with_suffix('.key')}",
    )
    assert refused.returncode != 0
    assert "install.yaml in" in refused.stdout

    digest = hashlib.sha256(changed.read_bytes()).hexdigest()
    text = re.sub(r"(?m)^[0-9a-f]+(?=  install\.yaml$)", digest, sums.read_text())
    assert text != sums.read_text()
    sums.write_text(text)
    ran(*check, folder=copy.directory)
    assert verified(copy, *signed).returncode != 0


def test_image_and_chart_are_signed_by_their_digests(published: Published) -> None:
    digest = published.image.rpartition("@")[2]
    said = verified(published, "verify", published.image)
    assert said.returncode == 0, said.stdout
    assert digest in said.stdout
    pulled = ran(
        *(str(ensure_helm()), "pull", "--plain-http", f"oci://{published.registry}/charts/winpool"),
        *("--version", __version__, "--destination", str(published.public.parent)),
    )
    chart = f"winpool-{__version__}.tgz"
    assert (published.public.parent / chart).read_bytes() == (published.directory / chart).read_bytes()
    [of_chart] = re.findall(r"^Digest: (\S+)$", pulled, re.MULTILINE)
    said = verified(published, "verify", f"{published.registry}/charts/winpool@{of_chart}")
    assert said.returncode == 0, said.stdout


def test_an_image_that_nobody_has_signed_is_not_verified(published: Published) -> None:
    """The one of this architecture alone: signed is the list that has it."""
    layout = published.directory / "image-single"
    other = f"{published.registry}/winpool@{digest_of(layout, __version__)}"
    assert other != published.image
    ran(
        *("skopeo", "copy", "--preserve-digests", "--dest-tls-verify=false"),
        *(f"oci:{layout}:{__version__}", f"docker://{published.registry}/winpool:single"),
    )
    assert "no signatures found" in verified(published, "verify", other).stdout


def test_the_index_has_the_wheel_of_the_release(published: Published, tmp_path: Path) -> None:
    ran(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path)),
        *("--index-url", f"{published.index}simple/", f"winpool=={__version__}"),
        environment={"PIP_EXTRA_INDEX_URL": ""},
    )
    [wheel] = tmp_path.iterdir()
    assert wheel.read_bytes() == (published.directory / wheel.name).read_bytes()


def test_every_file_that_the_page_names_is_there(published: Published) -> None:
    table = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {
        name for line in table for name in re.findall(r"`([^`]+\.[^`]+|SHA256SUMS)`", line.split("|")[1])
    }
    assert len(named) > 10
    assert {name for name in named if not (published.directory / name).is_file()} == set()


def test_every_installation_and_the_chart_run_the_image_by_its_digest(published: Published) -> None:
    wanted = f"{shipped_image()}:{__version__}@{published.image.rpartition('@')[2]}"
    found = {path.name: images_of(path.read_text()) for path in published.directory.glob("install*.yaml")}
    assert found.pop("install-outside-the-cluster.yaml") == []
    assert len(found) > 5
    assert {name: images for name, images in found.items() if images != [wanted]} == {}
    rendered = ran(
        *(str(ensure_helm()), "template", "winpool", str(published.directory / f"winpool-{__version__}.tgz")),
        *("--namespace", "winpool-system"),
    )
    images = {
        container["image"]
        for each in yaml.safe_load_all(rendered)
        if each and each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {wanted}


def test_who_has_only_the_release_installs_it_uses_it_and_removes_it(
    published: Published, tmp_path: Path, measured: Measured
) -> None:
    sections = sections_of(PAGE)
    assert ON_THE_PATH in PAGE
    with (
        Testbed.up(directory=tmp_path / "testbed", windows=NODES, options=HEARTBEATS) as testbed,
        files(published.directory, tmp_path / "files.log") as address,
        Storage(tmp_path / "hosts-storage") as hosts,
    ):
        testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
        person = a_person(testbed, tmp_path / "person", release=address)
        before = windows(testbed)
        began = time.monotonic()
        pulled = hosts.pull(published.image)
        measured(f"release, the image pulled: {pulled.build_seconds:.1f} s")
        [named] = images_of((published.directory / "install.yaml").read_text())
        with Kubelet(testbed, images={named: pulled}, directory=tmp_path / "hosts") as kubelet:
            for section in IN_ORDER[:-1]:
                type_all(sections[section], person, measured, kubelet)
            carrying = testbed.api().get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]
            assert len(carrying) == NODES
            assert len(kubelet.pods) == 2
            type_all(sections[IN_ORDER[-1]], person, measured, kubelet)
            seconds = time.monotonic() - began
            assert kubelet.faults == []
            assert list(kubelet.ended.values()) == [0, 0]
        plugin = Path(person["HOME"], ".cache", "winpool", "plugin")
        assert not plugin.exists(), "the page removes it"
        measured(f"release, from a cluster that runs until winpool is removed again: {seconds:.1f} s")
        assert windows(testbed) == before
        left = testbed.kubectl("get", "crd,clusterroles,clusterrolebindings,namespaces", "-o", "name").stdout
        assert CRD_NAME not in left
        assert "winpool" not in left
    assert seconds < MOST_SECONDS


def a_person(testbed: Testbed, home: Path, *, release: str) -> dict[str, str]:
    """Return the environment of someone who has kubectl and the usual programs, and no checkout."""
    home.mkdir()
    programs = home / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(testbed.kubectl_path)
    path = os.pathsep.join((f"{home}/kubectl-winpool", str(programs), "/usr/bin", "/bin"))
    return {
        "HOME": str(home),
        "KUBECONFIG": str(testbed.kubeconfig("admin")),
        "PATH": path,
        "RELEASE": release,
    }


def type_all(
    commands: Sequence[str], person: Mapping[str, str], measured: Measured, kubelet: Kubelet
) -> None:
    """Type commands as a person who is nowhere near this repository; each has to work."""
    assert commands
    for command in commands:
        began = time.monotonic()
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-ec", command],
            cwd=person["HOME"],
            env=dict(person),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        measured(f"release, {time.monotonic() - began:5.1f} s: {command}")
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{kubelet.faults}"


def windows(testbed: Testbed) -> dict[str, Any]:
    """Return what the Windows nodes carry."""
    items = testbed.api().get("/api/v1/nodes")["items"]
    return {
        each["metadata"]["name"]: carried(each) for each in items if each["metadata"]["name"] not in HOSTS
    }
