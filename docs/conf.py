"""The documentation site: ``make docs`` builds it, without a network, and warnings are errors."""

import logging
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

from smallcal import __version__  # noqa: E402 - an installed package, after the path of ours

project = "smallcal"
author = "The smallcal developers"
copyright = "the smallcal developers, Apache-2.0"
version = release = __version__

#: Where links to files outside of docs lead.
repository_url = "https://github.com/smallcal/smallcal"
repository_root = str(ROOT)

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "api_members",
    "cli_reference",
    "mathml",
    "repository_links",
]
templates_path = ["_templates"]
exclude_patterns = ["_ext", "_static", "_templates", "gallery/**.ipynb", "gallery/**.py"]
nitpicky = True
smartquotes = False  # "--option" in a sentence stays as it is typed
toc_object_entries_show_parents = "hide"

# --- Markdown and notebooks ---------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "html_image"]
myst_dmath_allow_digits = False  # "$5 and $10" are prices
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 180
# A pattern in a list of pages stands for pages that may be there; Sphinx has no setting for it.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", None) != "empty_glob"
)

# --- the API from docstrings --------------------------------------------------------------------
autosummary_generate = True
autosummary_filename_map = {
    "smallcal_lab.vision.CORRUPTIONS": "smallcal_lab.vision.CORRUPTIONS-table"
}
autodoc_typehints = "none"  # numpydoc's sections say the types, in words
autodoc_member_order = "bysource"
# Heavy packages that no page runs: their classes are described where they are not installed, too.
autodoc_mock_imports = [
    name for name in ("torch", "timm", "torchvision") if find_spec(name) is None
]
numpydoc_show_class_members = False
html_math_renderer = "mathml"

# --- examples: examples/*.py become docs/gallery ------------------------------------------------
if any((ROOT / "examples").rglob("*.py")):
    from sphinx_gallery.sorting import ExplicitOrder

    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "../examples",
        "gallery_dirs": "gallery",
        "subsection_order": ExplicitOrder(
            [*(f"../examples/{part}" for part in ("start", "measure", "decide", "deploy")), "*"]
        ),
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "download_all_examples": False,
        "show_memory": False,
        "write_computation_times": False,  # its pages load scripts from elsewhere
        "show_signature": False,
        "remove_config_comments": True,
        "backreferences_dir": None,
        "parallel": 2,
    }

# --- looks --------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "smallcal"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["smallcal.css"]
# Pages that stand alone have no list of neighbours.
html_sidebars = {page: [] for page in ("comparison", "glossary", "faq", "changelog", "cite")}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "icon_links": [
        {"name": "Source", "url": repository_url, "icon": "fa-brands fa-github"},
    ],
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
