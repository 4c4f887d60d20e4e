"""The kubectl plugin: ``kubectl winpool``. Each verb is a module with ``add_to``.

What works offline must stay light: only the verbs that ask an API server import ``cluster/``.
"""
