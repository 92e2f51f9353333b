"""`dkmeans reproduce`: run the paper's experiments and write the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from dkmeans.cli.console import say, stdout
from dkmeans.kernels.threads import default_threads
from dkmeans_paper.effort import FULL, QUICK, choose_effort
from dkmeans_paper.face_section import run_faces
from dkmeans_paper.faces import DataError, Faces
from dkmeans_paper.readings import K
from dkmeans_paper.rendered import rendered_faces
from dkmeans_paper.report import write_report
from dkmeans_paper.sections import Section
from dkmeans_paper.sequences import run_sequences
from dkmeans_paper.study import Study
from dkmeans_paper.synthetic import run_synthetic
from dkmeans_paper.yale import load_yale

MIN_PICTURES_PER_PERSON = 2 * K


def reproduce(
    what: str,
    out: Path,
    *,
    data: Path | None = None,
    queries: int | None = None,
    quick: bool = False,
    people: int | None = None,
    jobs: int | None = None,
    console: Console | None = None,
) -> Path:
    """Run experiments, and write figures, numbers and a report.

    Parameters
    ----------
    what : {"synthetic", "sequences", "faces", "all"}
        Which experiments.
    out : Path
        Output folder. Results of an earlier run with the same inputs and parameters are reused.
    data : Path, optional
        Extended Yale B, see `load_yale`; rendered faces if not given.
    queries : int, optional
        Number of faces to leave out one by one. If not given, all of them, or some for a quick run.
        The cross-validation leaves out as many of its ten folds as hold that many faces.
    quick : bool
        Whether to run a part of the repetitions only, for a complete report in minutes.
    people : int, optional
        Number of people, from the first; all if not given.
    jobs : int, optional
        Number of processes; one per core if not given.
    console : Console, optional
        Where to show progress.

    Returns
    -------
    page : Path
        The report.
    """
    console = console or stdout()
    faces, title = _faces(what, data, people)
    if faces is not None and queries is not None and not 1 <= queries <= len(faces.images):
        raise DataError(f"--queries is {queries}; there are {len(faces.images)} faces.")
    if faces is None:
        effort = QUICK if quick else FULL
    else:
        effort = choose_effort(quick, queries, len(faces.images), len(faces.names))
    if faces is not None and faces.skipped:
        say(console, f"{len(faces.skipped)} files skipped:", soft_wrap=True)
        for line in faces.skipped:
            say(console, f"  {line}", soft_wrap=True)
    sections: dict[str, Section] = {}
    with Study(out, jobs or default_threads(), console) as study:
        if what in ("synthetic", "all"):
            sections["synthetic"] = run_synthetic(study, effort)
            write_report(out, sections)
        if what in ("sequences", "all"):
            sections["sequences"] = run_sequences(study, faces if data else None, title, effort)
            write_report(out, sections)
        if what in ("faces", "all"):
            assert faces is not None
            sections["faces"] = run_faces(study, faces, title, effort)
    page = write_report(out, sections)
    say(console, f"Report: {page}", soft_wrap=True)
    return page


def _faces(what: str, data: Path | None, people: int | None) -> tuple[Faces | None, str]:
    """Load the pictures that the experiments need, and return them with a title."""
    if what == "synthetic" or (what == "sequences" and data is None):
        return None, ""
    if data is None:
        return rendered_faces(people or 40), "Rendered faces"
    faces, title = load_yale(data), "Extended Yale B"
    title += " ({} x {} pixels)".format(*faces.images.shape[1:])
    if people is not None:
        faces = _first_people(faces, people)
    counts = np.bincount(faces.person)
    if len(counts) < 2 or counts.min() < MIN_PICTURES_PER_PERSON:
        raise DataError(
            f"{data} has {len(counts)} people with {counts.min()} pictures or more; expected at "
            f"least 2 people with {MIN_PICTURES_PER_PERSON} each."
        )
    return faces, title


def _first_people(faces: Faces, people: int) -> Faces:
    if not 2 <= people <= len(faces.names):
        raise DataError(f"--people is {people}; the data have {len(faces.names)}, take 2 or more.")
    keep = faces.person < people
    return replace(
        faces,
        images=faces.images[keep],
        person=faces.person[keep],
        azimuth=faces.azimuth[keep],
        elevation=faces.elevation[keep],
        names=faces.names[:people],
    )
