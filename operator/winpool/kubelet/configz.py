"""Reading ``/configz`` of a kubelet: whether the kubelet itself evicts pods when memory runs out.

What is not in the answer is unknown. Defaults must not be assumed: to list any hard threshold sets the
others to zero, unless mergeDefaultEvictionSettings is true.
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.quantity import bytes_of
from winpool.kubelet.outcome import Outcome, PollError
from winpool.kubelet.summary import BROKEN

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH: Final = "/configz"
"""Needs the right to get nodes/configz, which kubelets ask for from 1.33 on."""

_SIGNAL: Final = "memory.available"

_PERCENTAGE: Final = re.compile(r"([0-9]{1,3})([.][0-9]{1,9})?%", re.ASCII)


class KubeletEviction(StrEnum):
    """Whether the kubelet has a threshold for memory.available.

    Before 1.31 a kubelet on Windows reads the threshold and never acts on it.
    """

    ARMED = "Armed"
    NOT_ARMED = "NotArmed"
    UNKNOWN = "Unknown"


class _Configuration(msgspec.Struct, rename="camel", gc=False):
    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] | None = None
    merge_default_eviction_settings: bool | None = None


class _Configz(msgspec.Struct, gc=False):
    kubeletconfig: _Configuration


_configz: Final = msgspec.json.Decoder(_Configz)


def parse_configz(body: bytes | bytearray) -> KubeletEviction:
    """Read the answer of a kubelet. Raises PollError (UNREADABLE) for what is no configuration."""
    try:
        told = _configz.decode(body).kubeletconfig
    except BROKEN:
        raise PollError(Outcome.UNREADABLE, "the answer is not the configuration of a kubelet") from None
    hard = _by_hard(told.eviction_hard, merged=told.merge_default_eviction_settings is True)
    if hard is not KubeletEviction.ARMED and _SIGNAL in (told.eviction_soft or {}):
        soft = _by(told.eviction_soft or {})
        return hard if soft is KubeletEviction.NOT_ARMED else soft
    return hard


def _by_hard(thresholds: Mapping[str, str] | None, *, merged: bool) -> KubeletEviction:
    if not thresholds:
        return KubeletEviction.UNKNOWN
    if _SIGNAL not in thresholds:
        return KubeletEviction.UNKNOWN if merged else KubeletEviction.NOT_ARMED
    return _by(thresholds)


def _by(thresholds: Mapping[str, str]) -> KubeletEviction:
    """Judge the threshold: a positive quantity, or a percentage.

    The kubelet ignores 0% and 100% (k8s.io/kubernetes: pkg/kubelet/eviction/helpers.go).
    """
    threshold = thresholds[_SIGNAL]
    percentage = _PERCENTAGE.fullmatch(threshold)
    if percentage is not None:
        percent = float(threshold[:-1])
        if percent > 100:
            return KubeletEviction.UNKNOWN
        return KubeletEviction.ARMED if 0 < percent < 100 else KubeletEviction.NOT_ARMED
    try:
        amount = bytes_of(threshold)
    except ValueError:
        return KubeletEviction.UNKNOWN
    if amount < 0:
        return KubeletEviction.UNKNOWN
    return KubeletEviction.ARMED if amount else KubeletEviction.NOT_ARMED
