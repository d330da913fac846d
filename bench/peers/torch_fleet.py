"""The fleet in PyTorch one model after another, under torch.func.vmap, and in Opacus one model after another."""

import copy

import fleet_task as task
import opacus
import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch.func import functional_call, grad, stack_module_state, vmap

torch.set_num_threads(1)
torch.manual_seed(0)
X, Y = (torch.from_numpy(column) for column in task.data())
PRIVATE = {
    "noise_multiplier": task.NOISE_MULTIPLIER,
    "max_grad_norm": task.CLIP_NORM,
    "expected_batch_size": task.BATCH,
}


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(task.FEATURES, task.HIDDEN), torch.nn.Tanh(), torch.nn.Linear(task.HIDDEN, 1)
    )


def half_squares(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 0.5 * ((scores[:, 0] - y) ** 2).mean()


def one(module: torch.nn.Module, optimiser: torch.optim.Optimizer, steps: int) -> torch.nn.Module:
    for _ in range(steps):
        chosen = torch.randint(task.ROWS, (task.BATCH,))
        optimiser.zero_grad(set_to_none=True)
        half_squares(module(X[chosen]), Y[chosen]).backward()
        optimiser.step()
    return module


def plain(steps: int) -> torch.nn.Module:
    module = network()
    return one(module, torch.optim.SGD(module.parameters(), lr=task.STEP_SIZE), steps)


def private(steps: int) -> torch.nn.Module:
    module = GradSampleModule(network())
    return one(module, DPOptimizer(torch.optim.SGD(module.parameters(), lr=task.STEP_SIZE), **PRIVATE), steps)


def vectorised(steps: int) -> torch.nn.Module:
    modules = [network() for _ in range(task.MODELS)]
    parameters, buffers = stack_module_state(modules)
    base = copy.deepcopy(modules[0]).to("meta")

    def loss(parameters, buffers, X, y):
        return half_squares(functional_call(base, (parameters, buffers), (X,)), y)

    gradients = vmap(grad(loss))
    with torch.no_grad():
        for _ in range(steps):
            chosen = torch.randint(task.ROWS, (task.MODELS, task.BATCH))
            moves = gradients(parameters, buffers, X[chosen], Y[chosen])
            for name, move in moves.items():
                parameters[name].sub_(move, alpha=task.STEP_SIZE)
        for name, values in modules[0].named_parameters():
            values.copy_(parameters[name][0])
    return modules[0]


def explained(module: torch.nn.Module) -> float:
    with torch.no_grad():
        return task.explained(module(X)[:, 0].numpy())


if __name__ == "__main__":
    rates = {
        "torch, one after another": task.model_steps_per_cpu_second(plain, 2000, 1),
        "torch.func.vmap": task.model_steps_per_cpu_second(vectorised, 300, task.MODELS),
        "opacus, one after another": task.model_steps_per_cpu_second(private, 300, 1),
    }
    found = {name: explained(way(2000)) for name, way in {"torch": plain, "torch.func": vectorised}.items()}
    task.report(rates, found, {"torch": torch.__version__, "opacus": opacus.__version__})
