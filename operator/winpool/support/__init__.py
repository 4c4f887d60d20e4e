"""PURE. The support matrix: which Windows runs where, until when, and why.

- ``matrix.yaml``  the facts, one row per line; ``data`` and ``rules`` have their shape, made of ``record``
- ``checks``       what must hold among them
- ``matrix``       the facts, read once and indexed for lookups
- ``versions``     reads the versions that nodes report; ``images`` guesses them from the tag of an image
- ``verdicts``     Supported, Warned, Unknown, Unsupported, and the reasons of each
- ``rows``         rows of admins over the data, in layers; ``rowfile`` the file with those of the cluster
- ``judge``        one node: ``classes``, ``servicing``, ``skew``, ``revisions`` and ``runtimes`` give reasons
- ``compat``       an image on a host; ``hosts`` the rule by builds
- ``features``     which features work on Windows since which minor; ``names`` the usual names of a release
- ``kep116``       what the KEP promises, beside the data
- ``table``        the matrix for people; ``reference`` the page made from it

``matrix`` and ``rowfile`` read YAML through ``text``. The packaged file is the only file that is read.
"""
