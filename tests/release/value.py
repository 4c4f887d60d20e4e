"""What is known of a value of the chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of the chart."""

    path: str
    """Where it is in ``values.yaml``, such as ``image.tag``."""
    default: Any
    schema: Mapping[str, Any]
    """What it may be, as JSON Schema (draft 7), without its description."""
    text: str
    """What it means, for all who read ``values.yaml``, its schema or its page."""
