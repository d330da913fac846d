"""One private regression over three hospitals with Flower: sites add whole numbers, the server adds noise once.

    pip install "flwr[simulation]"
    pip install --no-deps sordino && pip install jax scipy pyarrow jinja2 safetensors threadpoolctl
    python examples/flower/federated.py

A question of the fit follows from the public plan and the noised answers so far. So the server sends these answers, and
each site works out the question itself: no code and no pickle crosses the network. A site debits its own ledger before
its rows are read. The server adds the sites' sums, which are integers, and hands them to Sordino's noise port.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp
from flwr.common import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from sordino.accounting import gaussian
from sordino.core.bound import Relation
from sordino.ledger import Ledger
from sordino.mechanisms.regression import Declaration, plan, posterior
from sordino.mechanisms.regression.learn import steps
from sordino.mechanisms.regression.release import release_sums
from sordino.mechanisms.regression.rows import Given, InMemory
from sordino.noise.port import Summed, from_bytes, to_bytes, wide
from sordino.noise.randomness import SeededRandomness

EPSILON, DELTA, SITES = 1.0, 1e-6, (1000, 3000, 2000)
# Public, and the same everywhere: bounds, the number of records, the budget.
AGREED = plan(
    "logistic",
    Declaration((0.0, 0.0), (100.0, 1.0), ("number", "binary")),
    sum(SITES),
    Relation.REPLACE_ONE,
    epsilon=EPSILON,
    delta=DELTA,
)
# All sums together are one Gaussian mechanism of this noise: what a ledger is charged.
PRICE = gaussian(noise_multiplier=1 / AGREED.mu, relation="replace-one")


def rows(site: int) -> tuple[np.ndarray, np.ndarray]:
    """The private table of one hospital; here it is drawn."""
    generator = np.random.default_rng(site)
    age, treated = generator.uniform(20, 90, SITES[site]), generator.integers(0, 2, SITES[site])
    ill = generator.random(SITES[site]) < 1 / (1 + np.exp(-(age - 55) / 15 + treated))
    return np.column_stack([age, treated]), ill.astype(float)


def debited(site: int, folder: Path) -> None:
    """A site pays the whole price before it reads a row, once for all rounds of this fit."""
    book = Ledger.open(folder / f"site-{site}.ledger", f"hospital {site}", "replace-one", epsilon=2.0, delta=1e-5)
    book.debit(PRICE.bound(DELTA), PRICE.spec)


client = ClientApp()


@client.query()
def answer(message: Message, context: Context) -> Message:
    """The next sum of this site's rows, as bytes of 128-bit integers."""
    site = int(context.node_config["partition-id"])
    said = message.content["answers"]
    question = next(run := steps(AGREED))
    for name in said:
        question = run.send(said[name].numpy())
    sums = InMemory(AGREED, Given(*rows(site)))(question)
    reply = ConfigRecord({"sums": to_bytes(sums.sums), "units": sums.units, "exponent": sums.exponent})
    return Message(RecordDict({"sums": reply}), reply_to=message)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Ask the sites for one statistic after the other, add, and release with noise."""
    del context
    answers: dict[str, np.ndarray] = {}

    def total(question) -> Summed:
        content = RecordDict({"answers": ArrayRecord({name: Array(value) for name, value in answers.items()})})
        nodes = list(grid.get_node_ids())
        messages = [Message(content, dst_node_id=node, message_type=MessageType.QUERY) for node in nodes]
        added, units = wide(question.numbers), 0
        for reply in grid.send_and_receive(messages):
            found = reply.content["sums"]
            added += from_bytes(found["sums"], question.numbers)
            units += found["units"]
        return Summed(added, question.exponent, units)

    class Answers:
        """Noised answers, which every site may see."""

        def __init__(self) -> None:
            self.answered: dict[str, np.ndarray] = {}

        def add(self, name: str, sums: np.ndarray) -> None:
            answers[name] = np.asarray(sums)

    # For a real release: SecureRandomness(), whose noise nobody can repeat.
    together = release_sums(AGREED, total, SeededRandomness(7), kept=Answers())
    tables = [rows(site) for site in range(len(SITES))]
    X, y = (np.concatenate([table[place] for table in tables]) for place in range(2))
    joined = release_sums(AGREED, InMemory(AGREED, Given(X, y)), SeededRandomness(7))
    same = all(together.sums[name].tobytes() == sums.tobytes() for name, sums in joined.sums.items())
    law = posterior(AGREED, together)
    sys.stdout.write(f"coefficients {np.round(law.mean, 3)}\nthe same bits as the joined table: {same}\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for place in range(len(SITES)):
            debited(place, Path(folder))
    sys.stdout.write(f"certified epsilon {PRICE.epsilon(DELTA):.4f}\n")
    run_simulation(server, client, num_supernodes=len(SITES))
