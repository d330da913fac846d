"""OpenDP: what the privacy map of a measurement says, and nothing else.

Written before any hunt and the same for every version from 0.1 to 0.16, whose constructors have had several names.
Noise is chosen so that the library's own map answers the claimed number. Under zero-concentrated privacy rho is
claimed as what it implies for epsilon at delta 0.1 (Canonne, Kamath & Steinke 2020, proposition 12, the best order,
rounded up). Neighbours differ by one record, or have one replaced where the library takes the size as known.
"""

import functools

import numpy as np

UNIT = {"low": -1.0, "high": 3.0}
NUMBERS = {"records": UNIT, "size": [0, 6]}
SIZED = {"records": UNIT, "size": [4, 4]}
WHOLE = {"records": {"low": -2, "high": 3, "whole": True}, "size": [0, 6]}
SCORES = {"records": [{"values": [-1, 1, 0]}, {"values": [-1, 1, 0]}, {"values": [-1, 1, 0]}], "size": [0, 6]}
TWO_SCORES = {"records": [{"values": [-1, 1, 0]}, {"values": [-1, 1, 0]}], "size": [0, 6]}
POINTS = {"records": [{"low": 0.0, "high": 1.0}, {"low": 0.0, "high": 1.0}], "size": [4, 9]}
GROUPS = {"records": {"values": ["a", "b", "c"]}, "size": [0, 6]}


def claim(domain, epsilon=1.0, delta=0.0, relation="add-remove", arithmetic="exact"):
    return {"epsilon": epsilon, "delta": delta, "relation": relation, "domain": domain, "arithmetic": arithmetic}


CLAIMS = {
    "count": claim(WHOLE),
    "integer_sum": claim(WHOLE),
    "float_sum": claim(NUMBERS),
    "float_sum_real": claim(NUMBERS, arithmetic="real"),
    "float_sum_gaussian": claim(NUMBERS, 1.0, 1e-2),
    "sized_mean": claim(SIZED, relation="replace-one"),
    "sized_variance": claim(SIZED, relation="replace-one"),
    "median": claim(NUMBERS),
    "noisy_max": claim(SCORES),
    "noisy_max_concentrated": claim(SCORES, 1.66, 0.1),
    # Added when the claim above was not refuted: less noise to tell, two scores.
    "noisy_max_two": claim(TWO_SCORES, 0.52, 0.1),
    "count_by": claim(GROUPS, 1.0, 1e-2),
    "theil_sen": claim(POINTS, 2.0),
}


def _library():
    """Transformations, measurements and the module of features, by the names of this version."""
    try:
        import opendp.measurements as m
        import opendp.transformations as t
    except ImportError:
        import opendp.meas as m
        import opendp.trans as t
    import opendp.mod as mod

    for feature in ("contrib", "floating-point", "honest-but-curious"):
        mod.enable_features(feature)
    return t, m


def _scale(make, wanted, d_in):
    """The least noise, to a part in 10^6, for which the library's own map does not exceed what is wanted."""
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = (low * high) ** 0.5
        measurement = make(middle)
        try:
            fits = measurement.map(d_in) <= wanted
        except AttributeError:
            fits = measurement.check(d_in, wanted)
        low, high = (low, middle) if fits else (middle, high)
        if high / low < 1 + 1e-6:
            break
    return make(high)


def _space(dp, kind):
    return dp.vector_domain(dp.atom_domain(T=kind)), dp.symmetric_distance()


def _clamped(kind, bounds):
    """Data clamped to bounds, ready for an aggregate, and the constructor of the sum for that type."""
    t, _ = _library()
    try:
        import opendp.prelude as dp

        space = dp.vector_domain(dp.atom_domain(T=kind, nan=False) if kind is float else dp.atom_domain(T=kind))
        return dp.t.make_clamp(space, dp.symmetric_distance(), bounds)
    except (ImportError, TypeError):
        try:
            return t.make_clamp(bounds=bounds)
        except TypeError:
            return t.make_clamp(lower=bounds[0], upper=bounds[1])


def _summed(kind, bounds):
    t, _ = _library()
    clamped = _clamped(kind, bounds)
    for build in (
        lambda: clamped >> t.then_sum(),
        lambda: clamped >> t.make_sum(clamped.output_domain, clamped.output_metric),
        lambda: clamped >> t.make_bounded_sum(bounds=bounds),
        lambda: clamped >> t.make_bounded_sum(lower=bounds[0], upper=bounds[1]),
    ):
        try:
            return build()
        except (AttributeError, TypeError):
            continue
    raise NotImplementedError("no sum in this version")


