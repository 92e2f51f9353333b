"""`dkmeans.explore`: the explorer for a model and rows in memory."""

import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session


def explore(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    image_shape: Sequence[int] | None = None,
    journal: str | PathLike[str] | None = None,
    title: str = "dkmeans",
    port: int = 0,
    open_browser: bool = True,
) -> Any:
    """Open a page that shows classes, prototypes and rows, and on which they can be edited.

    In a notebook it returns a widget (anywidget must be installed). Elsewhere it serves the page to
    a browser on this machine until Ctrl-C (starlette and uvicorn must be installed). The model that
    is passed is not changed.

    Parameters
    ----------
    model : DiscriminativeKMeans or Pipeline
        Fitted; a pipeline must end in a `DiscriminativeKMeans`.
    X : array-like, CSR matrix or DataFrame of shape (n_samples, n_features)
        The rows that it was fitted on.
    y : array-like of shape (n_samples,)
        Their class labels.
    sample_weight : array-like of shape (n_samples,), optional
        Their weights, for fits on the page.
    X_test, y_test : optional
        Rows that it was not fitted on, and their labels: a second layer, for honest errors and for
        rejection.
    image_shape : (height, width) or (height, width, 3), optional
        Shape of the image that the features make up, line by line.
    journal : path, optional
        File that keeps the edits. If it exists, they are made again.
    title : str, default="dkmeans"
        Title of the page.
    port : int, default=0
        Port of the server; 0 chooses one that is free. Not used in a notebook.
    open_browser : bool, default=True
        Whether to open the browser. The address is printed in any case.

    Returns
    -------
    explorer : ExplorerWidget or Session
        In a notebook the widget, which has a `session`; elsewhere the session. A session has the
        edited `model`, the corrected labels, `labels()`, and `dropped()`, whether each row was
        dropped.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import dkmeans
    >>> X, y = load_iris(return_X_y=True)
    >>> model = dkmeans.DiscriminativeKMeans(6).fit(X[::2], y[::2])
    >>> session = dkmeans.explore(
    ...     model, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2]
    ... )  # doctest: +SKIP
    >>> session.model.n_clusters_  # doctest: +SKIP
    5
    """
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test belong together: pass both, or neither.")
    held_out = None if X_test is None else Rows(X_test, y_test)
    session = Session(
        model,
        Rows(X, y, sample_weight),
        held_out,
        title=title,
        image_shape=image_shape,
        journal=None if journal is None else Path(journal),
    )
    if _is_notebook():
        return _widget(session)
    try:
        from dkmeans.explorer.launch import serve
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"The explorer needs {error.name}: pip install 'dkmeans[explore]'.", name=error.name
        ) from error
    serve(session, port=port, open_browser=open_browser, announce=_print)
    return session


def _widget(session: Session) -> Any:
    try:
        from dkmeans.explorer.notebook import ExplorerWidget
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"The explorer in notebooks needs {error.name}: pip install 'dkmeans[notebook]'.",
            name=error.name,
        ) from error
    return ExplorerWidget(session)


def _is_notebook() -> bool:
    """Return whether this runs in the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _print(address: str) -> None:
    sys.stdout.write(f"Explorer: {address}\nCtrl-C ends it.\n")
    sys.stdout.flush()
