"""PURE. What people are told: counts, conditions, issues, the plan of a dry run, and which events.

Everything is computed from a snapshot, so it can only tell what nodes report, never what was
intended (P9).
"""
