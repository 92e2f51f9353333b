"""Formulas as MathML, made when the site is built: browsers show it without a script."""

from docutils import nodes
from latex2mathml.converter import convert


def _inline(writer, node):
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(writer, node):
    formula = convert(node.astext(), display="block")
    writer.body.append(f'<div class="math-block">{formula}</div>')
    raise nodes.SkipNode


def setup(app):
    """Connect with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
