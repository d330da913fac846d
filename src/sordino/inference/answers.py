"""What looks, checks and comparisons released, as tables."""

from dataclasses import replace
from typing import Any

from sordino.core.gaussian import show_up
from sordino.inference.contrasts import figure
from sordino.inference.table_formats import ResultTable, noised_figures
from sordino.ledger.release import StoredRelease

LOOK, CHECK, COMPARISON = "look", "check", "comparison"
ABOUT = (
    "Loss is 0 for a sure and right prediction and 1 for the worst: of classes -ln of the probability of the true one, "
    "over ln 20; of numbers the distance from the mean, over a quarter of the declared range. Predictions are those at "
    "the posterior's mean coefficients. A difference below 0 means that a model loses less than the first one."
)
_OPTIMISM = (
    "Rows that a model was fitted to flatter it a little; differential privacy itself bounds by how much, since no "
    "record moves a fit far."
)


def answer_table(release: StoredRelease) -> ResultTable:
    """The answers of a look as a table that writes itself as text, HTML, LaTeX and CSV."""
    percent = f"{100 * release.settings['level']:g} % interval"
    tables, flat = [], []
    for one in release.settings["answers"]:
        rows = [(row["name"], *noised_figures(row["value"], row["low"], row["high"])) for row in one["rows"]]
        tables.append(((one["question"], "answer", percent), tuple(rows or [("hidden by the noise", "", "")])))
        flat += [(one["question"], row["name"], row["value"], row["low"], row["high"]) for row in one["rows"]]
    names = ("question", "name", "value", "low", "high")
    columns = {name: [row[place] for row in flat] for place, name in enumerate(names)}
    return ResultTable("", tuple(tables), columns, (), release.cautions, (release.settings["about"],))


def answers_as_text(release: StoredRelease) -> str:
    """The answers of a look as tables for a terminal, without what `cautions` say."""
    return replace(answer_table(release), cautions=()).text()


def check_table(bands: list[dict[str, Any]], about: str, level: float, release: StoredRelease | None) -> ResultTable:
    """The bands of a check as a table."""
    header = ("predicted", "records", "off by", f"{100.0 * level:g} % interval")
    rows = tuple(
        (
            f"{figure(one['low'])} to {figure(one['high'])}",
            f"{one['count']:.0f}",
            "too few" if one["off"] is None else figure(one["off"]),
            "" if one["off_low"] is None else f"{figure(one['off_low'])} to {figure(one['off_high'])}",
        )
        for one in bands
    )
    if release is None:
        title = "Check on public rows: exact, and not charged."
        meant = "Rows must be public: the answer is a plain function of them. There is no noise and so no interval."
    else:
        seeded = "" if release.private else " NON-PRIVATE: made with a seed."
        title = f"Check on private rows, epsilon {show_up(release.epsilon)} at delta {release.delta:g}.{seeded}"
        meant = "Intervals are about the table itself; noise is the only error they count."
    columns = {name: [one[name] for one in bands] for name in ("low", "high", "count", "off", "off_low", "off_high")}
    return ResultTable(title, ((header, rows),), columns, (), (), (about, meant))


def comparison_table(models: list[dict[str, Any]], level: float, release: StoredRelease) -> ResultTable:
    """Models beside each other."""
    percent = f"{100.0 * level:g} %"
    header = ("model", "mean loss", f"{percent} interval", "difference", f"{percent} in the table", f"{percent} alike")
    rows = tuple(
        (
            one["name"],
            figure(one["loss"]),
            _ends((one["low"], one["high"])),
            figure(one["difference"]),
            _ends(one["table"]),
            _ends(one["alike"]),
        )
        for one in models
    )
    seeded = "" if release.private else " NON-PRIVATE: made with a seed."
    title = f"Models compared on private rows, epsilon {show_up(release.epsilon)} at delta {release.delta:g}.{seeded}"
    columns = {name: [one[name] for one in models] for name in ("name", "loss", "low", "high", "difference")}
    for key in ("table", "alike"):
        for place, end in enumerate(("low", "high")):
            columns[f"difference_{key}_{end}"] = [None if one[key] is None else one[key][place] for one in models]
    return ResultTable(title, ((header, rows),), columns, (), (), (ABOUT, _OPTIMISM))


def _ends(ends: Any) -> str:
    return "" if ends is None else f"{figure(ends[0])} to {figure(ends[1])}"
