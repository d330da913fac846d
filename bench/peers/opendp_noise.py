"""The discrete Gaussian of OpenDP on a vector of whole numbers."""

from importlib.metadata import version

import noise_task
import opendp.prelude as dp

dp.enable_features("contrib")


def draw(scale: float, size: int) -> object:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=scale)([0] * size)


if __name__ == "__main__":
    noise_task.report(draw, 40_000, {"opendp": version("opendp")})
