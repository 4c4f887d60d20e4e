"""Simulated Windows (and a few Linux) nodes on a real API server: see README.md."""
