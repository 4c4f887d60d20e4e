"""The alerts of ``deploy/alerts``: rendered here, and tried on Prometheus' own evaluator."""
