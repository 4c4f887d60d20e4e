"""Generators of manifests and reference pages. Nothing here is shipped."""
