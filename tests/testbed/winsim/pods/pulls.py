"""Images: how long pulls take, which fail, what fits the node, and what is said of what does not.

Pure. The words are those of a kubelet of 1.36 over containerd 2: ``EnsureImageExists`` and ``evalCRIPullErr``
in ``pkg/kubelet/images/image_manager.go`` make reason and message of what containerd answers, which is
``PullImage`` in ``internal/cri/server/images/image_pull.go`` around ``LimitManifests`` in
``core/images/handlers.go``. What Windows does not start is in the words of hcsshim
(``internal/hcs/errors.go``), and with Docker as in https://github.com/Azure/acs-engine/issues/2965.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.memory.sizes import parse_size

if TYPE_CHECKING:
    from testbed.winsim.pods.objects import Pod

IMAGE_OS_ANNOTATION: Final = "winsim/image-os"
"""On a pod: the one operating system that its images are for. Without it they are for any."""
IMAGE_BUILD_ANNOTATION: Final = "winsim/image-build"
"""On a pod: the one build of Windows that its images are for, such as 10.0.17763."""
IMAGE_SIZE_ANNOTATION: Final = "winsim/image-size"
"""On a pod: how large its images are together, such as 5Gi. Without it a pull takes no time."""

PULL_FAILED: Final = "ErrImagePull"
BACK_OFF: Final = "ImagePullBackOff"
RUN_FAILED: Final = "RunContainerError"

_BYTES_PER_SECOND: Final = 8 * 1024 * 1024
"""So that 5 GiB take eleven minutes: people report ten to twenty for Windows images
(https://github.com/Azure/AKS/issues/4047)."""
_FIRST_PAUSE_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 300.0
"""``imageBackOffPeriod`` and ``MaxImageBackOff`` in pkg/kubelet/kubelet.go."""


def pull_seconds(pod: Pod) -> float:
    """Return how long it takes to pull the images of a pod."""
    try:
        size = parse_size(pod.metadata.annotations.get(IMAGE_SIZE_ANNOTATION, "0Mi"))
    except ValueError:
        return 0.0
    return size / _BYTES_PER_SECOND


def pause_seconds(failures: int) -> float:
    """Return how long a kubelet waits after so many pulls that failed."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** max(0, failures - 1), _LONGEST_PAUSE_SECONDS)


def fits(pod: Pod, *, family: str) -> bool:
    """Whether the images of a pod have a manifest for a node of this family."""
    return pod.metadata.annotations.get(IMAGE_OS_ANNOTATION, family) == family


def runs_on(pod: Pod, *, build: str) -> bool:
    """Whether Windows of this build starts the images of a pod; Linux has none, and asks nothing."""
    return not build or pod.metadata.annotations.get(IMAGE_BUILD_ANNOTATION, build) == build


def mismatch(identity: str, *, what: str, runtime: str) -> str:
    """Return what a runtime says about what Windows does not start, since its image is for another build.

    With containerd the number of the error (HCS_E_IMAGE_MISMATCH) is not in it. ``what`` is for Docker.
    """
    if runtime.startswith("docker:"):
        return (
            f"failed to start {what}: Error response from daemon: container {identity} encountered an error "
            "during CreateContainer: failure in a Windows system call: The operating system of the container "
            "does not match the operating system of the host. (0xc0370101)"
        )
    return (
        f"failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem {identity}: "
        "The container operating system does not match the host operating system.: unknown"
    )


def failure(image: str, *, fits: bool, back_off: bool) -> dict[str, str]:
    """Return why a container waits: its image has no manifest for the node, or the registry is busy.

    Of what is said about a busy registry, the URL is left out.
    """
    reference = full_reference(image)
    failed = f'failed to pull and unpack image "{reference}"'
    if fits:
        error = (
            f'rpc error: code = Unknown desc = {failed}: failed to resolve reference "{reference}": '
            "503 Service Unavailable"
        )
    else:
        error = f"rpc error: code = NotFound desc = {failed}: no match for platform in manifest: not found"
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
