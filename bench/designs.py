"""Random hostile designs: tables that nobody tuned for, on which printed coverage is measured.

A design is drawn from its seed alone: margins, dependence, the part of its box that every column uses, prevalence,
errors, effects, records, epsilon, relation and units. Each design then gives any number of tables with fresh rows.

Seeds below `RESERVED` are for development. Seeds from `RESERVED` on are for the published page; nobody looks at them
while choosing a constant.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

RESERVED = 1_000_000
FAMILIES = ("linear", "robust", "logistic", "multinomial", "poisson", "negative-binomial", "cox")
MARGINS = ("uniform", "normal", "log-normal", "zero-inflated", "binary", "heaped", "clipped")
DEPENDENCE = ("independent", "copula", "clusters", "one-hot", "interactions")
ERRORS = ("normal", "skew", "heavy", "heteroscedastic")
# Prior standard deviations of encoded effects, by the default of every family: a tenth of half the target's range for
# numbers, one log odds or log rate elsewhere.
PRIOR = {"linear": 0.1, "robust": 0.1}
# Scores of real tables vary by about so much: larger effects are scaled down together.
SCORE_SPREAD = {"logistic": 2.5, "multinomial": 2.0, "poisson": 1.0, "negative-binomial": 1.0, "cox": 1.2}
TIME_EDGES = (0.0, 0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class Column:
    """A column: its margin, the share of ones of a 0/1 column, and where in its box a number lies."""

    margin: str
    share: float = 0.5
    position: float = 0.0
    used: float = 1.0
    group: int = 0


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in encoded units, the target, and the truth: encoded coefficients, intercept first, outputs innermost."""

    X: Array
    y: Array
    truth: Array
    low: Array
    high: Array
    kinds: tuple[str, ...]
    groups: tuple[int, ...]
    target: tuple[float, float] | None
    classes: int | None = None
    exposure: Array | None = None
    unit: NDArray[np.int64] | None = None
    time: Array | None = None


