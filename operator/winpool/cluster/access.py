"""From a refusal to the RBAC rule that is missing.

The operator learns which permissions are missing from the 403s that its requests get. Asking
beforehand (SelfSubjectAccessReview) would cost a POST per permission at every start, and a yes
could be out of date a second later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.cluster.errors import Forbidden

if TYPE_CHECKING:
    from winpool.cluster.errors import ApiError, Permission


def rule_text(permission: Permission, *, name: str = "") -> str:
    """Write the rule that would grant ``permission``, in YAML flow style, ready for a Role.

    With ``name`` it is for the object of that name only.
    """
    names = f' resourceNames: ["{name}"],' if name else ""
    return (
        f'{{apiGroups: ["{permission.group}"], resources: ["{permission.resource}"],'
        f'{names} verbs: ["{permission.verb}"]}}'
    )


def explain(error: Forbidden, *, name: str = "") -> str:
    """Say what is not permitted and which rule to add where: the text of MissingPermission.

    ``name`` restricts the rule to one object, where all others would be too much.

    For a refusal that is not from RBAC (such as one of an admission policy), it is the server's own sentence.
    """
    permission = error.permission
    if permission is None:
        return error.message
    if permission.namespace is None:
        place, role = "in the whole cluster", "a ClusterRole"
    else:
        place, role = f"in namespace {permission.namespace}", f"a Role in namespace {permission.namespace}"
    resource = permission.resource + (f".{permission.group}" if permission.group else "")
    return (
        f"{permission.user} may not {permission.verb} {resource} {place}."
        f" Add the rule {rule_text(permission, name=name)} to {role} that is bound to it."
    )


def explained(error: ApiError, *, name: str = "") -> ApiError:
    """Return a refusal in the words of ``explain``, and any other error as it is."""
    if not isinstance(error, Forbidden):
        return error
    told = Forbidden(
        explain(error, name=name), status=error.status, reason=error.reason, retry_after=error.retry_after
    )
    told.permission = error.permission
    return told
