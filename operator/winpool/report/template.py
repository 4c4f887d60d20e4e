"""What a new node of a pool will carry, so that an autoscaler knows it before there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import OS_LABEL, OS_VERSION_LABEL, OS_WINDOWS, POOL_LABEL, WINDOWS_BUILD_LABEL
from winpool.api.v1alpha1 import NodeTemplate, SelectorOperator, TemplateTaint

if TYPE_CHECKING:
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.support.rows import Layered


def node_template(name: str, spec: WindowsNodePoolSpec, *, layers: Layered) -> NodeTemplate:
    """Return labels and taints of a new node of the pool ``name``, as far as the spec tells them.

    A requirement that a label has one value of several leaves the label open. Startup taints are left out:
    they come off again, and an autoscaler that counted them would think that no pod fits.
    https://github.com/kubernetes/autoscaler/issues/2888
    """
    selector = spec.node_selector
    required = {
        each.key: each.values[0]
        for each in selector.match_expressions
        if each.operator is SelectorOperator.IN and len(each.values) == 1
    }
    release = layers.matrix.judged_as(spec.os.version)
    build = layers.build_of(release)
    known = {OS_VERSION_LABEL: release, WINDOWS_BUILD_LABEL: f"10.0.{build}"} if build is not None else {}
    labels = {
        **known,
        **required,
        **selector.match_labels,
        **spec.labels,
        OS_LABEL: OS_WINDOWS,
        POOL_LABEL: name,
    }
    return NodeTemplate(
        labels=dict(sorted(labels.items())),
        taints=tuple(
            TemplateTaint(key=each.key, value=each.value, effect=each.effect) for each in spec.taints
        ),
    )
