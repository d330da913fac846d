"""The accounting task in autodp, as its documentation composes: Rényi curves of the sampled Gaussian, optimised.

Its Fourier accountant calls a function that SciPy removed in 1.14, and is not asked.
"""

import warnings
from importlib.metadata import version

import golden
from autodp.mechanism_zoo import GaussianMechanism
from autodp.transformer_zoo import AmplificationBySampling, Composition


def renyi() -> golden.Interval:
    mechanism = GaussianMechanism(sigma=golden.MULTIPLIER)
    mechanism.neighboring = "add_remove"
    sampled = AmplificationBySampling(PoissonSampling=True)(mechanism, golden.RATE, improved_bound_flag=True)
    return -float("inf"), float(Composition()([sampled], [golden.STEPS]).get_approxDP(golden.DELTA))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    golden.answer({"renyi": renyi}, {name: version(name) for name in ("autodp", "numpy", "scipy")})
