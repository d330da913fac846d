"""diffprivlib: what its documentation claims of each function, for tables of the declared domain, and nothing else.

Written before any hunt and the same for every version: a function takes a list of records and returns what the
library releases. Bounds, norms and classes are declared, as the documentation asks, so that no claim is excused by a
warning about a leak. The library does not say which neighbours it means; where the size of a table is used as public,
replace-one is the only reading. Counts are claimed under add-remove. Noise is claimed over real numbers, except for
the mechanisms that the documentation calls secure against attacks on floating-point numbers.
"""

import numpy as np

UNIT = {"low": -1.0, "high": 3.0}
NUMBERS = {"records": UNIT, "size": [1, 8]}
COUNTED = {"records": UNIT, "size": [0, 8]}
ANY_POINTS = {"records": [UNIT, UNIT], "size": [3, 8]}
POINTS = {"records": [{"low": 0.0, "high": 1.0}, {"low": 0.0, "high": 1.0}], "size": [3, 8]}
LABELLED = {"records": [{"low": -2.0, "high": 2.0}, {"low": -2.0, "high": 2.0}, {"values": [0, 1]}], "size": [4, 8]}
ONE_NUMBER = {"records": {"low": 0.0, "high": 1.0}, "size": [1, 1]}
WITH_NAN = {"records": {"low": -1.0, "high": 3.0, "special": True}, "size": [2, 8]}


def claim(domain, relation="replace-one", epsilon=1.0, delta=0.0, arithmetic="real"):
    return {"epsilon": epsilon, "delta": delta, "relation": relation, "domain": domain, "arithmetic": arithmetic}


CLAIMS = {
    "mean": claim(NUMBERS),
    "var": claim(NUMBERS),
    "std": claim(NUMBERS),
    "sum_": claim(NUMBERS),
    "nanmean": claim(WITH_NAN),
    "nansum": claim(WITH_NAN),
    "nanvar": claim(WITH_NAN),
    "count_nonzero": claim(COUNTED, "add-remove"),
    "histogram": claim(COUNTED, "add-remove"),
    "median": claim(NUMBERS),
    "quantile": claim(NUMBERS),
    "linear_regression": claim(POINTS),
    "linear_regression_intercept": claim(POINTS),
    "linear_regression_any_rows": claim(ANY_POINTS),
    "linear_regression_intercept_any_rows": claim(ANY_POINTS),
    "logistic_regression": claim(LABELLED),
    # Added when the claim above was refuted by the exception for tables of one class: two public rows, one of each.
    "logistic_regression_both_classes": claim(LABELLED),
    "gaussian_nb": claim(LABELLED),
    "k_means": claim(POINTS),
    "pca": claim(POINTS),
    "standard_scaler": claim(POINTS),
    "forest": claim(LABELLED),
    "laplace": claim(ONE_NUMBER, arithmetic="exact"),
    "gaussian": claim(ONE_NUMBER, delta=1e-5, epsilon=0.5, arithmetic="exact"),
    "gaussian_analytic": claim(ONE_NUMBER, delta=1e-5, arithmetic="exact"),
    "laplace_truncated": claim(ONE_NUMBER),
    "laplace_folded": claim(ONE_NUMBER),
    "laplace_bounded": claim(ONE_NUMBER),
    "staircase": claim(ONE_NUMBER),
    "uniform": claim(ONE_NUMBER, epsilon=0.0, delta=0.2),
    "snapping": claim(ONE_NUMBER, arithmetic="exact"),
    "geometric": claim({"records": {"low": 0, "high": 1, "whole": True}, "size": [1, 1]}, arithmetic="exact"),
}


