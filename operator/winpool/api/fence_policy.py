"""What the policies of the fence have in common: they are about one account, and about all that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from winpool.api.admission import make_policy_spec, named
from winpool.api.keys import OPERATOR_USER

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_fence(
    *,
    resources: Iterable[str],
    api_group: str,
    version: str,
    variables: Iterable[dict[str, str]] = (),
    validations: Iterable[dict[str, str]],
) -> dict[str, Any]:
    """Return the spec of a policy about every write of the operator's account to ``resources``."""
    return make_policy_spec(
        api_group=api_group,
        version=version,
        resources=resources,
        operations=("CREATE", "UPDATE", "DELETE"),
        condition=named("the-operator", f'request.userInfo.?username.orValue("") == "{OPERATOR_USER}"'),
        variables=variables,
        validations=validations,
    )
