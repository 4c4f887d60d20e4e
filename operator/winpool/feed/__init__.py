"""Kopf, which brings every event of every WindowsNodePool, and its supervisor."""
