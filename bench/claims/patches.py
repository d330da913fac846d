"""Fixed versions where no release has the fix: one line of the library is changed at run time, the claim is the same.

Each function is called as the function of the same claim; the patch is applied once, in the worker's process. `also`
names patches of other bugs in the same code, so that what is hunted is one bug at a time.
"""

import functools
import importlib
import inspect

GRID = 2.0**-20


def changed(module, old, new):
    """A module's source with one text replaced, executed in the module."""
    loaded = importlib.import_module(module)
    source = inspect.getsource(loaded)
    assert source.count(old) == 1, f"{module} has another text"
    exec(compile(source.replace(old, new), loaded.__file__, "exec"), loaded.__dict__)
    return loaded


@functools.lru_cache(maxsize=None)
def regression_bounds():
    """diffprivlib issue 105: both bounds of a feature, not the lower one twice."""
    import diffprivlib.models

    module = changed(
        "diffprivlib.models.linear_regression",
        "np.max(np.abs([bounds_X[0][i], bounds_X[0][i]])) ** 2",
        "np.max(np.abs([bounds_X[0][i], bounds_X[1][i]])) ** 2",
    )
    diffprivlib.models.LinearRegression = module.LinearRegression


@functools.lru_cache(maxsize=None)
def regression_centring():
    """diffprivlib issue 104, second item: the means of X and of y share what is set aside for them."""
    regression_bounds()
    import diffprivlib.models

    module = importlib.import_module("diffprivlib.models.linear_regression")
    source = inspect.getsource(module)
    old = "epsilon=self.epsilon * epsilon_intercept_scale, copy"
    assert source.count(old) == 1
    fixed = source.replace(old, "epsilon=self.epsilon * epsilon_intercept_scale / 2, copy").replace(
        "bounds_X[0][i], bounds_X[0][i]", "bounds_X[0][i], bounds_X[1][i]"
    )
    exec(compile(fixed, module.__file__, "exec"), module.__dict__)
    diffprivlib.models.LinearRegression = module.LinearRegression


@functools.lru_cache(maxsize=None)
def whole_grid(name):
    """diffprivlib issue 94: value and noise are both multiples of 2^-20, and so is their sum, whatever the value."""
    from diffprivlib import mechanisms

    kind = getattr(mechanisms, name)
    original = kind.randomise
    kind.randomise = lambda self, value: round(value / GRID) * GRID + round(original(self, 0.0) / GRID) * GRID


@functools.lru_cache(maxsize=None)
def public_divisor():
    """Opacus issue 571: what the sum is divided by is a public number, not the size of the data set."""
    from opacus.optimizers import DPOptimizer

    original = DPOptimizer.__init__

    def fixed(self, *arguments, **options):
        original(self, *arguments, **{**options, "expected_batch_size": 2})

    DPOptimizer.__init__ = fixed


@functools.lru_cache(maxsize=None)
def public_count():
    """Opacus' adaptive clipping: the noisy number of unclipped records is divided by a public number."""
    from opacus.optimizers.adaclipoptimizer import AdaClipDPOptimizer

    public_divisor()
    original = AdaClipDPOptimizer.update_max_grad_norm

    def fixed(self):
        self.sample_size = 6
        original(self)

    AdaClipDPOptimizer.update_max_grad_norm = fixed


@functools.lru_cache(maxsize=None)
def finite_gradients():
    """Opacus: a gradient that is no number is left out before it is shortened."""
    import torch
    from opacus.optimizers import DPOptimizer

    public_divisor()
    original = DPOptimizer._get_flat_grad_sample

    def fixed(self, parameter):
        found = original(self, parameter)
        finite = torch.isfinite(found) & (found.abs() < 1e18)
        return torch.where(finite, found, torch.zeros_like(found))

    DPOptimizer._get_flat_grad_sample = fixed


@functools.lru_cache(maxsize=None)
def all_pairs():
    """OpenDP issue 2950: a record more changes two predictions, so the map counts both."""
    changed(
        "opendp.extras.sklearn.linear_model._make_private_theil_sen",
        "stability_map=lambda b_in: b_in * runs,",
        "stability_map=lambda b_in: 2 * b_in * runs,",
    )


def on_grid(table, mechanism, exact):
    return round(exact(table) / GRID) * GRID + round(mechanism([]) / GRID) * GRID


def _after(patch, module, name, *arguments):
    def mechanism(table):
        patch(*arguments)
        return getattr(importlib.import_module(module), name)(table)

    return mechanism


bounds_linear_regression = _after(regression_bounds, "diffprivlib_claims", "linear_regression")
bounds_linear_regression_intercept = _after(regression_bounds, "diffprivlib_claims", "linear_regression_intercept")
centring_linear_regression_intercept = _after(regression_centring, "diffprivlib_claims", "linear_regression_intercept")
bounds_linear_regression_any_rows = bounds_linear_regression
bounds_linear_regression_intercept_any_rows = bounds_linear_regression_intercept
grid_laplace = _after(whole_grid, "diffprivlib_claims", "laplace", "Laplace")
grid_gaussian = _after(whole_grid, "diffprivlib_claims", "gaussian", "Gaussian")
grid_gaussian_analytic = _after(whole_grid, "diffprivlib_claims", "gaussian_analytic", "GaussianAnalytic")
divisor_one_step = _after(public_divisor, "opacus_claims", "one_step")
divisor_one_epoch = _after(public_divisor, "opacus_claims", "one_epoch")
divisor_one_epoch_fixed_batches = _after(public_divisor, "opacus_claims", "one_epoch_fixed_batches")
divisor_adaptive_clipping = _after(public_divisor, "opacus_claims", "adaptive_clipping")
count_adaptive_clipping = _after(public_count, "opacus_claims", "adaptive_clipping")
divisor_one_step_any_features = _after(public_divisor, "opacus_claims", "one_step_any_features")
finite_one_step_any_features = _after(finite_gradients, "opacus_claims", "one_step_any_features")
pairs_theil_sen = _after(all_pairs, "opendp_claims", "theil_sen")


def grid_numpy_laplace(table):
    from naive_claims import numpy_laplace

    return on_grid(table, numpy_laplace, sum)


def grid_inverse_laplace(table):
    from naive_claims import inverse_laplace

    return on_grid(table, inverse_laplace, sum)


def grid_numpy_gaussian(table):
    from naive_claims import numpy_gaussian

    return on_grid(table, numpy_gaussian, sum)