def mean(table):
    from diffprivlib import tools

    return tools.mean(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def var(table):
    from diffprivlib import tools

    return tools.var(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def std(table):
    from diffprivlib import tools

    return tools.std(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def sum_(table):
    from diffprivlib import tools

    return tools.sum(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def nanmean(table):
    from diffprivlib import tools

    return tools.nanmean(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def nansum(table):
    from diffprivlib import tools

    return tools.nansum(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def nanvar(table):
    from diffprivlib import tools

    return tools.nanvar(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def count_nonzero(table):
    from diffprivlib import tools

    return tools.count_nonzero(np.array(table, float), epsilon=1.0)


def histogram(table):
    from diffprivlib import tools

    return tools.histogram(np.array(table, float), epsilon=1.0, bins=4, range=(0, 1))[0]


def median(table):
    from diffprivlib import tools

    return tools.median(np.array(table, float), epsilon=1.0, bounds=(0, 1))


def quantile(table):
    from diffprivlib import tools

    return tools.quantile(np.array(table, float), 0.25, epsilon=1.0, bounds=(0, 1))


def _regression(table, fit_intercept):
    from diffprivlib.models import LinearRegression

    rows = np.array(table, float)
    model = LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1), fit_intercept=fit_intercept)
    model.fit(rows[:, :1], rows[:, 1])
    return [float(np.ravel(model.coef_)[0]), float(np.ravel(model.intercept_)[0])]


def linear_regression(table):
    return _regression(table, False)


def linear_regression_intercept(table):
    return _regression(table, True)


linear_regression_any_rows, linear_regression_intercept_any_rows = linear_regression, linear_regression_intercept


def logistic_regression(table):
    from diffprivlib.models import LogisticRegression

    rows = np.array(table, float)
    model = LogisticRegression(epsilon=1.0, data_norm=1.0, C=0.1)
    model.fit(rows[:, :2], rows[:, 2])
    return [*np.ravel(model.coef_), *np.ravel(model.intercept_)]


def logistic_regression_both_classes(table):
    return logistic_regression([*table, [0.0, 0.0, 0], [0.0, 0.0, 1]])


def gaussian_nb(table):
    from diffprivlib.models import GaussianNB

    rows = np.array(table, float)
    model = GaussianNB(epsilon=1.0, bounds=(-1, 1))
    model.partial_fit(rows[:, :2], rows[:, 2], classes=[0, 1])
    spread = model.var_ if hasattr(model, "var_") else model.sigma_
    return [*np.ravel(model.theta_), *np.ravel(spread), *np.ravel(model.class_count_)]


def k_means(table):
    from diffprivlib.models import KMeans

    return KMeans(n_clusters=2, epsilon=1.0, bounds=(0, 1)).fit(np.array(table, float)).cluster_centers_


def pca(table):
    from diffprivlib.models import PCA

    model = PCA(n_components=1, epsilon=1.0, bounds=(0, 1), data_norm=1.0, centered=True)
    model.fit(np.array(table, float))
    return [*np.ravel(model.components_), *np.ravel(model.explained_variance_)]


def standard_scaler(table):
    from diffprivlib.models import StandardScaler

    model = StandardScaler(epsilon=1.0, bounds=(0, 1)).fit(np.array(table, float))
    return [*np.ravel(model.mean_), *np.ravel(model.var_)]


def forest(table):
    from diffprivlib.models import RandomForestClassifier

    rows = np.array(table, float)
    model = RandomForestClassifier(n_estimators=1, max_depth=1, epsilon=1.0, bounds=(-1, 1), classes=[0, 1])
    model.fit(rows[:, :2], rows[:, 2])
    return model.predict(np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]]))


def _released(name, table, **constants):
    from diffprivlib import mechanisms

    return getattr(mechanisms, name)(sensitivity=1.0, **constants).randomise(float(table[0]))


def laplace(table):
    return _released("Laplace", table, epsilon=1.0)


def gaussian(table):
    return _released("Gaussian", table, epsilon=0.5, delta=1e-5)


def gaussian_analytic(table):
    return _released("GaussianAnalytic", table, epsilon=1.0, delta=1e-5)


def laplace_truncated(table):
    return _released("LaplaceTruncated", table, epsilon=1.0, lower=0.0, upper=1.0)


def laplace_folded(table):
    return _released("LaplaceFolded", table, epsilon=1.0, lower=0.0, upper=1.0)


def laplace_bounded(table):
    return _released("LaplaceBoundedDomain", table, epsilon=1.0, lower=0.0, upper=1.0)


def staircase(table):
    return _released("Staircase", table, epsilon=1.0)


def uniform(table):
    return _released("Uniform", table, delta=0.2)


def snapping(table):
    return _released("Snapping", table, epsilon=1.0, lower=0.0, upper=1.0)


def geometric(table):
    from diffprivlib import mechanisms

    return mechanisms.Geometric(epsilon=1.0, sensitivity=1).randomise(int(table[0]))
