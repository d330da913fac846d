"""Logistic regression by DP-SGD in Opacus: per-example gradients, its optimiser, Poisson batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import opacus
import torch
import utility_task
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer

torch.set_num_threads(1)


def fit(X: np.ndarray, y: np.ndarray, job: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    generator = np.random.default_rng(job["seed"])
    torch.manual_seed(job["seed"])
    rows, labels = torch.from_numpy(X.astype(np.float32)), torch.from_numpy((y > 0).astype(np.float32))[:, None]
    layer = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    module = GradSampleModule(layer)
    optimiser = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=job["step_size"]),
        noise_multiplier=job["noise_multiplier"],
        max_grad_norm=job["clip"],
        expected_batch_size=max(1, round(job["rate"] * len(X))),
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(job["steps"]):
        chosen = torch.from_numpy(utility_task.poisson_batch(generator, len(X), job["rate"]))
        if not len(chosen):
            continue
        optimiser.zero_grad(set_to_none=True)
        loss(module(rows[chosen]), labels[chosen]).backward()
        optimiser.step()
    weights = layer.weight.detach().numpy()[0].astype(np.float64)
    return lambda held: held @ weights


if __name__ == "__main__":
    utility_task.classify(fit, {"opacus": opacus.__version__, "torch": torch.__version__})
