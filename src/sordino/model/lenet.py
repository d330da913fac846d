"""LeNet-5 for 28 x 28 grey images in ten classes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.core.validate import refuse
from sordino.model.base import Model
from sordino.model.dense import Shapes, activation, dense, dense_shapes, size_of, unpack
from sordino.model.domain import Domain
from sordino.model.facts import NOTHING_KNOWN, LossFacts
from sordino.model.labels import as_codes, need_codes

SIDE = 28
CLASSES = 10
_CONVOLUTIONS: Shapes = ((5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,))
_SHAPES: Shapes = _CONVOLUTIONS + dense_shapes((400, 120, 84, CLASSES))


@dataclass(frozen=True)
class LeNet5(Model):
    """Two convolutions with average pooling and three dense layers: 61,706 parameters, flat images in.

    Gradients are certified by norm clipping alone, as for every network.
    """

    activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        activation(self.activation)

    def dim(self, features: int) -> int:
        if features != SIDE * SIDE:
            raise refuse("the features of LeNet-5", f"to be the {SIDE * SIDE} pixels of a flat image", features)
        return size_of(_SHAPES)

    def predict(self, theta: Array, x: Array) -> Array:
        """The ten scores of one flat image."""
        act = activation(self.activation)
        first, first_bias, second, second_bias, *rest = unpack(theta, _SHAPES)
        image = x.reshape(1, SIDE, SIDE, 1)
        image = _halve(act(_convolve(image, first, "SAME") + first_bias))
        image = _halve(act(_convolve(image, second, "VALID") + second_bias))
        return dense(rest, image.ravel(), act)

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return -jax.nn.log_softmax(self.predict(theta, x))[y.astype(jnp.int32)]

    def as_labels(self, y: Array) -> Array:
        return as_codes(y, CLASSES)

    def facts(self, domain: Domain) -> LossFacts:
        need_codes(domain, CLASSES, "LeNet-5")
        return NOTHING_KNOWN


def _convolve(image: Array, kernel: Array, padding: str) -> Array:
    return lax.conv_general_dilated(image, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _halve(image: Array) -> Array:
    _, height, width, channels = image.shape
    return image.reshape(1, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))
