"""The task in Opacus: a linear layer, batches indexed from one tensor, with both of its ways of clipping."""

import opacus
import task
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

torch.set_num_threads(1)
torch.manual_seed(0)
X, LABELS = (torch.from_numpy(column) for column in task.data())
TARGET = (LABELS[:, None] + 1.0) / 2.0
PRIVATE = {
    "noise_multiplier": task.NOISE_MULTIPLIER,
    "max_grad_norm": task.CLIP_NORM,
    "expected_batch_size": task.BATCH,
}


def linear() -> torch.nn.Module:
    layer = torch.nn.Linear(task.FEATURES, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    return layer


def per_example(steps: int) -> torch.Tensor:
    module = GradSampleModule(linear())
    optimiser = DPOptimizer(torch.optim.SGD(module.parameters(), lr=task.STEP_SIZE), **PRIVATE)
    return loop(module, optimiser, torch.nn.BCEWithLogitsLoss(), steps)


def ghost(steps: int) -> torch.Tensor:
    module = GradSampleModuleFastGradientClipping(linear(), max_grad_norm=task.CLIP_NORM, use_ghost_clipping=True)
    optimiser = DPOptimizerFastGradientClipping(torch.optim.SGD(module.parameters(), lr=task.STEP_SIZE), **PRIVATE)
    return loop(module, optimiser, DPLossFastGradientClipping(module, optimiser, torch.nn.BCEWithLogitsLoss()), steps)


def loop(module: torch.nn.Module, optimiser: DPOptimizer, criterion, steps: int) -> torch.Tensor:
    for _ in range(steps):
        chosen = torch.randint(task.ROWS, (task.BATCH,))
        optimiser.zero_grad(set_to_none=True)
        criterion(module(X[chosen]), TARGET[chosen]).backward()
        optimiser.step()
    return next(module.parameters()).detach()


if __name__ == "__main__":
    ways = {"per-example gradients": per_example, "ghost clipping": ghost}
    rates = {name: task.steps_per_cpu_second(way, 500) for name, way in ways.items()}
    found = {name: task.accuracy(way(1000).numpy()) for name, way in ways.items()}
    task.report(rates, found, {"opacus": opacus.__version__, "torch": torch.__version__})
