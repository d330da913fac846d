"""The audit task in jax-privacy: its auditor of canary scores, in the ways it offers."""

from importlib.metadata import version

import audit_task as task
from jax_privacy.auditing import Bonferroni, CanaryScoreAuditor, Split

RISK = 1.0 - task.CONFIDENCE


def _of_models(seed: int) -> CanaryScoreAuditor:
    without, with_record = task.releases(seed)
    return CanaryScoreAuditor(with_record, without)


def _of_one_run(seed: int) -> CanaryScoreAuditor:
    coins, scores = task.one_run(seed)
    return CanaryScoreAuditor(scores[coins], scores[~coins])


def all_thresholds(seed: int) -> float:
    found = _of_models(seed)
    return found.epsilon_clopper_pearson(RISK, task.DELTA, one_sided=False, threshold_strategy=Bonferroni())


def chosen_threshold(seed: int) -> float:
    found = _of_models(seed)
    return found.epsilon_clopper_pearson(RISK, task.DELTA, one_sided=False, threshold_strategy=Split(0.25, seed=seed))


def gaussian_pair(seed: int) -> float:
    return _of_models(seed).epsilon_from_gdp(RISK, task.DELTA)


def one_run(seed: int) -> float:
    return _of_one_run(seed).epsilon_one_run(RISK, task.DELTA, threshold_strategy=Split(0.25, seed=seed))


def one_run_all_thresholds(seed: int) -> float:
    return _of_one_run(seed).epsilon_one_run(RISK, task.DELTA, threshold_strategy=Bonferroni())


def one_run_gaussian(seed: int) -> float:
    return _of_one_run(seed).epsilon_one_run_fdp(RISK, task.DELTA, threshold_strategy=Split(0.25, seed=seed))


if __name__ == "__main__":
    ways = {
        "all thresholds": all_thresholds,
        "chosen threshold": chosen_threshold,
        "gaussian pair": gaussian_pair,
        "one run": one_run,
        "one run, all thresholds": one_run_all_thresholds,
        "one run, Gaussian": one_run_gaussian,
    }
    task.report(ways, {name: version(name) for name in ("jax-privacy", "numpy", "scipy")})
