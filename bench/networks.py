"""Clipped images a second: Sordino's clipped sums beside opacus, jax-privacy, and training without privacy.

    python bench/networks.py --out networks.json [--network cnn|mlp] [--batch 4096] [--peers FOLDER]

Every contender runs in a process of its own: the same network (the small convolutional one of opacus's MNIST example,
or a dense one of 784-256-10), the same batch on the device, a clip of 1. Timed is what a step needs before noise: the
sum of clipped gradients, in whole numbers for Sordino, or the plain gradient; the best of five rounds counts. FOLDER
holds packages that are not installed (opacus, jax-privacy and what they need); installed ones come first. Recorded rows
of *sordino* and *sordino mixed* are of sums in single precision, which the package no longer has.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONTENDERS = (
    "plain jax",
    "sordino exact",
    "plain jax mixed",
    "naive jax",
    "jax-privacy",
    "plain torch",
    "opacus hooks",
    "opacus ghost",
    "opacus functorch",
    "opacus ew",
)
SECONDS = 100


def rate(call: Callable[[], Any], wait: Callable[[Any], Any], images: int, on_processor: bool) -> float:
    """Images a second, the best of five rounds of about a third of a second.

    On a processor seconds are those of the processor: on a busy machine the wall clock is kind to short calls.
    """
    clock = time.process_time if on_processor else time.perf_counter
    for _ in range(2):
        wait(call())
    begun = clock()
    wait(call())
    number = max(1, min(200, int(0.3 / max(clock() - begun, 1e-6))))
    best = 0.0
    for _ in range(5):
        begun = clock()
        for _ in range(number):
            # Each call is waited for: where calls run side by side, the last one may end before the others.
            wait(call())
        best = max(best, number * images / (clock() - begun))
    return best


def in_jax(contender: str, network: str, batch: int) -> float:
    """Sordino, jax-privacy, per-example gradients by vmap, or a plain gradient."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    sys.path.insert(0, str(ROOT / "examples" / "mnist"))
    import digits  # noqa: PLC0415

    key = jax.random.key(0)
    images, labels = jax.random.uniform(key, (batch, 28, 28)), jax.random.randint(key, (batch,), 0, 10)
    if network == "cnn":
        params, scores = digits.network_start(key), digits.network_scores
    else:
        params = {"w": 0.05 * jax.random.normal(key, (784, 256)), "b": jnp.zeros(256)}
        params |= {"v": 0.05 * jax.random.normal(key, (256, 10)), "c": jnp.zeros(10)}

        def scores(params: Any, image: Any) -> Any:
            return jax.nn.relu(image.reshape(-1) @ params["w"] + params["b"]) @ params["v"] + params["c"]

    def loss(params: Any, example: Any) -> Any:
        return digits.cross_entropy(scores(params, example[0]), example[1])

    examples = (images, labels)
    if contender.endswith("mixed"):
        half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
        halves = (images.astype(jnp.bfloat16), labels)
    if contender.startswith("plain"):
        given = (half, halves) if contender.endswith("mixed") else (params, examples)
        precision = "default" if contender.endswith("mixed") else "highest"

        def total(params: Any, examples: Any) -> Any:
            with jax.default_matmul_precision(precision):
                return jnp.sum(jax.vmap(loss, in_axes=(None, 0))(params, examples))

        step = jax.jit(jax.grad(total))
    elif contender.startswith("sordino"):
        from sordino.mechanisms.networks.integer_sums import WholeSums  # noqa: PLC0415

        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), examples)
        # As a run does: where the device's own products differ by place, products of whole numbers.
        sums = WholeSums(loss, 1.0, params, one, batch, 1.0, batch)
        if not sums.places_alike(params, np.random.default_rng(0)):
            sums = WholeSums(loss, 1.0, params, one, batch, 1.0, batch, own_bits=True)
        given, nothing = (params, examples, jnp.ones(batch)), sums.zeros()

        def step(*given: Any) -> Any:
            return sums.plus(nothing, *given)
    elif contender == "naive jax":

        def clipped(params: Any, examples: Any) -> Any:
            gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, examples)
            leaves = jax.tree.leaves(gradients)
            squares = sum(jnp.sum(jnp.square(leaf.reshape(batch, -1)), axis=1) for leaf in leaves)
            weights = jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.sqrt(squares), 1e-30))
            return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), gradients)

        given, step = (params, examples), jax.jit(clipped)
    else:
        from jax_privacy.clipping import clipped_grad  # noqa: PLC0415

        given = (params, examples)
        step = jax.jit(clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=1, keep_batch_dim=False))
    return rate(lambda: step(*given), jax.block_until_ready, batch, jax.default_backend() == "cpu")


def in_torch(contender: str, network: str, batch: int) -> float:
    """Opacus in one of its modes, or a plain gradient."""
    import torch  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = [nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)]
    if network == "cnn":
        layers = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU()]
        layers += [nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)]
    model = nn.Sequential(*layers).to(device)
    images, labels = torch.rand(batch, 1, 28, 28, device=device), torch.randint(0, 10, (batch,), device=device)
    optimiser, criterion = torch.optim.SGD(model.parameters(), lr=0.0), nn.CrossEntropyLoss()
    if contender != "plain torch":
        from opacus import PrivacyEngine  # noqa: PLC0415

        mode = contender.split()[1]
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=batch)
        settings = {"noise_multiplier": 0.0, "max_grad_norm": 1.0, "poisson_sampling": False, "grad_sample_mode": mode}
        engine = PrivacyEngine()
        if mode == "ghost":
            model, optimiser, criterion, _ = engine.make_private(
                module=model, optimizer=optimiser, criterion=criterion, data_loader=loader, **settings
            )
        else:
            model, optimiser, _ = engine.make_private(module=model, optimizer=optimiser, data_loader=loader, **settings)

    def step() -> None:
        optimiser.zero_grad()
        criterion(model(images), labels).backward()
        if contender != "plain torch":
            optimiser.step()

    def wait(_: Any) -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    return rate(step, wait, batch, device == "cpu")


def measured(contender: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One contender in a process of its own; what failed says why."""
    command = [sys.executable, __file__, "--contender", contender, "--network", asked.network]
    command += ["--batch", str(asked.batch), *(["--peers", str(asked.peers)] if asked.peers else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"contender": contender, "failed": f"not done in {SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"contender": contender, "failed": (done.stderr.strip().splitlines() or ["nothing said"])[-1][:300]}
    return {"contender": contender, **json.loads(lines[-1])}


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    found = {}
    for name in ("jax", "torch", "opacus", "jax-privacy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Measure all, or one contender for the process that asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--network", choices=("cnn", "mlp"), default="cnn")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--peers", type=Path, default=None)
    parser.add_argument("--contender", choices=CONTENDERS, default=None)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    asked = parser.parse_args()
    if asked.peers is not None:
        sys.path.append(str(asked.peers.resolve()))
    if asked.contender is not None:
        in_one = in_torch if asked.contender.startswith(("opacus", "plain torch")) else in_jax
        found = in_one(asked.contender, asked.network, asked.batch)
        sys.stdout.write(json.dumps({"images_per_second": found}) + "\n")
        return
    rows = [measured(contender, asked) for contender in asked.only]
    answer = {"network": asked.network, "batch": asked.batch, "versions": versions(), "rows": rows}
    text = json.dumps(answer, indent=1) + "\n"
    sys.stdout.write(text)
    if asked.out is not None:
        asked.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
