"""Formulas as MathML, made when the site is built: browsers show it without a script."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError


def _mathml(node, display):
    formula = convert(node.astext(), display=display)
    if "\\" in formula:  # a command that is not known is left as it is
        raise ExtensionError(f"{node.source}: cannot make MathML of {node.astext()!r}")
    return formula


def _inline(writer, node):
    writer.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math-block">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    """Connect with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
