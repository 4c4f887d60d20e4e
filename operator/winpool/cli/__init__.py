"""The kubectl plugin: ``kubectl winpool``. Each verb is a module, see ``parsing.Verb``.

What works offline must stay light: only the verbs that ask an API server import ``kube/``.
"""
