"""The part of the fence about requests that change no field: evictions, and tokens of other accounts.

RBAC gives these rights with ``deploy/overlays/memory`` only. Without them the policies are never asked: they
are in every installation all the same, so that no right can be there without its fence.

An eviction is a request about a pod that an expression cannot read. So what is protected here is what the
request itself says: the namespace, and how the pod is to end.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.api.admission import make_binding_spec, validation
from winpool.api.fence_policy import make_fence
from winpool.api.keys import NAMESPACE, READER_ACCOUNT, SYSTEM_NAMESPACE_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator

EVICTION_FENCE: Final = "winpool-fence-evictions"
"""Name of the policy about evictions, and of its binding."""
TOKEN_FENCE: Final = "winpool-fence-tokens"  # noqa: S105 - a name
"""Name of the policy about tokens, and of its binding."""

TOKEN_SECONDS: Final = 600
"""How long a token may live at most: as long as one is asked for (``cluster/reader_token.py``)."""
_DEFAULT_SECONDS: Final = 3600
"""How long the API server has one live whose request does not say it."""


def request_policies() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, spec of the policy and spec of its binding, as the API server gives them back."""
    yield EVICTION_FENCE, eviction_policy(), make_binding_spec(EVICTION_FENCE)
    yield TOKEN_FENCE, token_policy(), make_binding_spec(TOKEN_FENCE)


def eviction_policy() -> dict[str, Any]:
    """Return the policy that says which evictions the operator may ask for."""
    options = "dyn(object).?deleteOptions"
    return make_fence(
        resources=("pods/eviction",),
        api_group="",
        version="v1",
        validations=(
            validation(
                f"{options}.?preconditions.?uid.orValue('') != ''",
                message="an eviction of the operator names the UID of the pod",
            ),
            validation(
                f"!{options}.?gracePeriodSeconds.hasValue()",
                message="an eviction of the operator leaves the pod its own grace period",
            ),
            validation(
                f"!request.namespace.matches('^({'|'.join(SYSTEM_NAMESPACE_PREFIXES)})')"
                f" && request.namespace != '{NAMESPACE}'",
                message=f"the operator evicts no pod of {NAMESPACE}, and none of a namespace that begins"
                f" with {' or '.join(SYSTEM_NAMESPACE_PREFIXES)}",
            ),
        ),
    )


def token_policy() -> dict[str, Any]:
    """Return the policy that says which tokens the operator may ask for."""
    return make_fence(
        resources=("serviceaccounts/token",),
        api_group="",
        version="v1",
        validations=(
            validation(
                f"request.namespace == '{NAMESPACE}' && request.name == '{READER_ACCOUNT}'",
                message=f"the operator gets tokens of the ServiceAccount {NAMESPACE}/{READER_ACCOUNT} only",
            ),
            validation(
                f"dyn(object).?spec.?expirationSeconds.orValue({_DEFAULT_SECONDS}) <= {TOKEN_SECONDS}",
                message=f"a token that the operator gets lives at most {TOKEN_SECONDS} seconds",
            ),
        ),
    )
