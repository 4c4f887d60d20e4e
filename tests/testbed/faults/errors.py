"""What a test that uses the proxy wrongly, or waits in vain, is told."""

from __future__ import annotations

from testbed.errors import TestbedError


class FaultError(TestbedError):
    """The proxy cannot do what is asked, waited in vain, or was given a function that failed."""
