"""PURE. The audit: what of a workload does not run on Windows as it is written."""
