"""``winpool.dev/v1alpha1``: the WindowsNodePool as users write it and as the operator reports on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import Field, ValidationError

from winpool.api.fields import POOL_NAME_PATTERN, is_pool_name
from winpool.api.model import ApiModel, InvalidSpecError, Rule, Timestamp, Validation, describe
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.status import WindowsNodePoolStatus

_M = TypeVar("_M", bound=ApiModel)

_MAX_NAME: Final = 253
"""The API server's own limit for names of objects; ours is the rule beside it."""


class ObjectMeta(ApiModel):
    """The metadata of a pool that the operator goes by."""

    name: str = Field(max_length=_MAX_NAME)
    """Name of the pool: at most 63 lowercase letters, digits and '-', since it becomes the value of the node
    label winpool.dev/pool. A string, required."""
    uid: str = Field(default_factory=str)
    resource_version: str = Field(default_factory=str)
    generation: int = Field(default_factory=int)
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] = Field(default_factory=tuple)

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Self:
        """Read the metadata of ``obj``, also where its spec cannot be read: such a pool must be released too.

        Raises InvalidSpecError where that is impossible, which no object of an API server is.
        """
        return _read(cls, obj.get("metadata", {}), at="metadata")


class WindowsNodePool(ApiModel):
    """A pool of Windows nodes: which nodes belong to it, what they must have, and their state."""

    metadata: ObjectMeta
    spec: WindowsNodePoolSpec
    """What the nodes of the pool must be. Required."""
    status: WindowsNodePoolStatus = WindowsNodePoolStatus()
    """What the operator last saw. Only the operator writes it."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            f"self.metadata.name.matches('{POOL_NAME_PATTERN}')",
            "must be at most 63 lowercase letters, digits and '-', beginning and ending with a letter or "
            "digit, since it becomes the value of a node label",
            lambda self: is_pool_name(self.metadata.name),
            at=".metadata.name",
        ),
    )

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Self:
        """Read a pool as the API server sends it.

        Raises InvalidSpecError where the spec is one that this operator cannot act on: stored before a rule
        was tightened, or under a CRD that is not ours. A status that cannot be read (of another version, say)
        counts as not yet written: it is ours, and computed anew.
        """
        pool = {"metadata": obj.get("metadata", {}), "spec": obj.get("spec", {})}
        return _read(cls, pool | {"status": read_status(obj)})


def read_status(obj: Mapping[str, Any]) -> WindowsNodePoolStatus:
    """Read the status of ``obj``; one that cannot be read counts as not yet written."""
    return status_and_problem(obj)[0]


def status_and_problem(obj: Mapping[str, Any]) -> tuple[WindowsNodePoolStatus, str]:
    """Read the status of ``obj``; where it cannot be read, return an empty one and say why, for people."""
    try:
        return WindowsNodePoolStatus.model_validate(obj.get("status") or {}), ""
    except ValidationError as error:
        return WindowsNodePoolStatus(), "; ".join(describe(error, at="status"))


def _read(model: type[_M], content: Any, *, at: str = "") -> _M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InvalidSpecError(describe(error, at=at)) from error
