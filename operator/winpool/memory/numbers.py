"""The numbers of a node's memory, as people read them.

They are those of the moment when the level, the guard or the signal last changed, so that a text that has
them is written on transitions only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.quantity import rounded
from winpool.objects.pressure import Axis

if TYPE_CHECKING:
    from winpool.objects.pressure import AxisView, NodeView, Reading

_HUNDRED: Final = 100
_MINUTE: Final = 60
_LONG_SECONDS: Final = 3600
"""A trend of three minutes says nothing of what is farther ahead."""


def all_numbers(view: NodeView) -> str:
    """Return sentences with all that is known of both axes."""
    said = [_of_axis(view.axes[axis]) for axis in Axis]
    if view.outside_pods is not None:
        said.append(f"{rounded(int(view.outside_pods))} are committed outside pods.")
    return " ".join(each for each in said if each)


def _of_axis(axis: AxisView) -> str:
    if axis.level is None or axis.reading is None:
        return ""
    numbers = numbers_of(axis.reading)
    if axis.seconds_left is not None and axis.seconds_left < _LONG_SECONDS:
        numbers += f", exhausted in {_time(axis.seconds_left)} at this rate"
    return f"{numbers}, by {axis.source}."


def numbers_of(reading: Reading) -> str:
    """Return the numbers of one axis, as the begin of a sentence."""
    whole = rounded(int(reading.whole))
    if reading.axis is Axis.COMMIT:
        share = _percent(reading.used, reading.whole)
        return f"{rounded(int(reading.used))} of {whole} committed ({share} %)"
    share = _percent(reading.left, reading.whole)
    said = f"{rounded(int(reading.left))} of {whole} RAM available ({share} %)"
    if reading.is_estimate:
        return f"{said}, as the kubelet's numbers estimate it"
    if reading.hard_reads_per_second is not None:
        said += f", {round(reading.hard_reads_per_second)} page reads per second"
    if reading.write_out_per_second is not None:
        said += f", {round(reading.write_out_per_second)} pages written per second"
    return said


def _percent(part: float, whole: float) -> int:
    return round(_HUNDRED * part / whole) if whole else 0


def _time(seconds: float) -> str:
    if seconds < _MINUTE:
        return "less than a minute"
    minutes = round(seconds / _MINUTE)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"