@dataclass(frozen=True)
class Design:
    """Public and hidden numbers of a design; `table` draws rows."""

    seed: int
    family: str
    units: int
    epsilon: float
    relation: str
    columns: tuple[Column, ...]
    dependence: str
    correlation: float
    effects: float
    errors: str
    prevalence: float
    most_records: int
    delta: float = 1e-6
    classes: int | None = None
    words: tuple[str, ...] = field(default=())

    @property
    def coefficients(self) -> int:
        return (len(self.columns) + 1) * (1 if self.classes is None else self.classes - 1)

    def __str__(self) -> str:
        margins = ",".join(
            f"{c.margin}" + (f"({c.share:g})" if c.margin == "binary" else f"[{c.used:.2f}]") for c in self.columns
        )
        return (
            f"{self.seed} {self.family} n={self.units} eps={self.epsilon:.2g} {self.relation} {self.dependence}"
            f" effects={self.effects:g} errors={self.errors} prevalence={self.prevalence:.2g}"
            f" records={self.most_records} {margins}"
        )

    def table(self, repetition: int = 0) -> Table:
        """Rows of one repetition; effects are drawn anew with every table."""
        g = np.random.default_rng([self.seed, repetition, 7])
        rows, unit = self.units, None
        if self.most_records > 1:
            sizes = g.integers(1, self.most_records + 1, self.units)
            rows, unit = int(sizes.sum()), np.repeat(np.arange(self.units), sizes)
        X = self._rows(g, rows, unit)
        outputs = 1 if self.classes is None else self.classes - 1
        truth, scores = self._effects(g, X, outputs)
        y, target, exposure, time = self._target(g, X, scores, truth, unit)
        kinds = tuple("category" if c.group else "binary" if c.margin == "binary" else "number" for c in self.columns)
        low = np.array([-1.0 if kind == "number" else 0.0 for kind in kinds])
        groups = tuple(c.group for c in self.columns)
        return Table(X, y, truth, low, np.ones(len(low)), kinds, groups, target, self.classes, exposure, unit, time)

    def _rows(self, g: np.random.Generator, rows: int, unit: NDArray[np.int64] | None) -> Array:
        d = len(self.columns)
        latent = g.normal(size=(rows, d))
        if unit is not None:  # half of a column's variance is between units
            latent = np.sqrt(0.5) * (latent + g.normal(size=(int(unit[-1]) + 1, d))[unit])
        if self.dependence == "copula":
            r = self.correlation
            common = g.normal(size=(rows, 1))
            latent = np.sqrt(r) * common + np.sqrt(1 - r) * latent
        elif self.dependence == "clusters":
            centres = g.normal(size=(3, d)) * 1.5
            latent = (0.5 * latent + centres[g.integers(0, 3, rows)]) / np.sqrt(2.5)
        u = np.clip(special.ndtr(latent), 1e-9, 1 - 1e-9)
        X = np.empty((rows, d))
        for j, column in enumerate(self.columns):
            X[:, j] = self._column(column, u[:, j])
        groups = sorted({c.group for c in self.columns} - {0})
        for group in groups:
            places = [j for j, c in enumerate(self.columns) if c.group == group]
            shares = np.array([self.columns[j].share for j in places])
            edges = np.cumsum(shares / (shares.sum() + shares.max()))
            chosen = np.searchsorted(edges, u[:, places[0]])
            for k, j in enumerate(places):
                X[:, j] = chosen == k
        if self.dependence == "interactions" and d >= 3 and not groups:
            last = self.columns[-1]
            product = X[:, 0] * X[:, 1]
            X[:, -1] = np.clip(product, -1, 1) if last.margin != "binary" else product > np.median(product)
        return X

    @staticmethod
    def _column(column: Column, u: Array) -> Array:
        if column.margin == "binary":
            return (u > 1 - column.share).astype(float)
        if column.margin == "uniform":
            raw = 2 * u - 1
        elif column.margin == "normal":
            raw = special.ndtri(u) / 3
        elif column.margin == "log-normal":
            raw = 2 * np.exp(special.ndtri(u) - 2.5) - 1
        elif column.margin == "zero-inflated":
            raw = np.where(u < 0.85, -1.0, 2 * (u - 0.85) / 0.15 - 1)
        elif column.margin == "heaped":
            raw = np.rint(2.5 * (2 * u - 1)) / 2.5
        else:
            raw = np.clip(special.ndtri(u), -1, 1)
        # The box is [-1, 1]; the column uses a share of it around its position.
        return np.clip(column.position + column.used * np.clip(raw, -1, 1), -1, 1)

    def _effects(self, g: np.random.Generator, X: Array, outputs: int) -> tuple[Array, Array]:
        d, scale = X.shape[1], PRIOR.get(self.family, 1.0)
        slopes = g.normal(size=(d, outputs)) * scale * self.effects * (g.random((d, 1)) < 0.8)
        scores = X @ slopes
        spread = float(np.std(scores, axis=0).max())
        most = SCORE_SPREAD.get(self.family, 0.35)
        if spread > most:
            slopes, scores = slopes * most / spread, scores * most / spread
        if self.family in PRIOR:
            # Means stay well inside the declared range of the target: what is cut there is no part of the model.
            reach = float(np.abs(scores - scores.mean()).max())
            slopes, scores = slopes * min(1.0, 0.5 / max(reach, 1e-9)), scores * min(1.0, 0.5 / max(reach, 1e-9))
        intercept = np.zeros(outputs)
        if self.family == "logistic":
            intercept[0] = _solved(lambda c: special.expit(c + scores[:, 0]).mean(), self.prevalence)
        elif self.family == "multinomial":
            intercept = np.log(self.prevalence) * np.linspace(1, 0, outputs) - scores.mean(axis=0)
        elif self.family in ("poisson", "negative-binomial"):
            intercept[0] = np.log(8 * self.prevalence) - np.log(np.exp(scores[:, 0]).mean())
        elif self.family == "cox":
            intercept[0] = np.log(self.prevalence) - np.log(np.exp(scores[:, 0]).mean())
        else:
            intercept[0] = g.uniform(-0.3, 0.3) - scores.mean()
        truth = np.concatenate([intercept[None], slopes]).ravel()
        return truth, scores + intercept

    def _target(self, g, X, scores, truth, unit):
        rows, s = len(X), scores[:, 0]
        shared = np.zeros(rows)
        if unit is not None:
            shared = g.normal(size=int(unit[-1]) + 1)[unit]
        if self.family in ("linear", "robust"):
            error = self._errors(g, X, rows)
            if unit is not None:
                error = np.sqrt(0.5) * (error + 0.08 * shared)
            return np.clip(s + error, -1.0, 1.0), (-1.0, 1.0), None, None
        if self.family == "logistic":
            noise = special.ndtr(np.sqrt(0.5) * (g.normal(size=rows) + shared)) if unit is not None else g.random(rows)
            return (noise < special.expit(s)).astype(float), None, None, None
        if self.family == "multinomial":
            lifted = np.concatenate([np.zeros((rows, 1)), scores], axis=1) + g.gumbel(size=(rows, scores.shape[1] + 1))
            return np.argmax(lifted, axis=1).astype(float), None, None, None
        if self.family in ("poisson", "negative-binomial"):
            exposure = np.exp(g.uniform(np.log(0.5), np.log(2.0), rows))
            mean = exposure * np.exp(s)
            if self.family == "negative-binomial":
                mean = mean * g.gamma(2.0, 0.5, rows)
            return np.minimum(g.poisson(mean), 200).astype(float), (0.0, 200.0), exposure, None
        event = g.exponential(size=rows) / np.exp(s)
        censored = g.uniform(0.5, 4.0, rows)
        time = np.minimum(event, censored)
        return (event <= censored).astype(float), None, None, np.minimum(time, 10.0)

    def _errors(self, g: np.random.Generator, X: Array, rows: int) -> Array:
        if self.errors == "normal" or (self.family == "robust" and self.errors == "skew"):
            return 0.08 * g.normal(size=rows)
        if self.errors == "skew":
            return 0.06 * (g.gamma(2, 1, rows) - 2)
        if self.errors == "heavy":
            return 0.06 * g.standard_t(4, rows)
        spread = 1 + 0.8 * np.tanh(X[:, 0] - X[:, 0].mean())
        law = g.normal(size=rows) if self.family == "robust" else (g.gamma(3, 1, rows) - 3) / np.sqrt(3)
        return 0.08 * spread * law


