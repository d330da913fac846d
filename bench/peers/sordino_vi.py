"""The variational task in Sordino; drawing batches, noise and weights is part of the time."""

from importlib.metadata import version

import task
import vi_task

from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, ConstantSchedule, NoisedSums, Scheme, Spec
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.networks.training import Descent
from sordino.mechanisms.variational.evidence_bound import FactorisedGaussian, VariationalOptions, run_variational
from sordino.models.families.networks import MLPRegression

X, Y = vi_task.data()
MODEL = MLPRegression(hidden=(vi_task.HIDDEN,), activation="tanh")
OPTIONS = VariationalOptions(
    family=FactorisedGaussian(first_deviation=vi_task.FIRST_DEVIATION), optimiser=Descent(1.0), start_scale=0.1
)


def with_sampling(sampling: Scheme):
    def timed(steps: int):
        algorithm = NoisedSums(
            query="gradients of the evidence bound",
            records=vi_task.ROWS,
            rounds=steps,
            sampling=Batch(sampling, vi_task.BATCH),
            contribution=vi_task.CLIP_NORM,
            noise_multiplier=ConstantSchedule(vi_task.NOISE_MULTIPLIER),
            options=(("step_size", vi_task.STEP_SIZE),),
        )
        spec = Spec(algorithm=algorithm, relation=Relation.ADD_REMOVE, view=View.POSTERIOR_PARAMETERS)
        return run_variational(spec, MODEL, X, Y, SeededRandomness(0), options=OPTIONS).phi[: vi_task.SIZE]

    return timed


if __name__ == "__main__":
    ways = {"poisson": with_sampling(Scheme.POISSON)}
    rates = {name: task.steps_per_cpu_second(way, 8192) for name, way in ways.items()}
    found = {name: vi_task.error(way(2000)) for name, way in ways.items()}
    task.report(rates, found, {name: version(name) for name in ("jax", "numpy")})
