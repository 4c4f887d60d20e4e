"""How many nodes of a pool may be unavailable at a time: a number, or a percentage."""

import re
from typing import Annotated, Final

from winpool.api.quantity import IntOrString
from winpool.api.rules import Rule

MAX_NODES: Final = 5000
"""The largest cluster that Kubernetes is tested with.
https://kubernetes.io/docs/setup/best-practices/cluster-large/"""

_PERCENT_PATTERN: Final = "^([0-9]|[1-9][0-9]|100)%$"
_PERCENT: Final = re.compile(_PERCENT_PATTERN, re.ASCII)
_SENTENCE: Final = f"must be a whole number from 0 to {MAX_NODES} or a percentage from '0%' to '100%'"


def is_budget(value: int | str) -> bool:
    """Whether ``value`` is a number or a percentage of nodes: the twin of the rule in CEL."""
    if isinstance(value, int):
        return 0 <= value <= MAX_NODES
    return _PERCENT.fullmatch(value) is not None


NodeBudget = Annotated[
    int | str,
    IntOrString(_SENTENCE),
    Rule(
        f"type(self) == int ? self >= 0 && self <= {MAX_NODES} : string(self).matches('{_PERCENT_PATTERN}')",
        f"{_SENTENCE}; 0 stops all upgrades",
        is_budget,
    ),
]
"""A number of nodes, or a percentage of the nodes of the pool, which rounds down to one node at least.

0 and 0% are as they are written: none."""