def _solved(mean, wanted: float) -> float:
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < wanted else (low, middle)
    return (low + high) / 2


def design(seed: int, families: tuple[str, ...] = FAMILIES[:3] + FAMILIES[4:5], most: int = 100_000) -> Design:
    """The design of a seed; `most` bounds the number of units."""
    g = np.random.default_rng([seed, 1])
    family = str(g.choice(families))
    d = int(np.rint(np.exp(g.uniform(np.log(2), np.log(20)))))
    dependence = str(g.choice(DEPENDENCE))
    columns = []
    for _ in range(d):
        used = float(np.exp(g.uniform(np.log(0.1), 0.0)))
        margin = str(g.choice(MARGINS))
        share = float(g.choice([0.5, 0.3, 0.1, 0.05, 0.02, 0.01, 0.005]))
        columns.append(Column(margin, share, float(g.uniform(-1, 1)) * (1 - used), used))
    if dependence == "one-hot":
        levels = int(g.integers(2, 6))
        shares = g.dirichlet(np.full(levels, 1.5))
        columns = columns[: max(1, d - levels)] + [Column("binary", float(max(s, 0.01)), group=1) for s in shares]
    return Design(
        seed,
        family,
        int(np.exp(g.uniform(np.log(300), np.log(most)))),
        float(np.exp(g.uniform(np.log(0.1), np.log(8.0)))),
        str(g.choice(["replace-one", "add-remove"])),
        tuple(columns),
        dependence,
        float(g.uniform(0.3, 0.95)),
        float(g.choice([0.0, 0.3, 1.0, 1.0, 1.0, 2.0, 5.0])),
        str(g.choice(ERRORS)),
        float(np.exp(g.uniform(np.log(0.02), np.log(0.5)))),
        int(g.choice([1, 1, 1, 1, 3, 20])),
        classes=int(g.integers(3, 6)) if family == "multinomial" else None,
    )
