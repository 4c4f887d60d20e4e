"""Measurements on a real control plane: counts from the audit log, CPU and memory from /proc, ratios.

How each figure is measured, and why the comparison is fair: docs/reference/benches.md.
"""
