"""The table fitted in Sordino, in a cold process: reading, choosing a method, fitting, certifying, predicting."""

import sys
from importlib.metadata import version

import fit_task

from sordino.estimators import ArrayBounds, PrivateLogisticRegression

if __name__ == "__main__":
    X, y, X_test, y_test = fit_task.read(sys.argv[1])
    model = PrivateLogisticRegression(
        epsilon=fit_task.EPSILON,
        delta=fit_task.DELTA,
        relation="add-remove",
        schema=ArrayBounds(-1, 1, classes=(0, 1), records=len(X)),
        random_state=0,
    ).fit(X, y)
    fit_task.report(model.predict(X_test), y_test, {name: version(name) for name in ("jax", "numpy")})
