"""Opacus: what its accountant says of a training run on a small table, and nothing else.

Written before any hunt and the same for every version from 0.12 to 1.6. A model of two weights has the loss -<w, x>,
so that a record's gradient is its features, shortened to length 1 by the library. All weights seen on the way are
returned: the accountant's epsilon is for all of them. In runs with batches the number of steps and the rate are the
same for every size of the domain: the library takes them as public. The claims are the epsilons of the library's own
Renyi accountant for the stated noise, the most over the sizes of the domain, rounded up, for neighbours that differ
by one record.
"""

import warnings

import numpy as np

FEATURES = [{"low": -2.0, "high": 2.0}, {"low": -2.0, "high": 2.0}]
ANYTHING = [{"low": None, "high": None}, {"low": None, "high": None}]
DELTA = 0.01


def claim(epsilon, records, smallest, largest):
    domain = {"records": records, "size": [smallest, largest]}
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "relation": "add-remove",
        "domain": domain,
        "arithmetic": "real",
    }


# One step on everything, noise 2: 1.129. Three steps at rate 1/3, Poisson, noise 1: 2.449.
CLAIMS = {
    "one_step": claim(1.13, FEATURES, 1, 6),
    "one_step_any_features": claim(1.13, ANYTHING, 1, 6),
    "one_epoch": claim(2.45, FEATURES, 5, 6),
    "one_epoch_fixed_batches": claim(2.45, FEATURES, 5, 6),
    "adaptive_clipping": claim(1.13, FEATURES, 1, 6),
    "ghost_clipping": claim(1.13, FEATURES, 1, 6),
}


def _trained(table, *, noise, batch_size, poisson=True, **options):
    """The weights after every step of one epoch, and the clipping bound where it is learnt."""
    import torch
    from opacus import PrivacyEngine

    warnings.simplefilter("ignore")
    data = torch.tensor(np.array(table, dtype=np.float64).reshape(-1, 2)).float()
    model = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    dataset = torch.utils.data.TensorDataset(data)
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size)
    criterion = Mean()
    if hasattr(PrivacyEngine, "make_private"):
        ghost = options.get("grad_sample_mode") == "ghost"
        made = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=1.0,
            poisson_sampling=poisson,
            **({"criterion": criterion} if ghost else {}),
            **options,
        )
        model, optimizer, *rest = made
        criterion, loader = (rest[0], rest[1]) if ghost else (criterion, rest[0])
    elif options:
        raise NotImplementedError("this version has no such option")
    else:
        loader = _earlier(PrivacyEngine, model, optimizer, dataset, noise, batch_size, poisson)  # rate 1/3, or 1
    seen = []
    for (batch,) in loader:
        optimizer.zero_grad()
        if len(batch) or hasattr(PrivacyEngine, "make_private"):
            criterion(model(batch), torch.zeros(len(batch), 1)).backward()
            optimizer.step()
        else:
            _empty_step(model, optimizer)
        seen.extend(float(weight) for parameter in model.parameters() for weight in parameter.detach().ravel())
    if options.get("clipping") == "adaptive":
        seen.append(float(optimizer.max_grad_norm))
    return seen


def _empty_step(model, optimizer):
    """Versions before 1.0: a step without records, where the version has such a step."""
    import inspect

    import torch

    if "is_empty" in inspect.signature(optimizer.step).parameters:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step(is_empty=True)


class Mean:
    """The loss -<w, x>, averaged; ghost clipping asks for an attribute and for losses one by one."""

    reduction = "mean"

    def __call__(self, scores, target):
        losses = -scores
        return losses.mean() if self.reduction == "mean" else losses


def _earlier(engine, model, optimizer, dataset, noise, batch_size, poisson):
    """Versions before 1.0 attach an engine to the optimiser; Poisson batches come from a sampler of the library."""
    import inspect

    import torch
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    rate = 1.0 if batch_size >= 8 else 1 / 3
    known = inspect.signature(engine.__init__).parameters
    chosen = {"poisson": poisson, "sample_size": 6} if "poisson" in known else {}
    attached = engine(model, sample_rate=rate, alphas=[2, 4, 8], noise_multiplier=noise, max_grad_norm=1.0, **chosen)
    attached.attach(optimizer)
    if not poisson:
        return torch.utils.data.DataLoader(dataset, batch_size=batch_size)
    taken = inspect.signature(UniformWithReplacementSampler.__init__).parameters
    sampler = UniformWithReplacementSampler(
        num_samples=len(dataset),
        sample_rate=rate,
        **({"generator": None} if "generator" in taken else {}),
    )
    return [(dataset[indices][0],) if indices else (dataset[:0][0],) for indices in sampler]


def one_step(table):
    return _trained(table, noise=2.0, batch_size=8)


def one_step_any_features(table):
    return _trained(table, noise=2.0, batch_size=8)


def one_epoch(table):
    return _trained(table, noise=1.0, batch_size=2)


def one_epoch_fixed_batches(table):
    return _trained(table, noise=1.0, batch_size=2, poisson=False)


def adaptive_clipping(table):
    return _trained(
        table,
        noise=2.0,
        batch_size=8,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=2.0,
    )


def ghost_clipping(table):
    return _trained(table, noise=2.0, batch_size=8, grad_sample_mode="ghost")
