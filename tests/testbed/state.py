"""The state file: which supervisor runs a directory, and where its API server is."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from testbed.components import Ports
from testbed.errors import TestbedError
from testbed.options import Options
from testbed.paths import Layout, write_atomically


class State(BaseModel):
    """Content of ``state.json``. A pid alone is no identity: the kernel gives it out again."""

    model_config = ConfigDict(frozen=True)

    pid: int
    start_time: float
    """Start of the supervisor process in seconds since the epoch, as psutil tells it."""
    created: datetime
    server: str
    ports: Ports
    options: Options

    def write(self, layout: Layout) -> None:
        """Replace the state file."""
        write_atomically(layout.state, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, layout: Layout) -> Self | None:
        """Read the state file; None where there is none.

        Raises:
            TestbedError: the file is not one of ours.

        """
        try:
            return cls.model_validate_json(layout.state.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise TestbedError(
                f"{layout.state} is not the state file of this version of the testbed: "
                f"{error.errors()[0]['msg']}. If no testbed runs there, remove the directory."
            ) from error
