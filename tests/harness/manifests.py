"""The objects of ``deploy`` as their files say, read without kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from harness.documents import ROOT

Object = dict[str, Any]

DEPLOY: Final = ROOT / "deploy"
OVERLAYS: Final = sorted(path.parent for path in DEPLOY.glob("overlays/*/kustomization.yaml"))
COMPONENTS: Final = sorted(path.parent for path in DEPLOY.glob("components/*/kustomization.yaml"))
QUERY_PROXIES: Final = sorted((DEPLOY / "query-proxies").glob("*.yaml"))
"""Manifests of proxies beside the operator, one for each managed Prometheus. Readers copy them."""

CHECKOV: Final = "checkov.io/"
"""Annotations that say why a check of checkov does not apply; patches add some of them."""


def objects_of(folder: Path) -> list[Object]:
    """Return the objects of a kustomization, of its resources and theirs.

    Images are named as kustomize names them. Patches are left out: those of ``deploy/operator`` add
    annotations of checkov and nothing else, which ``cluster/test_deploy.py`` compares with kubectl.
    """
    kustomization = kustomization_of(folder)
    found = [
        document
        for name in kustomization["resources"]
        for document in (
            objects_of(folder / name)
            if (folder / name).is_dir()
            else yaml.load_all((folder / name).read_text(), Loader=yaml.CSafeLoader)
        )
    ]
    for image in kustomization.get("images", ()):
        for container in (each for document in found for each in containers_of(document)):
            if container["image"] == image["name"]:
                digest = f"@{image['digest']}" if "digest" in image else ""
                container["image"] = f"{image['newName']}:{image['newTag']}{digest}"
    return found


def kustomization_of(folder: Path) -> Object:
    """Return what the kustomization.yaml of a folder says."""
    parsed: Object = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return parsed


def shipped_image() -> str:
    """Return the name of the operator's image that the manifests have, without a tag."""
    [image] = kustomization_of(DEPLOY / "operator")["images"]
    return str(image["newName"])


def template_of(workload: Object) -> Object:
    """Return the template of the Pods of a workload."""
    template: Object = workload["spec"]["template"]
    return template


def containers_of(manifest: Object) -> Iterator[Object]:
    """Yield the containers of the Pods that an object makes; none where it makes no Pods."""
    spec = manifest.get("spec", {}).get("template", {}).get("spec", {})
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind, ())


def key_of(manifest: Object) -> tuple[str, str, str, str]:
    """Return what tells an object from all others: apiVersion, kind, namespace and name."""
    metadata = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def without_checkov(manifest: Object) -> Object:
    """Return an object without the annotations of checkov."""
    metadata = dict(manifest["metadata"])
    annotations = metadata.pop("annotations", {})
    kept = {key: value for key, value in annotations.items() if not key.startswith(CHECKOV)}
    return {**manifest, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}