def _laplace(before, kind):
    _, m = _library()
    if hasattr(m, "make_laplace"):
        return lambda scale: before >> m.make_laplace(before.output_domain, before.output_metric, scale=scale)
    if kind is int:
        build = m.make_base_discrete_laplace if hasattr(m, "make_base_discrete_laplace") else m.make_base_geometric
        return lambda scale: before >> build(scale=scale)
    return lambda scale: before >> m.make_base_laplace(scale=scale)


@functools.lru_cache(maxsize=None)
def _measurement(name):
    _library()
    return BUILDERS[name]()


def _count():
    t, _ = _library()
    try:
        import opendp.prelude as dp

        before = dp.t.make_count(*_space(dp, int))
    except ImportError:
        before = t.make_count(TIA=int)
    return _scale(_laplace(before, int), 1.0, 1)


def _float_sum_gaussian():
    _, m = _library()
    before = _summed(float, (0.0, 1.0))
    if hasattr(m, "make_gaussian"):
        # A rho of 0.0925 is an epsilon of 0.932 at delta 0.01.
        return _scale(
            lambda scale: before >> m.make_gaussian(before.output_domain, before.output_metric, scale), 0.0925, 1
        )
    return _scale(lambda scale: before >> m.make_base_gaussian(scale=scale), (1.0, 1e-2), 1)


def _sized(build):
    import opendp.prelude as dp

    domain = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0), nan=False), size=4)
    before = build(dp)(domain, dp.symmetric_distance())
    clamp = dp.t.make_clamp(
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=4), dp.symmetric_distance(), (0.0, 1.0)
    )
    return _scale(_laplace(clamp >> before, float), 1.0, 2)


def _median():
    import opendp.prelude as dp

    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    candidates = [0.0, 0.25, 0.5, 0.75, 1.0]
    return _scale(lambda scale: dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, 0.5, scale), 1.0, 1)


def _noisy_max(measure, wanted):
    import opendp.prelude as dp

    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    return _scale(lambda scale: dp.m.make_noisy_max(*space, getattr(dp, measure)(), scale), wanted, 1)


def _theil_sen():
    import opendp.prelude as dp
    from opendp.extras.sklearn.linear_model._make_private_theil_sen import make_private_theil_sen

    return _scale(
        lambda scale: make_private_theil_sen(
            dp.max_divergence(), (0.0, 1.0), (0.0, 1.0), scale=scale, candidates_count=5
        ),
        2.0,
        1,
    )


def _count_by():
    import opendp.prelude as dp

    before = dp.t.make_count_by(*_space(dp, str), TV=int)
    # Scale 1.2 and a threshold of 8 are 0.834 and less than 0.004, by the library's map.
    made = before >> dp.m.make_laplace_threshold(before.output_domain, before.output_metric, 1.2, 8)
    epsilon, delta = made.map(1)
    assert epsilon <= 1.0
    assert delta <= 1e-2
    return made


BUILDERS = {
    "count": _count,
    "integer_sum": lambda: _scale(_laplace(_summed(int, (0, 2)), int), 1.0, 1),
    "float_sum": lambda: _scale(_laplace(_summed(float, (0.0, 1.0)), float), 1.0, 1),
    "float_sum_gaussian": _float_sum_gaussian,
    "sized_mean": lambda: _sized(lambda dp: dp.t.make_mean),
    "sized_variance": lambda: _sized(lambda dp: dp.t.make_variance),
    "median": _median,
    "noisy_max": lambda: _noisy_max("max_divergence", 1.0),
    "noisy_max_concentrated": lambda: _noisy_max("zero_concentrated_divergence", 0.5),
    "noisy_max_two": lambda: _noisy_max("zero_concentrated_divergence", 0.125),
    "count_by": _count_by,
    "theil_sen": _theil_sen,
}


def count(table):
    return _measurement("count")([int(one) for one in table])


def integer_sum(table):
    return _measurement("integer_sum")([int(one) for one in table])


def float_sum(table):
    return _measurement("float_sum")([float(one) for one in table])


float_sum_real = float_sum


def float_sum_gaussian(table):
    return _measurement("float_sum_gaussian")([float(one) for one in table])


def sized_mean(table):
    return _measurement("sized_mean")([float(one) for one in table])


def sized_variance(table):
    return _measurement("sized_variance")([float(one) for one in table])


def median(table):
    return _measurement("median")([float(one) for one in table])


def noisy_max(table):
    return _measurement("noisy_max")([int(sum(row[place] for row in table)) for place in range(3)])


def noisy_max_concentrated(table):
    return _measurement("noisy_max_concentrated")([int(sum(row[place] for row in table)) for place in range(3)])


def noisy_max_two(table):
    return _measurement("noisy_max_two")([int(sum(row[place] for row in table)) for place in range(2)])


def count_by(table):
    return dict(_measurement("count_by")(list(table)))


def theil_sen(table):
    return list(_measurement("theil_sen")(np.array(table, dtype=float)))
