"""From what is to be done about a pod to the patch that a kubelet sends, and what the answer tells. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from testbed.winsim.pods import status
from testbed.winsim.pods.pulls import fits
from testbed.winsim.pods.steps import Do, refusal

if TYPE_CHECKING:
    from datetime import datetime

    from testbed.winsim.machines import Machine
    from testbed.winsim.pods.objects import Pod

WITH_ADDRESS: Final = frozenset({Do.RUN, Do.FAIL_PULL, Do.BACK_OFF, Do.FAIL_RUN})
"""What tells of a pod whose network is there."""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = "0"


class _Answer(msgspec.Struct):
    metadata: _Metadata


_ANSWER: Final = msgspec.json.Decoder(_Answer)


def report(do: Do, pod: Pod, *, machine: Machine, pod_ip: str, ready: bool, now: datetime) -> status.Patch:
    """Return the patch of a pod's status.

    Args:
        do: anything but REMOVE and ``WARNINGS``, which are no patches.
        pod: as it stands.
        machine: the one that the pod is on.
        pod_ip: its address, for what is in ``WITH_ADDRESS``.
        ready: whether containers that run are to be Ready.
        now: the time.

    """
    match do:
        case Do.REFUSE:
            reason, message = refusal(pod, family=machine.os.family) or ("", "")
            return status.refused(pod, reason=reason, message=message, now=now)
        case Do.CREATE:
            return status.created(pod, host_ip=machine.address, now=now)
        case Do.FAIL_PULL | Do.BACK_OFF:
            return status.unpulled(
                pod,
                host_ip=machine.address,
                pod_ip=pod_ip,
                fits=fits(pod, family=machine.os.family),
                back_off=do is Do.BACK_OFF,
                now=now,
            )
        case Do.FAIL_RUN:
            return status.unstarted(
                pod, host_ip=machine.address, pod_ip=pod_ip, runtime=machine.os.runtime, now=now
            )
        case Do.RUN:
            return status.running(pod, host_ip=machine.address, pod_ip=pod_ip, ready=ready, now=now)
        case Do.LOSE:
            return status.lost(pod, now=now)
        case Do.STOP | Do.COMPLETE:
            return status.stopped(pod, now=now)
        case _:
            return status.mended(pod, ready=ready, now=now)


def version_of(answer: bytes) -> int:
    """Return the resourceVersion that a PATCH has made."""
    return int(_ANSWER.decode(answer).metadata.resource_version)
