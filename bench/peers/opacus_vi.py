"""The variational task in Opacus: a module that draws its weights, per-example gradients by functorch."""

import math

import numpy as np
import opacus
import task
import torch
import vi_task
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer

torch.set_num_threads(1)
torch.manual_seed(0)
X, Y = (torch.from_numpy(column) for column in vi_task.data())
_ENDS = np.cumsum([vi_task.FEATURES * vi_task.HIDDEN, vi_task.HIDDEN, vi_task.HIDDEN]).tolist()


class GaussianNetwork(torch.nn.Module):
    """Means and log deviations of all weights; `standard` is redrawn before every step."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(0.1 * torch.randn(vi_task.SIZE))
        self.log_deviation = torch.nn.Parameter(torch.full((vi_task.SIZE,), math.log(vi_task.FIRST_DEVIATION)))
        self.standard = torch.zeros(vi_task.SIZE)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        theta = self.mean + torch.exp(self.log_deviation) * self.standard
        first, bias, second, last = torch.tensor_split(theta, _ENDS)
        return torch.tanh(rows @ first.view(vi_task.FEATURES, -1) + bias) @ second + last


def variational(steps: int) -> torch.Tensor:
    network = GaussianNetwork()
    module = GradSampleModule(network, strict=False, loss_reduction="mean")
    optimiser = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=vi_task.STEP_SIZE),
        noise_multiplier=vi_task.NOISE_MULTIPLIER,
        max_grad_norm=vi_task.CLIP_NORM,
        expected_batch_size=vi_task.BATCH,
    )
    for _ in range(steps):
        chosen = torch.randint(vi_task.ROWS, (vi_task.BATCH,))
        network.standard.normal_()
        optimiser.zero_grad(set_to_none=True)
        (0.5 * (module(X[chosen]) - Y[chosen]) ** 2).mean().backward()
        optimiser.step()
    return network.mean.detach()


if __name__ == "__main__":
    rates = {"functorch": task.steps_per_cpu_second(variational, 150)}
    found = {"functorch": vi_task.error(variational(1000).numpy())}
    task.report(rates, found, {"opacus": opacus.__version__, "torch": torch.__version__})
