"""How Sphinx builds the site from this folder: `make docs`. Nothing is fetched from elsewhere."""

import sys
import tomllib
from pathlib import Path

import dkmeans

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

_pyproject = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
_urls = _pyproject["project"]["urls"]

project = "dkmeans"
author = "The dkmeans developers"
copyright = author
version = release = dkmeans.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "contents",
    "mathml",
    "reference",
]
exclude_patterns = [
    "_build",
    "_ext",
    "gallery/*.ipynb",
    "gallery/*.py",
    "gallery/*.md5",
    "notebooks",
]
templates_path = ["_templates"]
html_math_renderer = "mathml"
highlight_language = "none"
nitpicky = True
smartquotes = False  # "size" is to be copied as it is

# Pages are Markdown that code hosts show as well.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# The reference is made of the docstrings.
autosummary_generate = True
default_role = "literal"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Every example is run, and an error in one is an error of the whole.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "backreferences_dir": "gallery/using",
    "doc_module": ("dkmeans",),
    "capture_repr": ("__repr__",),
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "log_level": {"backreference_missing": "info"},
    "min_reported_time": 1e9,  # how long they took here says little
    "image_srcset": ["2x"],
}
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output are not copied

html_theme = "pydata_sphinx_theme"
html_title = f"dkmeans {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["whole-contents"]}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": f"dkmeans {release}"},
    "navbar_center": [],
    "icon_links": [
        {"name": "Source code", "url": _urls["Source"], "icon": "fa-solid fa-code-branch"},
    ],
    "navbar_align": "left",
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "primary_sidebar_end": [],
}
