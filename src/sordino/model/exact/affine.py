"""Random affine maps theta -> A theta + o + N(0, C), composed and repeated, one at a time or in stacks."""

from dataclasses import dataclass

import numpy as np

from sordino.model.exact.read_only import Array


@dataclass(frozen=True, eq=False)
class AffineStep:
    """One map, or a stack of them along leading axes: matrix (..., d, d), offset (..., d), noise (..., d, d)."""

    matrix: Array
    offset: Array
    noise: Array

    @classmethod
    def identity(cls, dim: int) -> "AffineStep":
        """The map that changes nothing."""
        return cls(np.eye(dim), np.zeros(dim), np.zeros((dim, dim)))

    def push(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance after the map, of stacks of laws."""
        moved = (self.matrix @ mean[..., None])[..., 0] + self.offset
        return moved, self.matrix @ covariance @ np.swapaxes(self.matrix, -1, -2) + self.noise

    def then(self, following: "AffineStep") -> "AffineStep":
        """This map first, then `following`, with independent noise."""
        return AffineStep(following.matrix @ self.matrix, *following.push(self.offset, self.noise))

    def repeated(self, times: int) -> "AffineStep":
        """The map `times` times in a row, in about 2 log2(times) compositions."""
        result, square = AffineStep.identity(self.offset.shape[-1]), self
        while times:
            if times & 1:
                result = result.then(square)
            times >>= 1
            if times:
                square = square.then(square)
        return result
