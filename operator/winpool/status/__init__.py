"""PURE. What people are told: counts, conditions, issues, the plan of a dry run, and which events."""
