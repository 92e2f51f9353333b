"""What the reference leaves out of the docstrings, and what it must escape."""

import re

_TRAILING = re.compile(r"(?<![`\w*])(\w+)_(?=[,)])")


def _skip(app, what, name, member, skip, options):
    """Leave out what scikit-learn and Python document themselves, in forms of their own."""
    function = getattr(member, "fget", member)
    origin = getattr(function, "__module__", None) or ""
    return True if origin.startswith(("sklearn.", "collections.abc")) else None


def _escape(app, what, name, obj, options, lines):
    """Keep names that end in an underscore, as in "(n_clusters_, 2)", from becoming links."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = _TRAILING.sub(r"\1\\_", line)


def setup(app):
    """Connect with Sphinx."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _escape, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
