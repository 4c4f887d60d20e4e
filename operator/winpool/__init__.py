"""winpool: the Kubernetes operator for the lifecycle of Windows node pools."""

from typing import Final

__version__: Final = "0.1.0"
