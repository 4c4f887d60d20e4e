"""The docs as a site: Sphinx builds it from ``docs``, and ``docs/conf.py`` is its configuration."""
