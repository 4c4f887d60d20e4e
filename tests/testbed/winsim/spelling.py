"""Labels and taints as kubectl spells them."""

from __future__ import annotations

from typing import Final

from testbed.winsim.objects import Taint

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def parse_label(text: str) -> tuple[str, str]:
    """Read ``KEY=VALUE``.

    Raises:
        ValueError: it is not of that form.

    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return key, value


def parse_taint(text: str) -> Taint:
    """Read ``KEY[=VALUE]:EFFECT``.

    Raises:
        ValueError: it is not of that form, or there is no such effect.

    """
    left, _, effect = text.rpartition(":")
    key, _, value = left.partition("=")
    if not key or effect not in _EFFECTS:
        raise ValueError(f"{text!r} is not KEY[=VALUE]:EFFECT with one of the effects {', '.join(_EFFECTS)}")
    return Taint(key, effect, value)
