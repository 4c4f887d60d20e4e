"""What the status keeps of the control plane, so that a restart of the operator restarts no clock."""

from typing import Annotated

from pydantic import Field

from winpool.api.model import ApiModel, Clipped, Timestamp


class ControlPlaneSeen(ApiModel):
    """The version of the API server, and since when it is that one.

    The gate ControlPlane counts from ``since``. The operator that runs may only make it later.
    """

    version: Annotated[str, Clipped(128)] = Field(
        description="The version that the API server reports, such as v1.36.3. A string, required."
    )
    since: Timestamp = Field(
        description="When the operator first saw this version without a change since. An RFC 3339 time, "
        "required."
    )
