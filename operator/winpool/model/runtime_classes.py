"""Says what the pod that replaces another has by its RuntimeClass, as that is now.

The API server adds the nodeSelector and the tolerations of the class to a pod when it creates it, and never
again (k8s.io/kubernetes, plugin/pkg/admission/runtimeclass). So a pod that runs has those of the day when it
was created. A drain ends it, and the pod that its controller creates then has those of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.model.pods import PodWork, Toleration
from winpool.support.versions import build_text_of


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """What a RuntimeClass adds to the pods that name it: ``scheduling`` of node.k8s.io/v1."""

    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


RuntimeClasses: TypeAlias = Mapping[str, RuntimeClass | None]
"""All of the cluster, by name. None is one that is too long to be kept: what it adds is not known."""


def replacement_of(work: PodWork, added: RuntimeClass) -> PodWork:
    """Return what the pod that replaces one with ``work`` has, by the class that it names.

    Where both have a label with different values, that of the class counts: a pod that has the other by
    itself would be refused. What the class no longer adds stays, since it looks the same as what the pod has
    by itself.
    """
    shape = work.shape
    labels = [each for each in added.selector if each not in shape.selector]
    tolerations = [each for each in added.tolerations if each not in shape.tolerations]
    if not labels and not tolerations:
        return work  # nearly always: the class is what it was
    changed = dict(labels)
    own = (each for each in shape.selector if each[0] not in changed)
    bound = build_text_of(changed.get(WINDOWS_BUILD_LABEL, ""))
    return replace(
        work,
        shape=replace(
            shape,
            selector=tuple(sorted([*own, *labels])),
            tolerations=(*shape.tolerations, *tolerations),
        ),
        build=bound or work.build,
        is_bound=bool(bound) or work.is_bound,
    )
