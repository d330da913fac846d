"""The paper's Tables 2, 6 and 7 beside ours: sets, settings of DP-VI, and the epsilon that those settings certify."""

from sordino.accounting.evaluate import tightest
from sordino.core.relation import Relation
from sordino.core.spec import ConstantSchedule, Sampling, Spec, Variational
from sordino.core.view import View
from sordino.reproduce.cells import Cell, Upper
from sordino.reproduce.table import Table
from sordino.reproduce.vinaroz_park import chosen
from sordino.reproduce.vinaroz_park.budget import DELTA
from sordino.reproduce.vinaroz_park.published import TABLE_2, TABLES_6_AND_7, VariationalSettings

_TRAINING_SHARE = 0.9


def training_records(name: str) -> int:
    """Records that the paper trains on: nine in ten."""
    return round(_TRAINING_SHARE * TABLE_2[name][0])


def published_spec(name: str) -> Spec:
    """DP-VI as in Table 7, read generously: Poisson batches, add-remove, sigma in units of the clip."""
    printed, records = TABLES_6_AND_7[name], training_records(name)
    algorithm = Variational(
        records=records,
        steps=printed.epochs * round(records / printed.batch),
        sampling=Sampling.POISSON,
        batch=printed.batch,
        clip=printed.clip,
        noise_multiplier=ConstantSchedule(printed.noise_multiplier),
        step_size=ConstantSchedule(printed.learning_rate),
    )
    return Spec(algorithm=algorithm, relation=Relation.ADD_REMOVE, view=View.POSTERIOR_PARAMETERS)


def settings_table() -> Table:
    """A row a set and a source; the last column is the registry's epsilon for the printed noise."""
    rows: list[tuple[Cell, ...]] = []
    ours = chosen.network("gaussian")
    for name, printed in TABLES_6_AND_7.items():
        found = tightest(published_spec(name), DELTA)
        rows.append(
            (
                name,
                *TABLE_2[name],
                "paper",
                *_printed(printed),
                None if found is None else Upper(found.guarantee.epsilon(DELTA)),
            )
        )
        if name != "year":
            first, last = ours.first_step, ours.last_step
            rate, records = f"{first:g} to {last:g}", training_records(name)
            own: tuple[Cell, ...] = (ours.steps, records, rate, ours.noise_precision, 1, 1, 1, ours.clip, None)
            rows.append((name, *TABLE_2[name], "ours", *own, Upper(1.0)))
    columns = (
        "set",
        "records",
        "features",
        "whose",
        "epochs",
        "batch",
        "learning rate",
        "noise precision",
        "prior precision",
    )
    caption = (
        "Tables 2, 6 and 7: sets, and the settings of DP-VI. Ours: all records a round (an epoch is a round), one "
        "setting for all sets, noise from the budget, replace-one. The paper's epsilon is what the registry certifies "
        "for its printed noise with Poisson batches under add-remove, which is the most favourable reading; the paper "
        "says about 1."
    )
    return Table(
        "settings", (*columns, "draws", "beta", "clip", "noise multiplier", "certified epsilon"), tuple(rows), caption
    )


def _printed(one: VariationalSettings) -> tuple[Cell, ...]:
    return (
        one.epochs,
        one.batch,
        one.learning_rate,
        one.noise_precision,
        one.prior_precision,
        one.private_draws,
        one.beta,
        one.clip,
        one.noise_multiplier,
    )
