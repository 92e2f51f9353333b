"""The command that reproduces the paper's evaluation."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from dkmeans.cli.app import app
from dkmeans_paper.command import reproduce
from dkmeans_paper.effort import FOLDS, FULL, QUICK, Effort, choose_effort
from dkmeans_paper.faces import DataError
from dkmeans_paper.films import lit_films
from dkmeans_paper.processes import Workers
from dkmeans_paper.recognition import Recognition
from dkmeans_paper.rendered import rendered_faces
from dkmeans_paper.report import write_report
from dkmeans_paper.representations import REPRESENTATIONS
from dkmeans_paper.sections import Claim, Section
from dkmeans_paper.study import Study
from dkmeans_paper.yale import load_yale

DATA = Path(os.environ.get("DKMEANS_DATA", "../shared/data"))
SMALL = ("faces", "--people", "2", "--queries", "6", "--quick")
FIGURES = {"faces-lights", "faces-confusion", "faces-ssd", "faces-time"}


def small_run(out):
    quiet = Console(quiet=True)
    reproduce("faces", out, people=2, queries=6, quick=True, jobs=1, console=quiet)
    return json.loads((out / "results.json").read_text())


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    one = {"high-pass": REPRESENTATIONS["high-pass"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dkmeans_paper.face_section.REPRESENTATIONS", one)  # to be quick
        yield out, small_run(out)


def without_times(results):
    numbers = results["sections"]["faces"]["numbers"]
    return {key: value for key, value in numbers.items() if not re.search("time|seconds", key)}


def the_report_stands_alone(whole_run):
    out, results = whole_run
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(FIGURES)
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    for name in FIGURES:
        assert (out / "figures" / f"{name}.png").stat().st_size > 5000
        assert (out / "figures" / f"{name}.svg").read_text().startswith("<?xml")
    section = results["sections"]["faces"]
    assert "6 of the faces" in section["data"]
    assert "Cross-validation: 1 of 10 folds." in section["data"]
    assert len(section["claims"]) == 7
    assert {part["name"] for part in section["parts"] if part["kind"] == "picture"} == FIGURES


def the_numbers_are_those_of_the_pieces(whole_run):
    _, results = whole_run
    numbers = results["sections"]["faces"]["numbers"]
    assert (numbers["faces"], numbers["people"]) == (128, 2)
    assert numbers["left out one by one"] == 6
    assert set(numbers["table"]) == {"high-pass"}
    for found in numbers["table"].values():
        for line in found["readings"]:
            assert 0 <= line["error"] <= 1
            if line["reading"] in ("e1", "e2"):
                assert line["clusters per person"] <= 8
            if line["reading"] == "a":
                assert line["clusters per person"] <= 8
                assert line["slope"] > 1  # k-means is after the sum of squares, we are not


def test_a_whole_run(whole_run, monkeypatch):
    """In one test, so that it is done once, however tests are dealt out."""
    the_report_stands_alone(whole_run)
    the_numbers_are_those_of_the_pieces(whole_run)
    sections_add_up_in_one_folder(whole_run, monkeypatch)


@pytest.mark.faults
def test_stopped_and_taken_up_again(whole_run, tmp_path):
    _, expected = whole_run
    out = tmp_path / "out"
    command = [Path(sys.executable).with_name("dkmeans"), "reproduce", *SMALL]
    process = subprocess.Popen(
        [*command, "--jobs", "2", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches a whole group of processes
        # What runs in the background of a shell ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(list(out.glob("work/*.npz"))) < 25 and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run the same command again to go on" in error
    assert "Traceback" not in error
    assert not (out / "report.html").exists()
    kept = {path: path.stat().st_mtime_ns for path in out.glob("work/*.npz")}
    assert len(kept) >= 25
    assert not list(out.glob("work/.*"))

    results = small_run(out)
    assert without_times(results) == without_times(expected)
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())


def sections_add_up_in_one_folder(whole_run, monkeypatch):
    out, _ = whole_run
    monkeypatch.setattr("dkmeans_paper.command.QUICK", Effort(films=1))
    reproduce("sequences", out, quick=True, jobs=1, console=Console(quiet=True))
    sections = json.loads((out / "results.json").read_text())["sections"]
    assert list(sections) == ["sequences", "faces"]
    numbers = sections["sequences"]["numbers"]["Moving heads"]
    assert numbers["instances"] == 1
    assert 0 < numbers["k-means"] < 1
    for name in ("frames", "components", "distances"):
        assert (out / "figures" / f"sequences-{name}.png").exists()
    assert (out / "report.html").read_text().count("<figure>") == len(FIGURES) + 3


def test_films_of_lights():
    faces = rendered_faces(2, shape=(12, 10))
    films = lit_films(faces, 1, 0)
    assert films.titles == (
        "person 02, low lamps",
        "person 01, low lamps",
        "person 01, high lamps",
    )
    low = faces.elevation[:64] <= 0
    assert [len(frames) for frames in films.frames] == [low.sum(), low.sum(), (~low).sum()]
    order = np.lexsort((faces.elevation[:64][~low], faces.azimuth[:64][~low]))
    np.testing.assert_array_equal(films.frames[2], faces.images[:64][~low][order])


def test_fewer_turns_are_the_first_of_ten(tmp_path):
    faces = rendered_faces(2, shape=(12, 10))
    recognition = Recognition(Study(tmp_path, 1, Console(quiet=True)), faces)
    whole, part = recognition.ten_folds(), recognition.ten_folds(3)
    assert set(whole) == set(range(FOLDS))
    np.testing.assert_array_equal(part, np.where(whole < 3, whole, -1))
    # The nearest other face, one at a time.
    rows = REPRESENTATIONS["raw"](faces.images)
    for fold in (whole, part):
        wrong = []
        for i in np.flatnonzero(fold >= 0):
            others = np.flatnonzero(fold != fold[i])
            nearest = others[((rows[others] - rows[i]) ** 2).sum(axis=1).argmin()]
            wrong.append(faces.person[nearest] != faces.person[i])
        assert recognition.nearest_neighbour_error("raw", fold) == pytest.approx(np.mean(wrong))


def test_few_queries_take_few_folds():
    yale = {"faces": 2414, "people": 38}
    assert choose_effort(False, None, **yale) == FULL
    assert choose_effort(True, None, **yale) == QUICK
    assert choose_effort(True, 2000, **yale) == replace(QUICK, queries=2000)
    for queries, folds, timed in (
        (1, 1, 4),
        (100, 1, 4),
        (242, 2, 8),
        (500, 3, 12),
        (2414, 10, 38),
    ):
        effort = choose_effort(False, queries, **yale)
        assert effort == replace(FULL, queries=queries, folds=folds, timed_people=timed)


def test_the_command_cuts_the_folds(tmp_path, monkeypatch):
    class RanError(Exception):
        """Ends the run, with what was to be run."""

    def stop(study, faces, title, effort):
        raise RanError(effort)

    monkeypatch.setattr("dkmeans_paper.command.run_faces", stop)
    for options, effort in (
        ({"queries": 20}, replace(FULL, queries=20, folds=2, timed_people=1)),
        ({"queries": 20, "quick": True}, replace(QUICK, queries=20)),
        ({}, FULL),
    ):
        with pytest.raises(RanError) as ran:  # 128 faces
            reproduce("faces", tmp_path, people=2, jobs=1, console=Console(quiet=True), **options)
        assert ran.value.args == (effort,)


def double(x, *, times):
    double.calls += 1
    return {"x": x * times}


double.calls = 0


def test_work_is_reused_only_if_everything_is_the_same(tmp_path, monkeypatch):
    study = Study(tmp_path, 1, Console(quiet=True))
    monkeypatch.setattr(double, "calls", 0)

    def compute(x, *times):
        settings = [{"times": t} for t in times]
        results = study.compute("doubling", double, settings, {"x": np.asarray(x)})
        return [r["x"].tolist() for r in results], double.calls

    assert compute([1, 2], 2, 3) == ([[2, 4], [3, 6]], 2)
    assert compute([1, 2], 3, 2) == ([[3, 6], [2, 4]], 2)
    assert compute([1, 2], 2, 4) == ([[2, 4], [4, 8]], 3)  # another parameter
    assert compute([1.0, 2.0], 2) == ([[2.0, 4.0]], 4)  # another input
    monkeypatch.setattr("dkmeans_paper.study._code", lambda: "other code")
    assert compute([1, 2], 2) == ([[2, 4]], 5)


@pytest.mark.parametrize("damage", [b"", b"not a zip", None])
def test_a_damaged_piece_is_done_again(tmp_path, monkeypatch, damage):
    study = Study(tmp_path, 1, Console(quiet=True))
    monkeypatch.setattr(double, "calls", 0)
    inputs = {"x": np.arange(1000)}
    study.compute("doubling", double, [{"times": 2}], inputs)
    (piece,) = (tmp_path / "work").glob("*.npz")
    content = piece.read_bytes()
    piece.write_bytes(content[: len(content) // 2] if damage is None else damage)
    (result,) = study.compute("doubling", double, [{"times": 2}], inputs)
    assert double.calls == 2
    np.testing.assert_array_equal(result["x"], 2 * np.arange(1000))


def who(x, *, number):
    """Say which process does a job, and take a little while."""
    time.sleep(0.01)
    return {"sum": x.sum(keepdims=True) + number, "process": np.array(os.getpid())}


def fail(x, *, number):
    raise ValueError(f"No result of {number}.")


def run_all(workers, job, n_jobs, x):
    todo = [(i, {"number": i}) for i in range(n_jobs)]
    done = dict(workers.run(job, todo, {"x": x}, {"x": str(x.sum())}))
    assert sorted(done) == list(range(n_jobs))
    return [float(done[i]["sum"][0]) for i in done], {int(r["process"]) for r in done.values()}


@pytest.fixture
def started():
    """The processes started since, apart from those that joblib keeps for other tests."""
    before = set(multiprocessing.active_children())
    return lambda: set(multiprocessing.active_children()) - before


def test_short_work_starts_no_processes(started):
    workers = Workers(2)
    _, processes = run_all(workers, who, 5, np.zeros(3))
    assert processes == {os.getpid()}
    assert not started()


def test_processes_are_kept_until_the_end(monkeypatch, started):
    monkeypatch.setattr("dkmeans_paper.processes.START_SECONDS", 0.0)
    x = np.arange(200_000.0)  # large enough to be mapped
    with contextlib.closing(Workers(2)) as workers:
        seen = set()
        for add in (0.0, 1.0):
            processes = set()
            while len(processes - {os.getpid()}) < 2:  # until both have started
                _, more = run_all(workers, who, 60, x + add)
                processes |= more
            seen |= processes
            done = dict(
                workers.run(who, [(i, {"number": i}) for i in range(9)], {"x": x}, {"x": "x"})
            )
            assert [done[i]["sum"][0] for i in range(9)] == [x.sum() + i for i in range(9)]
            assert os.getpid() not in {int(result["process"]) for result in done.values()}
        assert len(seen) == 3
        assert len(started()) == 2
        folder = Path(workers._folder.name)
        assert len(list(folder.iterdir())) == 1  # only the inputs of the last jobs
        with pytest.raises(ValueError, match="No result of") as caught:
            run_all(workers, fail, 4, x)
        assert "in fail" in caught.value.__notes__[0]
        assert not folder.exists()
        assert not started()
        run_all(workers, who, 9, x)  # others are started
    assert not started()


SLEEPERS = """
import multiprocessing, os, sys, time
import numpy as np
from pathlib import Path
from rich.console import Console
from dkmeans_paper import processes
from dkmeans_paper.study import Study

