"""One container on one host: which Windows its image is made for, and whether that runs there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.matrix import Verdict
from winpool.cli.workloads import BUILD_ANNOTATION, Container, Workload
from winpool.support.compat import Isolation, compatible, guess_version
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.cli.hosts import Host


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every pod. ``image_build`` is empty where the pods are to say it themselves."""

    hosts: Mapping[Host, Sequence[str]]
    image_build: str
    isolation: Isolation


def judged(container: Container, workload: Workload, host: Host, question: Question) -> tuple[Verdict, str]:
    """Return whether ``container`` runs on ``host``, and the reasons in sentences."""
    matrix = built_in()
    version, source, guessed = _image(container, workload, question)
    if not version and not container.host_process:
        return Verdict.UNKNOWN, (
            f"the Windows version of {container.image or 'its image'} is unknown. Set the annotation "
            f"{BUILD_ANNOTATION} of the pod, or use --image-build."
        )
    found = compatible(
        host.kernel_version,
        version,
        question.isolation,
        matrix=matrix,
        runtime=host.runtime,
        host_process=container.host_process,
    )
    told = " ".join(reason.text for reason in found.reasons)
    if version and not container.host_process:
        told = f"{told} The image is for {version}, according to {source}."
    if guessed and found.verdict is Verdict.UNSUPPORTED:
        return Verdict.WARNED, f"{told} This is a guess: a tag can be wrong."
    return found.verdict, told


def _image(container: Container, workload: Workload, question: Question) -> tuple[str, str, bool]:
    """Return the Windows that the image is made for, who says so, and whether it is only a guess."""
    if question.image_build:
        return question.image_build, "--image-build", False
    if workload.declared is not None:
        return str(workload.declared.version), workload.declared.where, False
    guess = guess_version(container.image, matrix=built_in())
    return (str(guess), f"its tag ({container.image})", True) if guess else ("", "", False)
