"""The table fitted in diffprivlib, in a cold process."""

import sys
import warnings
from importlib.metadata import version

import fit_task
from diffprivlib.models import LogisticRegression

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = fit_task.read(sys.argv[1])
    model = LogisticRegression(epsilon=fit_task.EPSILON, data_norm=fit_task.FEATURES**0.5, random_state=0).fit(X, y)
    fit_task.report(model.predict(X_test), y_test, {name: version(name) for name in ("diffprivlib", "numpy")})
