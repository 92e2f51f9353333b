"""Face-like pictures made by the computer, for those without Extended Yale B."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates

from dkmeans_paper.faces import Faces
from dkmeans_paper.heads import FINE, Floats, Grid, Head, draw_head, shade

# Azimuth and elevation of the lights of Extended Yale B in degrees; those aside come in pairs.
MIDDLE = ((0, -35), (0, -20), (0, 0), (0, 20), (0, 45), (0, 90))
ASIDE = (
    *((5, -10), (5, 10), (10, -20), (10, 0), (15, 20), (20, -40), (20, -10), (20, 10), (25, 0)),
    *((35, -20), (35, 15), (35, 40), (35, 65), (50, -40), (50, 0), (60, -20), (60, 20)),
    *((70, -35), (70, 0), (70, 45), (85, -20), (85, 20), (95, 0)),
    *((110, -20), (110, 15), (110, 40), (110, 65), (120, 0), (130, 20)),
)
LIGHTS = sorted([*MIDDLE, *ASIDE, *((-azimuth, elevation) for azimuth, elevation in ASIDE)])
FILM_LIGHTS = ((10, 15), (25, 10), (5, 20))

MARGIN = 4  # pixels drawn around a picture, so that it can be moved
MISPLACED = 0.45  # how badly pictures are aligned, in pixels
GAIN = 250.0


@dataclass(frozen=True)
class Sequences:
    """Films of moving heads.

    Attributes
    ----------
    frames : ndarray of shape (3, n_frames, height, width)
        Grey levels, 0 to 255.
    person : tuple of int
        Who is in each film.
    titles : tuple of str
        What each film shows.
    """

    frames: npt.NDArray[np.uint8]
    person: tuple[int, int, int]
    titles: tuple[str, str, str]


def rendered_faces(
    n_people: int = 40, *, shape: tuple[int, int] = (48, 42), seed: int = 0
) -> Faces:
    """Draw people and light each from the 64 directions of Extended Yale B.

    People differ in the size, place and shade of all parts of the face. Noses and brows cast
    shadows, and lamps behind the head leave little light. Pictures are out of place by
    fractions of a pixel, the flash varies, and the camera has noise and 256 grey levels.

    Parameters
    ----------
    n_people : int
        How many people. Each is the same however many there are.
    shape : tuple of int
        Height and width of a picture in pixels.
    seed : int
        Other seeds give other people.

    Returns
    -------
    faces : Faces
        One person after the other, lights in the order of azimuth and then elevation.
    """
    grid = Grid.around(shape, MARGIN)
    azimuth, elevation = np.array(LIGHTS).T
    lamps = towards(azimuth, elevation)
    cameras = np.tile([0.0, 0.0, 1.0], (len(lamps), 1))
    images = np.empty((n_people, len(lamps), *shape), np.uint8)
    for i in range(n_people):
        rng = np.random.default_rng([seed, i])
        light = shade(draw_head(rng, grid), lamps, cameras)
        images[i] = sensor(rng, snapshots(rng, light, shape))
    return Faces(
        images.reshape(-1, *shape),
        np.repeat(np.arange(n_people, dtype=np.intp), len(lamps)),
        np.tile(azimuth, n_people),
        np.tile(elevation, n_people),
        [f"person {i + 1:02d}" for i in range(n_people)],
    )


def motion_sequences(
    *, n_frames: int = 100, shape: tuple[int, int] = (48, 42), seed: int = 0
) -> Sequences:
    """Film two people who move their heads, the second one twice.

    In a film the head turns to the sides by up to 28 degrees, nods by 18, leans by 10, moves by
    a tenth of half the width of the picture and changes its size by 6 %, all smoothly and at
    random, and there is noise. The lamp stays where it is in a film. It and the movement are
    others when the second person is filmed again: a lamp at azimuth 25 and elevation 10
    degrees, then at 5 and 20. The camera sets its exposure once per film.

    Parameters
    ----------
    n_frames : int
        Frames of each film.
    shape : tuple of int
        Height and width of a frame in pixels.
    seed : int
        Other seeds give other people and movements.

    Returns
    -------
    sequences : Sequences
        The three films.
    """
    person = (0, 1, 1)
    grid = Grid.around(shape, max(shape) // 4)
    heads = [draw_head(np.random.default_rng([seed, i, 1]), grid) for i in range(2)]
    y, x = (((np.arange(n) - (n - 1) / 2) * 1.15 * FINE * grid.step) for n in shape)
    frames = np.empty((3, n_frames, *shape), np.uint8)
    for i, (who, lamp) in enumerate(zip(person, FILM_LIGHTS, strict=True)):
        rng = np.random.default_rng([seed, i, 2])
        turns = rotations(*(drift(rng, n_frames, most) for most in (28, 18, 10)))
        right, down, size = (drift(rng, n_frames, most) for most in (0.1, 0.1, 0.06))
        light = shade(heads[who], towards(*np.array(lamp)) @ turns, turns[:, 2])
        film = np.empty((n_frames, *shape))
        for n in range(n_frames):
            places = np.meshgrid((1 + size[n]) * x - right[n], (1 + size[n]) * y - down[n])
            film[n] = look(heads[who], light[n], turns[n], *places)
        film = gaussian_filter(film, (0, 0.45, 0.45))
        frames[i] = sensor(rng, film * (0.38 / film.mean()))
    return Sequences(frames, person, ("person A", "person B", "person B, another time"))


def towards(azimuth: npt.NDArray[np.int_], elevation: npt.NDArray[np.int_]) -> Floats:
    """Turn angles into unit vectors; positive azimuth is to the left in the picture."""
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    return np.stack([-np.sin(a) * np.cos(e), -np.sin(e), np.cos(a) * np.cos(e)], axis=-1)


def snapshots(rng: np.random.Generator, light: Floats, shape: tuple[int, int]) -> Floats:
    """Cut pictures out of what is drawn on the fine grid, each a little out of place."""
    moved = MISPLACED * np.clip(rng.normal(size=(len(light), 2)), -2, 2)
    scale = FINE * (1 + 0.01 * np.clip(rng.normal(size=len(light)), -2, 2))
    flash = np.exp(0.08 * rng.normal(size=len(light)))
    light = gaussian_filter(light, (0, 0.4 * FINE, 0.4 * FINE))
    middle, half = (np.array(light.shape[1:]) - 1) / 2, (np.array(shape) - 1) / 2
    out = np.empty((len(light), *shape))
    for n, s in enumerate(scale):
        corner = middle - s * (half + moved[n])
        out[n] = affine_transform(light[n], np.diag([s, s]), corner, output_shape=shape, order=1)
    return out * flash[:, None, None]


def sensor(rng: np.random.Generator, light: Floats) -> npt.NDArray[np.uint8]:
    """Grey levels of a camera: noise, saturation and whole numbers."""
    grey = GAIN * light
    grey += rng.normal(size=light.shape) * np.sqrt(1.5 + 0.02 * grey)
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


def drift(rng: np.random.Generator, n: int, most: float) -> Floats:
    """Move smoothly through time, as far as `most` either way."""
    times = np.arange(1, 5)[:, None]
    size, phase = rng.normal(size=(4, 1)) / times, rng.uniform(0, 2 * np.pi, (4, 1))
    path = (size * np.sin(times * np.linspace(0, 2 * np.pi, n) + phase)).sum(axis=0)
    return most * path / np.abs(path).max()


def rotations(yaw: Floats, pitch: Floats, roll: Floats) -> Floats:
    """Matrices that turn a head before the camera; angles in degrees."""
    out = np.tile(np.eye(3), (len(yaw), 1, 1))
    for angle, i, j in ((roll, 0, 1), (pitch, 1, 2), (yaw, 2, 0)):
        c, s = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        turn = np.tile(np.eye(3), (len(yaw), 1, 1))
        turn[:, i, i], turn[:, j, j], turn[:, i, j], turn[:, j, i] = c, c, -s, s
        out = out @ turn
    return out


def look(head: Head, light: Floats, turn: Floats, x: Floats, y: Floats) -> Floats:
    """Light that reaches places of a picture from a turned head.

    A ray from each place is followed in steps until it is below the surface; where between the
    last two steps it went below is interpolated.
    """
    height = head.grid.inner(head.z)
    depth = np.linspace(1.9, -0.6, 64)[:, None, None]
    ray = [turn[0, i] * x + turn[1, i] * y + turn[2, i] * depth for i in range(3)]
    middle = (np.array(height.shape) - 1) / 2
    at = np.stack([ray[1] / head.grid.step + middle[0], ray[0] / head.grid.step + middle[1]])
    below = map_coordinates(height, at, order=1, cval=-9) - ray[2]
    last = np.maximum((below >= 0).argmax(axis=0), 1)[None]
    first = last - 1
    start, end = np.take_along_axis(below, first, 0)[0], np.take_along_axis(below, last, 0)[0]
    part = np.clip(start / np.minimum(start - end, -1e-9), 0, 1)
    before, after = (np.take_along_axis(at, step[None], 1)[:, 0] for step in (first, last))
    seen = map_coordinates(light, before + part * (after - before), order=1)
    return np.where((below >= 0).any(axis=0), seen, 0)