def sleep(*, number):
    if multiprocessing.parent_process() is not None:
        Path(sys.argv[1], f"in-{os.getpid()}").touch()
        time.sleep(60)
    time.sleep(0.05)
    return {"number": np.array(number)}

if __name__ == "__main__":
    processes.START_SECONDS = 0.0
    with Study(Path(sys.argv[1]), 2, Console(quiet=True)) as study:
        study.compute("sleep", sleep, [{"number": i} for i in range(2000)], {})
"""


@pytest.mark.faults
@pytest.mark.parametrize(("files", "count"), [("work/*.npz", 4), ("in-*", 2)])
def test_processes_are_silent_when_they_are_stopped(tmp_path, files, count):
    """While they start, and while they work."""
    script, out = tmp_path / "sleepers.py", tmp_path / "out"
    script.write_text(SLEEPERS)
    process = subprocess.Popen(
        [sys.executable, script, out],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(list(out.glob(files))) < count and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert error.count("Traceback") == 1  # of the script
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert not list(out.glob("work/.*"))


def make_folder(root, people=2, pictures=3):
    rng = np.random.default_rng(0)
    for p in range(1, people + 1):
        folder = root / f"yaleB0{p}"
        folder.mkdir(parents=True)
        for i in range(pictures):
            pixels = rng.integers(0, 256, (192, 168)).astype(np.uint8)
            name = f"yaleB0{p}_P00A{10 * i - 10:+04d}E{5 * i:+03d}"
            Image.fromarray(pixels).save(folder / f"{name}.pgm")
        (folder / f"{name}.pgm.bad").write_bytes(b"")
        (folder / f"yaleB0{p}_P00_Ambient.pgm").write_bytes(b"")
        (folder / "DEADJOE").write_text("stray")
    return root


def test_a_folder_as_distributed(tmp_path):
    faces = load_yale(make_folder(tmp_path))
    assert faces.images.shape == (6, 48, 42)
    assert faces.names == ["yaleB01", "yaleB02"]
    assert faces.azimuth.tolist() == [0, 10, -10] * 2  # by file name
    assert faces.elevation.tolist() == [5, 10, 0] * 2
    reasons = [line.split(": ")[1] for line in faces.skipped]
    assert sorted(set(reasons)) == ["marked bad", "no picture of a lit face", "taken without flash"]
    assert len(reasons) == 6
    path = tmp_path / "yaleB02" / "yaleB02_P00A+000E+05.pgm"
    corner = np.asarray(Image.open(path))[:4, :4].mean()
    assert faces.images[3, 0, 0] == np.rint(corner)


def test_the_real_folder_equals_the_npz_file():
    folder, file = DATA / "CroppedYale-sample", DATA / "yaleb_ext_48x42.npz"
    if not (folder.is_dir() and file.is_file()):
        pytest.skip(f"Extended Yale B is not in {DATA}")
    three, everyone = load_yale(folder), load_yale(file)
    assert three.names == ["yaleB01", "yaleB11", "yaleB39"]
    assert len(three.skipped) == 14
    assert sum("marked bad" in line for line in three.skipped) == 4
    assert everyone.images.shape == (2414, 48, 42)
    for here, there in ((0, 0), (1, 10), (2, 37)):
        mine, theirs = three.person == here, everyone.person == there
        np.testing.assert_array_equal(three.images[mine], everyone.images[theirs])
        np.testing.assert_array_equal(three.azimuth[mine], everyone.azimuth[theirs])


def break_empty(root):
    (root / "somewhere").mkdir()


def break_truncated(root):
    path = next(make_folder(root).glob("yaleB01/*E+00.pgm"))
    path.write_bytes(path.read_bytes()[:5000])


def break_text(root):
    next(make_folder(root).glob("yaleB01/*E+00.pgm")).write_text("P5 hello")


def break_size(root):
    path = next(make_folder(root).glob("yaleB01/*E+00.pgm"))
    Image.fromarray(np.zeros((10, 20), np.uint8)).save(path)


def break_person(root):
    make_folder(root)
    (root / "yaleB03").mkdir()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (break_empty, "no folder of a person.*Expected the CroppedYale folder"),
        (break_truncated, r"E\+00.pgm cannot be read as a picture"),
        (break_text, r"E\+00.pgm cannot be read as a picture"),
        (break_size, "10 x 20 uint8; expected 192 x 168"),
        (break_person, "yaleB03 has no picture of a lit face"),
    ],
)
def test_a_folder_that_is_something_else(tmp_path, damage, says):
    damage(tmp_path)
    with pytest.raises(DataError, match=says):
        load_yale(tmp_path)


IMAGES = np.zeros((4, 6, 5), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": IMAGES}, "has no array 'y'"),
        ({"images": IMAGES.astype(float)}, "images is float64"),
        ({"images": IMAGES[0]}, r"images is uint8 of shape \(6, 5\)"),
        ({"images": IMAGES[:0]}, r"shape \(0, 6, 5\)"),
        ({"images": IMAGES, "azimuth": np.zeros(3, int)}, r"azimuth is int64 of shape \(3,\)"),
    ],
)
def test_an_npz_file_that_is_something_else(tmp_path, arrays, says):
    path = tmp_path / "faces.npz"
    if says != "has no array 'y'":
        zeros = {name: np.zeros(4, int) for name in ("y", "azimuth", "elevation")}
        arrays = zeros | arrays
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=says):
        load_yale(path)


def test_errors_on_the_command_line(tmp_path):
    text = tmp_path / "faces.npz"
    text.write_text("hello")
    for data, says in (
        (text, "cannot be read as an .npz file"),
        (tmp_path / "nowhere", "does not exist. Expected the CroppedYale folder"),
        (make_folder(tmp_path / "few"), "expected at least 2 people with 16 each"),
    ):
        arguments = ["reproduce", "faces", "--data", str(data), "--out", str(tmp_path / "out")]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1
        assert says in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_representations():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 12, 10)).astype(np.uint8)
    images[2] = 0  # a black picture must not become nan
    for name, represent in REPRESENTATIONS.items():
        rows = represent(images)
        assert rows.shape == (3, 120)
        assert np.isfinite(rows).all(), name
    for name in ("unit length", "high-pass", "self-quotient"):
        np.testing.assert_allclose(np.linalg.norm(REPRESENTATIONS[name](images[:2]), axis=1), 1)
    brighter = (images[:1] // 2).astype(np.uint8)
    ranks = REPRESENTATIONS["equalised"](np.unique(brighter).reshape(1, 1, -1))
    np.testing.assert_allclose(np.diff(ranks), 1 / ranks.size)


def test_an_earlier_report_that_is_damaged_is_left_out(tmp_path):
    section = Section("Title", "data", [Claim("paper", "measured", "in part")], [])
    for damage in ('{"sections": null}', '{"sections": {"faces": {}}}', "nonsense"):
        (tmp_path / "results.json").write_text(damage)
        write_report(tmp_path, {"sequences": section})
        assert list(json.loads((tmp_path / "results.json").read_text())["sections"]) == [
            "sequences"
        ]
    assert (tmp_path / "report.html").stat().st_mode & 0o044 == 0o044 & ~os.umask(os.umask(0))


def test_an_out_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("hello")
    result = CliRunner().invoke(app, ["reproduce", "synthetic", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "is not a folder that can be written to" in " ".join(result.output.split())


def test_the_code_that_computes_is_part_of_the_key(tmp_path, monkeypatch):
    from dkmeans_paper import study as module

    library, paper = tmp_path / "library", tmp_path / "paper"
    library.mkdir()
    paper.mkdir()
    monkeypatch.setattr(module, "_PACKAGES", (library, paper))

    def code():
        module._code.cache_clear()
        return module._code()

    (library / "estimator.py").write_text("a = 1")
    (paper / "jobs.py").write_text("a = 1")
    (paper / "report.py").write_text("a = 1")
    before = code()
    (paper / "report.py").write_text("a = 2")
    assert code() == before
    (paper / "jobs.py").write_text("a = 2")
    after = code()
    assert after != before
    (library / "estimator.py").write_text("a = 2")
    assert code() != after
    module._code.cache_clear()
