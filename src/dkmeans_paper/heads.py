"""Random heads as height fields, and their illumination by lamps.

The unit of length is half the width of a picture. Axes point right and down in the picture, and
from the head to a camera in front of it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

POINTS_PER_PIXEL = 2  # grid points per pixel, in each direction
SHADOW_REACH = 1.1  # largest distance at which shadows are cast
VARIATION = 1.15  # scale of the differences between people
AMBIENT = 0.05  # ambient light relative to the lamp
LAMP_WIDTH_RAD = 0.12  # angular width of a lamp; blurs the edges of shadows


@dataclass(frozen=True)
class RenderGrid:
    """Grid of a head: the picture, and a rim around it that only casts shadows."""

    x: Floats
    y: Floats
    pad: int
    step: float

    @classmethod
    def around(cls, shape: tuple[int, int], margin: int) -> "RenderGrid":
        """Create the grid of a picture with a margin, both in pixels."""
        step = 1 / (POINTS_PER_PIXEL * min(shape[1] / 2, shape[0] / 2.28))
        pad = int(np.ceil(SHADOW_REACH / step))
        rows, cols = (POINTS_PER_PIXEL * (n + 2 * margin) + 2 * pad for n in shape)
        y, x = ((np.arange(n) - (n - 1) / 2) * step for n in (rows, cols))
        x, y = np.meshgrid(x, y)
        return cls(x, y, pad, step)

    def inner(self, values: Floats) -> Floats:
        """Remove the rim."""
        return values[self.pad : -self.pad, self.pad : -self.pad]


@dataclass(frozen=True)
class Head:
    """Heights on the whole grid; albedo and gloss without the rim."""

    grid: RenderGrid
    z: Floats
    albedo: Floats
    gloss: Floats


class FeatureSampler:
    """Draws random sizes and positions around those of an average face."""

    def __init__(self, rng: np.random.Generator, grid: RenderGrid) -> None:
        self.rng = rng
        self.grid = grid

    def place(self, mean: float, by: float) -> float:
        """Draw a position around its mean, with standard deviation `by`."""
        return mean + VARIATION * by * float(np.clip(self.rng.normal(), -2.2, 2.2))

    def size(self, mean: float, share: float) -> float:
        """Draw a size around its mean, with relative standard deviation `share`."""
        return mean * self.place(1, share)

    def waves(self, low: float, high: float) -> Floats:
        """Draw a smooth field of variance 1 with frequencies between two bounds."""
        n = 24
        angle, phase = self.rng.uniform(0, 2 * np.pi, (2, n, 1))
        right, down = self.rng.uniform(low, high, (n, 1)) * [np.cos(angle), np.sin(angle)]
        # Expand cos(a + b) into products, which needs far fewer cosines.
        a, b = right * self.grid.x[0] + phase, down * self.grid.y[:, 0]
        cos = np.einsum("ki,kj->ij", np.cos(b), np.cos(a))
        return (cos - np.einsum("ki,kj->ij", np.sin(b), np.sin(a))) * np.sqrt(2 / n)


def hill(x: Floats, y: Floats, at: tuple[float, float], size: tuple[float, float]) -> Floats:
    """Compute a Gaussian hill of height 1."""
    return np.exp(-0.5 * (((x - at[0]) / size[0]) ** 2 + ((y - at[1]) / size[1]) ** 2))


def ramp(t: Floats) -> Floats:
    """Rise smoothly from 0 at 0 to 1 at 1."""
    t = np.clip(t, 0, 1)
    return t * t * (3 - 2 * t)


class Face:
    """Positions of the parts of a face, shared by shape and albedo."""

    def __init__(self, sampler: FeatureSampler) -> None:
        x, y = sampler.grid.x, sampler.grid.y
        self.x = x - sampler.place(0, 0.03) - sampler.place(0, 0.03) * y
        self.y = y
        self.side = np.abs(self.x)
        self.eye = (sampler.place(0.5, 0.03), sampler.place(-0.62, 0.035))
        bow = sampler.size(0.25, 0.6) * (self.side - sampler.place(0.5, 0.08)) ** 2
        self.brow = y - self.eye[1] + sampler.size(0.22, 0.15) - bow
        self.root, self.tip = sampler.place(-0.62, 0.04), sampler.place(0.1, 0.05)
        self.wing = (sampler.size(0.17, 0.14), self.tip + 0.04)
        self.mouth, self.wide = sampler.place(0.58, 0.045), sampler.size(0.27, 0.12)
        self.bend = y + sampler.place(0.12, 0.2) * self.x**2
        jaw = sampler.size(0.2, 0.4) * ramp((y - sampler.place(0, 0.1)) / 1.3)
        across = self.side / (sampler.size(1.2, 0.06) * (1 - jaw))
        self.radius = across**2.4 + (np.abs(y + 0.1) / sampler.size(1.5, 0.04)) ** 2.4
        self.inside = ramp((1 - self.radius) * 8)


def shape_of(face: Face, sampler: FeatureSampler) -> Floats:
    """Compute the height field of a head."""
    x, y, side, eye, tip, mouth = face.x, face.y, face.side, face.eye, face.tip, face.mouth
    size, place = sampler.size, sampler.place
    z = size(1.1, 0.08) * np.sqrt(np.maximum(1 - face.radius, 0))

    # Sockets, eyeballs and the ridge above them.
    z -= size(0.17, 0.25) * hill(side, y, (eye[0] - 0.04, eye[1] - 0.02), (0.25, size(0.13, 0.15)))
    z += size(0.09, 0.2) * hill(side, y, eye, (0.15, 0.085))
    z += size(0.08, 0.5) * np.exp(-0.5 * (face.brow / 0.1) ** 2) * ramp((0.95 - side) * 3)

    # Nose: a ridge that rises and widens to the tip and then ends, and two wings.
    along = (y - face.root) / (tip - face.root)
    width = size(0.12, 0.15) + size(0.06, 0.4) * ramp(along)
    high = size(0.08, 0.5) + size(0.34, 0.22) * np.clip(along, 0, 1.2) ** size(1.25, 0.1)
    ends = ramp((along + 0.25) * 3) * ramp((tip + size(0.15, 0.15) - y) / 0.16)
    z += high * ends * np.exp(-0.5 * (x / width) ** 2)
    z += size(0.14, 0.3) * hill(side, y, face.wing, (0.08, 0.085))

    # Cheeks, and the fold from the nose to the mouth.
    at = (place(0.6, 0.035), place(-0.1, 0.07))
    z += size(0.1, 0.4) * hill(side, y, at, (0.27, size(0.26, 0.15)))
    fold = side - face.wing[0] - 0.1 - size(0.4, 0.2) * (y - tip)
    z -= size(0.025, 0.8) * np.exp(-0.5 * (fold / 0.06) ** 2) * hill(x, y, (0, 0.32), (2, 0.17))

    # Lips on a bulge with a gap between them, and a chin below a dent.
    upper, lower = size(0.06, 0.25), size(0.08, 0.2)
    z += size(0.12, 0.3) * hill(x, y, (0, mouth - 0.05), (0.36, 0.24))
    z += size(0.06, 0.35) * hill(x, face.bend, (0, mouth - upper), (face.wide, upper))
    z += size(0.08, 0.35) * hill(x, face.bend, (0, mouth + lower), (face.wide * 0.8, lower))
    z -= size(0.045, 0.3) * hill(x, face.bend, (0, mouth), (face.wide, 0.035))
    z -= size(0.08, 0.3) * hill(x, y, (0, mouth + 0.24), (0.3, 0.07))
    z += size(0.14, 0.35) * hill(x, y, (0, place(0.98, 0.05)), (size(0.25, 0.15), 0.13))
    bumps = 0.03 * sampler.waves(1, 4) + 0.012 * sampler.waves(4, 12)
    return z + VARIATION * face.inside * bumps


def albedo_of(face: Face, sampler: FeatureSampler) -> Floats:
    """Compute the albedo of a head: the share of light it reflects."""
    x, y, side, eye, bend, mouth = face.x, face.y, face.side, face.eye, face.bend, face.mouth
    size, place = sampler.size, sampler.place
    spots = 0.08 * sampler.waves(1, 5) + 0.05 * sampler.waves(5, 18)
    skin = size(0.58, 0.22) * (1 + VARIATION * spots) * face.inside

    hairs = np.exp(-0.5 * (face.brow / size(0.055, 0.3)) ** 2)
    hairs *= ramp((side - place(0.2, 0.035)) * 7) * ramp((0.86 - side) * 6)
    skin *= 1 - min(size(0.65, 0.35), 0.9) * hairs
    skin *= 1 + size(0.55, 0.4) * hill(side, y, eye, (0.15, 0.05))
    skin *= 1 - 0.9 * hill(side, y, (place(eye[0], 0.02), eye[1]), (0.06, 0.06))
    lid = y - eye[1] + size(0.075, 0.2) - 1.2 * (side - eye[0]) ** 2
    skin *= 1 - size(0.55, 0.2) * np.exp(-0.5 * (lid / 0.028) ** 2) * hill(side, y, eye, (0.13, 1))
    skin *= 1 - 0.6 * hill(side, y, (face.wing[0] * 0.5, face.tip + 0.13), (0.05, 0.03))

    lips = hill(x, bend, (0, mouth + 0.01), (face.wide, size(0.09, 0.15)))
    skin *= 1 - size(0.35, 0.4) * lips
    skin *= 1 - 0.6 * hill(x, bend, (0, mouth), (face.wide, 0.025))
    jaw = ramp((y - 0.5 + 0.4 * (side - 0.3)) * 3)
    beard = np.maximum(jaw, hill(x, bend, (0, mouth - 0.17), (0.26, 0.07)))
    skin *= 1 - max(0.0, place(0, 0.25)) * beard * (1 - lips)
    hairline = place(-1.2, 0.1) + size(0.18, 0.5) * x * x
    return skin * (1 - 0.8 * ramp((hairline - y) * 9 + 0.25 * sampler.waves(5, 25)))


def draw_head(rng: np.random.Generator, grid: RenderGrid) -> Head:
    """Draw a person."""
    sampler = FeatureSampler(rng, grid)
    face = Face(sampler)
    parts = (
        shape_of(face, sampler),
        grid.inner(albedo_of(face, sampler)),
        grid.inner(face.inside) * sampler.size(0.1, 0.5),
    )
    # Single precision hides differences between machines in the last digits of exp and cos.
    return Head(grid, *(part.astype(np.float32) for part in parts))


def horizon(head: Head, right: float, down: float) -> Floats:
    """Compute the steepest slope visible from each point in a direction of the picture."""
    z, pad = head.z, head.grid.pad
    here = head.grid.inner(z)
    rows, cols = here.shape
    best = np.full_like(here, -np.inf)
    major = max(abs(right), abs(down))
    k = 1
    while k < pad:
        r, c = k * (down / major), k * (right / major)
        # One of r and c is an integer, so two neighbours suffice for the interpolation.
        i, j = int(np.floor(r)), int(np.floor(c))
        m, n = pad + i + (r > i), pad + j + (c > j)
        near = z[pad + i : pad + i + rows, pad + j : pad + j + cols]
        there = near + np.float32(max(r - i, c - j)) * (z[m : m + rows, n : n + cols] - near)
        rise = (there - here) * np.float32(1 / (np.hypot(r, c) * head.grid.step))
        np.maximum(best, rise, out=best)
        k += 1 + k // 8  # longer steps suffice at larger distances
    return best


def shade(head: Head, lamps: Floats, cameras: Floats, *, cast: bool = True) -> Floats:
    """Compute the light that each point of a head reflects to the camera.

    Parameters
    ----------
    head : Head
        Head to light.
    lamps, cameras : ndarray of shape (n, 3)
        Unit vectors to a lamp and a camera.
    cast : bool
        Whether parts of the head cast shadows on others.

    Returns
    -------
    light : ndarray of shape (n, rows, columns)
        1 for a white surface that faces the lamp.
    """
    down = head.grid.inner(np.gradient(head.z, head.grid.step, axis=0))
    right = head.grid.inner(np.gradient(head.z, head.grid.step, axis=1))
    length = np.sqrt(right * right + down * down + 1)
    normal = (-right / length, -down / length, 1 / length)

    def facing(vector: Floats) -> Floats:
        a, b, c = vector.tolist()
        return np.maximum(normal[0] * a + normal[1] * b + normal[2] * c, 0)

    out = np.empty((len(lamps), *head.albedo.shape), np.float32)
    for n, (lamp, camera) in enumerate(zip(lamps, cameras, strict=True)):
        between = lamp + camera
        mirrored = facing(between / max(float(np.sqrt((between**2).sum())), 1e-3))
        for _ in range(4):
            mirrored *= mirrored
        lit = facing(lamp)
        # Under grazing light, rough skin is brighter than Lambert's law predicts.
        direct = head.albedo * lit * (1.8 - 0.8 * lit) + head.gloss * mirrored
        flat = float(np.hypot(lamp[0], lamp[1]))
        if cast and flat > 0:
            above = float(lamp[2]) - horizon(head, float(lamp[0]), float(lamp[1])) * flat
            direct *= np.clip(0.5 + above / LAMP_WIDTH_RAD, 0, 1)
        out[n] = direct + AMBIENT * head.albedo
    return out
