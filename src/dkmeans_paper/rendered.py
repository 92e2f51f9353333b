"""Rendered face-like pictures, as a substitute for Extended Yale B."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates

from dkmeans_paper.faces import Faces
from dkmeans_paper.heads import POINTS_PER_PIXEL, Floats, Head, RenderGrid, draw_head, shade

# Azimuth and elevation of the lights of Extended Yale B in degrees; side lights are mirrored.
CENTRAL_LIGHTS = ((0, -35), (0, -20), (0, 0), (0, 20), (0, 45), (0, 90))
SIDE_LIGHTS = (
    *((5, -10), (5, 10), (10, -20), (10, 0), (15, 20), (20, -40), (20, -10), (20, 10), (25, 0)),
    *((35, -20), (35, 15), (35, 40), (35, 65), (50, -40), (50, 0), (60, -20), (60, 20)),
    *((70, -35), (70, 0), (70, 45), (85, -20), (85, 20), (95, 0)),
    *((110, -20), (110, 15), (110, 40), (110, 65), (120, 0), (130, 20)),
)
LIGHTS = sorted(
    [*CENTRAL_LIGHTS, *SIDE_LIGHTS, *((-azimuth, elevation) for azimuth, elevation in SIDE_LIGHTS)]
)
FILM_LIGHTS = ((10, 15), (25, 10), (5, 20))

MARGIN_PX = 4  # drawn around a picture, so that it can be shifted
MISALIGNMENT_PX = 0.45  # standard deviation of the shift
SENSOR_GAIN = 250.0  # grey levels per unit of light


@dataclass(frozen=True)
class Sequences:
    """Films of moving heads.

    Attributes
    ----------
    frames : ndarray of shape (3, n_frames, height, width)
        Grey levels, 0 to 255.
    person : tuple of int
        Person in each film.
    titles : tuple of str
        Title of each film.
    """

    frames: npt.NDArray[np.uint8]
    person: tuple[int, int, int]
    titles: tuple[str, str, str]


def rendered_faces(
    n_people: int = 40, *, shape: tuple[int, int] = (48, 42), seed: int = 0
) -> Faces:
    """Render people under the 64 lights of Extended Yale B.

    People differ in the size, position and shade of all parts of the face. Noses and brows cast
    shadows, and lamps behind the head leave little light. Pictures are misaligned by fractions of
    a pixel, the flash varies, and the camera has noise and 256 grey levels.

    Parameters
    ----------
    n_people : int
        Number of people. A person's pictures do not depend on it.
    shape : tuple of int
        Height and width of a picture in pixels.
    seed : int
        Seed of the people.

    Returns
    -------
    faces : Faces
        Sorted by person, then azimuth, then elevation.
    """
    grid = RenderGrid.around(shape, MARGIN_PX)
    azimuth, elevation = np.array(LIGHTS).T
    lamps = direction_vectors(azimuth, elevation)
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

    In a film, the head yaws by up to 28 degrees, pitches by 18, rolls by 10, moves by a tenth of
    half the width of the picture and changes its size by 6 %, all smoothly and at random, with
    noise. The lamp is fixed within a film. The two films of the second person differ in movement
    and lamp: azimuth 25 and elevation 10 degrees, then 5 and 20. The exposure is set once per
    film.

    Parameters
    ----------
    n_frames : int
        Number of frames of each film.
    shape : tuple of int
        Height and width of a frame in pixels.
    seed : int
        Seed of the people and movements.

    Returns
    -------
    sequences : Sequences
        The three films.
    """
    person = (0, 1, 1)
    grid = RenderGrid.around(shape, max(shape) // 4)
    heads = [draw_head(np.random.default_rng([seed, i, 1]), grid) for i in range(2)]
    y, x = (((np.arange(n) - (n - 1) / 2) * 1.15 * POINTS_PER_PIXEL * grid.step) for n in shape)
    frames = np.empty((3, n_frames, *shape), np.uint8)
    for i, (who, lamp) in enumerate(zip(person, FILM_LIGHTS, strict=True)):
        rng = np.random.default_rng([seed, i, 2])
        turns = rotations(*(random_motion(rng, n_frames, most) for most in (28, 18, 10)))
        right, down, size = (random_motion(rng, n_frames, most) for most in (0.1, 0.1, 0.06))
        light = shade(heads[who], direction_vectors(*np.array(lamp)) @ turns, turns[:, 2])
        film = np.empty((n_frames, *shape))
        for n in range(n_frames):
            places = np.meshgrid((1 + size[n]) * x - right[n], (1 + size[n]) * y - down[n])
            film[n] = render_view(heads[who], light[n], turns[n], *places)
        film = gaussian_filter(film, (0, 0.45, 0.45))
        frames[i] = sensor(rng, film * (0.38 / film.mean()))
    return Sequences(frames, person, ("person A", "person B", "person B, another time"))


def direction_vectors(azimuth: npt.NDArray[np.int_], elevation: npt.NDArray[np.int_]) -> Floats:
    """Convert angles to unit vectors; positive azimuth is to the left in the picture."""
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    return np.stack([-np.sin(a) * np.cos(e), -np.sin(e), np.cos(a) * np.cos(e)], axis=-1)


def snapshots(rng: np.random.Generator, light: Floats, shape: tuple[int, int]) -> Floats:
    """Resample the fine grid to pictures, each slightly misaligned."""
    moved = MISALIGNMENT_PX * np.clip(rng.normal(size=(len(light), 2)), -2, 2)
    scale = POINTS_PER_PIXEL * (1 + 0.01 * np.clip(rng.normal(size=len(light)), -2, 2))
    flash = np.exp(0.08 * rng.normal(size=len(light)))
    light = gaussian_filter(light, (0, 0.4 * POINTS_PER_PIXEL, 0.4 * POINTS_PER_PIXEL))
    middle, half = (np.array(light.shape[1:]) - 1) / 2, (np.array(shape) - 1) / 2
    out = np.empty((len(light), *shape))
    for n, s in enumerate(scale):
        corner = middle - s * (half + moved[n])
        out[n] = affine_transform(light[n], np.diag([s, s]), corner, output_shape=shape, order=1)
    return out * flash[:, None, None]


def sensor(rng: np.random.Generator, light: Floats) -> npt.NDArray[np.uint8]:
    """Convert light to grey levels, with noise, saturation and rounding."""
    grey = SENSOR_GAIN * light
    grey += rng.normal(size=light.shape) * np.sqrt(1.5 + 0.02 * grey)
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


def random_motion(rng: np.random.Generator, n: int, most: float) -> Floats:
    """Generate a smooth random curve over time, with largest magnitude `most`."""
    times = np.arange(1, 5)[:, None]
    size, phase = rng.normal(size=(4, 1)) / times, rng.uniform(0, 2 * np.pi, (4, 1))
    path = (size * np.sin(times * np.linspace(0, 2 * np.pi, n) + phase)).sum(axis=0)
    return most * path / np.abs(path).max()


def rotations(yaw: Floats, pitch: Floats, roll: Floats) -> Floats:
    """Compute rotation matrices of a head; angles in degrees."""
    out = np.tile(np.eye(3), (len(yaw), 1, 1))
    for angle, i, j in ((roll, 0, 1), (pitch, 1, 2), (yaw, 2, 0)):
        c, s = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        turn = np.tile(np.eye(3), (len(yaw), 1, 1))
        turn[:, i, i], turn[:, j, j], turn[:, i, j], turn[:, j, i] = c, c, -s, s
        out = out @ turn
    return out


def render_view(head: Head, light: Floats, turn: Floats, x: Floats, y: Floats) -> Floats:
    """Render a rotated head by ray marching.

    The ray of each pixel is followed in steps until it is below the surface; the intersection is
    interpolated between the last two steps.
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
