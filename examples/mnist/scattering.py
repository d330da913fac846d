"""Scattering features of images: moduli of wavelet transforms, smoothed; fixed functions of one image.

Mallat (2012) and Bruna & Mallat (2013): with oriented wavelets psi of scale 2^j, and a smoothing window phi of
scale 2^J, the features are x * phi, |x * psi| * phi and ||x * psi| * psi'| * phi with a coarser psi', sampled
every 2^J pixels. Small shifts and deformations move them little, so a linear score on them is a good classifier of
digits. Wavelets are Morlet's, of the usual constants; everything is done by Fourier transforms, in JAX.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.validate import refuse, whole_number

_WIDTH = 0.8  # of the envelope, over the scale
_FREQUENCY = 0.75 * math.pi  # of the finest wavelet
_WRAPS = range(-2, 3)  # copies of a filter that reach into the padded image


@dataclass(frozen=True)
class Scattering:
    """Features of square images of `side` pixels: `channels` maps of `points` by `points`.

    Attributes:
        side: pixels of an image's side; a multiple of 2^scales.
        scales: J, how many octaves.
        directions: L, how many orientations in half a turn.
    """

    side: int = 28
    scales: int = 2
    directions: int = 8

    def __post_init__(self) -> None:
        for name in ("side", "scales", "directions"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        if self.side % 2**self.scales:
            raise refuse("side", f"to be a multiple of 2^scales = {2**self.scales}", self.side)

    @property
    def points(self) -> int:
        """Sampled places along a side."""
        return self.side // 2**self.scales

    @property
    def channels(self) -> int:
        """One smoothed image, one map for each wavelet, one for each pair of a wavelet and a coarser one."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.scales * self.directions + pairs * self.directions**2

    @property
    def padded(self) -> int:
        """The side with room around the image, so that opposite edges do not meet."""
        return self.side + 2 ** (self.scales + 1)

    @cached_property
    def _filters(self) -> tuple[NDArray[np.float32], NDArray[np.complex64]]:
        """The window and the wavelets, [scale, direction], as Fourier transforms."""
        window = _gabor(self.padded, _WIDTH * 2 ** (self.scales - 1), 0.0, 0.0, 1.0)
        window = np.abs(np.fft.fft2(window / window.sum()))
        wavelets = [
            [
                np.fft.fft2(_morlet(self.padded, j, math.pi * turn / self.directions, 4.0 / self.directions))
                for turn in range(self.directions)
            ]
            for j in range(self.scales)
        ]
        return window.astype(np.float32), np.asarray(wavelets, np.complex64)

    def __call__(self, images: Array) -> Array:
        """Features of images, shape (images, channels, points, points), from shape (images, side, side)."""
        return _scattered(self, jnp.asarray(images, jnp.float32))

    def in_parts(self, images: NDArray[np.floating], rows: int = 1000) -> NDArray[np.float32]:
        """The same for many images, so many at a time, on the host."""
        compute = jax.jit(partial(_scattered, self))
        found = np.empty((len(images), self.channels, self.points, self.points), np.float32)
        for first in range(0, len(images), rows):
            some = np.asarray(images[first : first + rows], np.float32)
            whole = np.pad(some, ((0, rows - len(some)), (0, 0), (0, 0)))
            found[first : first + len(some)] = np.asarray(compute(whole))[: len(some)]
        return found


def _scattered(features: Scattering, images: Array) -> Array:
    margin = (features.padded - features.side) // 2
    window, wavelets = features._filters
    first = jnp.fft.fft2(jnp.pad(images, ((0, 0), (margin, margin), (margin, margin)), mode="reflect"))

    def smoothed(spectrum: Array) -> Array:
        step = 2**features.scales
        full = jnp.fft.ifft2(spectrum * window).real
        start = margin + step // 2
        return full[..., start : start + features.side : step, start : start + features.side : step]

    maps = [smoothed(first)[:, None]]
    for j in range(features.scales):
        moduli = jnp.fft.fft2(jnp.abs(jnp.fft.ifft2(first[:, None] * wavelets[j])))
        maps.append(smoothed(moduli))
        for coarser in range(j + 1, features.scales):
            again = jnp.abs(jnp.fft.ifft2(moduli[:, :, None] * wavelets[coarser]))
            maps.append(smoothed(jnp.fft.fft2(again)).reshape(len(images), -1, features.points, features.points))
    return jnp.concatenate(maps, axis=1)


def _gabor(side: int, width: float, direction: float, frequency: float, slant: float) -> NDArray[np.complex128]:
    """A plane wave under a Gaussian envelope, wrapped around the padded image."""
    turned = np.array([[math.cos(direction), -math.sin(direction)], [math.sin(direction), math.cos(direction)]])
    curve = turned @ np.diag([1.0, slant**2]) @ turned.T / (2 * width**2)
    found = np.zeros((side, side), np.complex128)
    for across in _WRAPS:
        for down in _WRAPS:
            x, y = np.meshgrid(np.arange(side) + across * side, np.arange(side) + down * side, indexing="ij")
            phase = frequency * (x * math.cos(direction) + y * math.sin(direction))
            envelope = curve[0, 0] * x**2 + (curve[0, 1] + curve[1, 0]) * x * y + curve[1, 1] * y**2
            found += np.exp(-envelope + 1j * phase)
    return found / (2 * math.pi * width**2 / slant)


def _morlet(side: int, scale: int, direction: float, slant: float) -> NDArray[np.complex128]:
    """A Gabor function less as much of its envelope as makes its mean 0."""
    width, frequency = _WIDTH * 2**scale, _FREQUENCY / 2**scale
    wave, envelope = (_gabor(side, width, direction, one, slant) for one in (frequency, 0.0))
    return wave - wave.sum() / envelope.sum() * envelope


def group_normalised(maps: Array, groups: int, floor: float = 1e-5) -> Array:
    """Each image's maps with mean 0 and variance 1 within groups of channels; shape as given."""
    flat = maps.reshape(len(maps), groups, -1)
    centred = flat - jnp.mean(flat, axis=2, keepdims=True)
    return (centred / jnp.sqrt(jnp.mean(jnp.square(centred), axis=2, keepdims=True) + floor)).reshape(maps.shape)
