"""Who brings a drained machine to its target. Nothing of it has an effect until the operator drains nodes."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.model import ApiModel
from winpool.api.rules import Rule, Validation

_WIDE_NAME: Final = 512


class ActuatorType(StrEnum):
    """Who acts on a drained node."""

    EXTERNAL = "External"
    JOB = "Job"


class JobActuator(ApiModel):
    """A Job on the node that patches it."""

    pod_template: Annotated[
        str,
        Field(max_length=_WIDE_NAME),
        Rule(
            f"self.size() <= {syntax.MAX_PREFIX_LENGTH} && self.matches('^{syntax.DNS_SUBDOMAIN_PATTERN}$')",
            "must be the name of a PodTemplate: at most 253 lowercase letters, digits, '-' and '.', such as "
            "'windows-patch'",
            syntax.is_object_name,
        ),
    ] = Field(
        description="Name of a core/v1 PodTemplate in the operator's namespace, from which the Job is made. "
        "A string, required."
    )
    timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default_factory=lambda: 7200,
        description="How long the Job may take, reboots included. Seconds, an integer, 7200 if absent.",
    )


class Actuator(ApiModel):
    """Who brings a drained machine to its target."""

    type: ActuatorType = Field(
        description="External: another program, such as a node image upgrade of the cloud. Job: the "
        "operator runs a Job on the node. A string, required."
    )
    job: JobActuator | None = Field(
        default=None, description="Which Job. Required for the type Job, and only there."
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(self.type == 'Job') == has(self.job)",
            "must be given when `type` is Job, and only then",
            lambda self: (self.type is ActuatorType.JOB) == (self.job is not None),
            at=".job",
        ),
    )
