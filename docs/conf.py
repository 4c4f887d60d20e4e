"""The site of these pages: ``make docs`` builds it, and each warning fails the build."""

import os
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

from pages.links import Repository
from pages.navigation import pages_below
from release.addresses import Addresses

ROOT = Path(__file__).parents[1]
ADDRESSES = Addresses.read()

project = "winpool"
version = release = os.environ["WINPOOL_DOCS_VERSION"]
author = project_copyright = "The maintainers of winpool"
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["README.md"]  # it is in index.md
templates_path = ["_templates"]
language = "en"
# The anchors of the Git host, for headings of every level.
myst_heading_anchors = 6
# Blocks that begin with a word that is no language are plain text.
highlight_language = "none"

html_theme = "pydata_sphinx_theme"
html_title = f"winpool {version}"
html_baseurl = f"{ADDRESSES.docs}/{version}/"
html_static_path = ["_static"]
html_css_files = ["winpool.css"]
html_sidebars = {"**": ["navigation.html"]}
html_copy_source = False
html_theme_options = {
    "logo": {"text": "winpool"},
    "navbar_start": ["navbar-logo", "version-switcher"],
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "show_version_warning_banner": True,
    "switcher": {"json_url": f"{ADDRESSES.docs}/versions.json", "version_match": version},
    "check_switcher": False,  # it would be asked for at each build
}

# Asked by make docs-links only. What is ours is there once this version is published.
linkcheck_ignore = [rf"{address}(/|$)" for address in (ADDRESSES.repository, ADDRESSES.docs)]
linkcheck_timeout = 30  # seconds; some vendors' sites take ten
linkcheck_anchors_ignore_for_url = [r"https://github\.com/"]  # scripts of the page make them

repository = Repository(root=ROOT, files=f"{ADDRESSES.repository}/blob/v{version}")


def read(_app: Sphinx, docname: str, text: list[str]) -> None:
    """Set the links of a page, and have it list the pages below it."""
    text[0] = repository.linked(text[0], source=PurePosixPath("docs", f"{docname}.md"))
    if below := pages_below(ROOT / "docs", docname):
        text[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n{below}\n```\n"


def included(_app: Sphinx, path: Path, _parent: str, text: list[str]) -> None:
    """Set the links of a file that is included as a page."""
    source = os.path.normpath(Path("docs", path))
    text[0] = repository.linked(text[0], source=PurePosixPath(source))


def setup(app: Sphinx) -> None:
    """Set what Sphinx calls for each page: the name of this function is Sphinx's."""
    app.connect("source-read", read)
    app.connect("include-read", included)
