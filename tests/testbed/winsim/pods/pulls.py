"""Images that do not fit a node: what the kubelet says while it tries to pull one in vain.

Pure. The words are those of a kubelet of 1.36 over containerd 2: ``EnsureImageExists`` and ``evalCRIPullErr``
in ``pkg/kubelet/images/image_manager.go`` make reason and message of what containerd answers, which is
``PullImage`` in ``internal/cri/server/images/image_pull.go`` around ``LimitManifests`` in
``core/images/handlers.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from testbed.winsim.pods.objects import Pod

IMAGE_OS_ANNOTATION: Final = "winsim/image-os"
"""On a pod: the one operating system that its images are for. Without it they are for any."""

PULL_FAILED: Final = "ErrImagePull"
BACK_OFF: Final = "ImagePullBackOff"


def fits(pod: Pod, *, family: str) -> bool:
    """Whether the images of a pod have a manifest for a node of this family."""
    return pod.metadata.annotations.get(IMAGE_OS_ANNOTATION, family) == family


def failure(image: str, *, back_off: bool) -> dict[str, str]:
    """Return why a container waits whose image has no manifest for the node."""
    reference = full_reference(image)
    error = (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{reference}": '
        "no match for platform in manifest: not found"
    )
    if not back_off:
        return {"reason": PULL_FAILED, "message": error}
    message = f'Back-off pulling image "{_tagged(image)}": {PULL_FAILED}: {error}'
    return {"reason": BACK_OFF, "message": message}


def full_reference(image: str) -> str:
    """Write out what a short name of an image leaves out: registry, ``library`` and ``latest``."""
    registry, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{_tagged(image)}"
    if "." in registry or ":" in registry or registry == "localhost":
        return _tagged(image)
    return f"docker.io/{_tagged(image)}"


def _tagged(image: str) -> str:
    has_one = "@" in image or ":" in image.rpartition("/")[2]
    return image if has_one else f"{image}:latest"
