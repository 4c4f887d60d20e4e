"""The manifests of a release: a file for each kustomization that a person applies, and single parts.

They are what ``kubectl apply -k`` applies, rendered by the kubectl of the testbed, so that an installation
needs no checkout.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import yaml

from alerts.render import FILES as ALERTS
from alerts.render import FOLDER as ALERTS_FOLDER
from testbed.build import ensure_binary
from winpool import __version__
from winpool.api.keys import GUARD_MANIFEST, READER_MANIFEST

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
FILE: Final = "install.yaml"
RIGHTS: Final = "rbac.yaml"
"""The operator's own, without those of a variant."""
FOLDERS: Final = (DEPLOY, *sorted(path.parent for path in DEPLOY.glob("overlays/*/kustomization.yaml")))
COPIED: Final = {
    "crds.yaml": ROOT / "crds" / "windowsnodepools.winpool.dev.yaml",
    **{name: DEPLOY / "operator" / name for name in (GUARD_MANIFEST, READER_MANIFEST, RIGHTS)},
    "win-2022.yaml": DEPLOY / "samples" / "win-2022.yaml",
    **{name: ALERTS_FOLDER / name for name, _ in ALERTS.values()},
}
"""Files that a release has as they are: the CRD alone, parts that a hint names, a first pool, the alerts."""
RENDER_SECONDS: Final = 180.0
"""It takes a second; the rest is for a machine under full load, as for any kubectl of the testbed."""


class ReleaseError(Exception):
    """There is nothing that may be published; the text says what is wrong and what to do."""


def kustomized(folder: Path) -> str:
    """Return what kubectl makes of a kustomization.

    Raises:
        ReleaseError: it cannot be rendered.
        TestbedError: there is no kubectl, and it cannot be built.

    """
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        executable=ensure_binary(),
        capture_output=True,
        text=True,
        timeout=RENDER_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"kubectl kustomize {folder} failed:\n{done.stderr}")
    return done.stdout


def manifests(*, image: str, digest: str) -> dict[str, str]:
    """Return all manifests of a release by their names; raises as ``render`` does."""
    rendered = {file_of(folder): render(folder, image=image, digest=digest) for folder in FOLDERS}
    return {**rendered, **{name: path.read_text() for name, path in COPIED.items()}}


def file_of(folder: Path) -> str:
    """Return the name of the file for a kustomization: ``install-memory.yaml`` for an overlay."""
    return FILE if folder == DEPLOY else f"install-{folder.name}.yaml"


def render(folder: Path = DEPLOY, *, image: str = "", digest: str = "") -> str:
    """Return all of a kustomization, with a line on top that has the version.

    Args:
        folder: ``deploy`` or one of its overlays.
        image: registry and name of the image; empty: as in the kustomization.
        digest: of the image (``sha256:…``); empty: the image is named by its tag alone.

    Raises:
        ReleaseError: it cannot be rendered, or runs an image of another version than the code has.
        TestbedError: there is no kubectl, and it cannot be built.

    """
    rendered = kustomized(folder)
    found = images_of(rendered)
    require_version(found)
    for each in set(found):
        named = f"{image}:{__version__}" if image else each
        pinned = f"{named}@{digest}" if digest else named
        rendered = rendered.replace(f"image: {each}\n", f"image: {pinned}\n")
    return f"# winpool {__version__}: kubectl apply -f {file_of(folder)}\n{rendered}"


def images_of(rendered: str) -> list[str]:
    """Return the images of all Deployments; the overlay for an operator outside of the cluster has none."""
    return [
        container["image"]
        for document in yaml.safe_load_all(rendered)
        if document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
    ]


def require_version(images: list[str]) -> None:
    """Raise ReleaseError if one of the images has another version than the code."""
    wrong = [image for image in images if not image.partition("@")[0].endswith(f":{__version__}")]
    if wrong:
        raise ReleaseError(
            f"the Deployment runs {', '.join(wrong)}, and this is winpool {__version__}: "
            "set newTag in deploy/operator/kustomization.yaml"
        )
