"""An exact posterior for small tables: the confidential rows are drawn along (Ju, Awan, Gong & Rao 2022).

A release of `sordino.algorithm.influence` is a list of noised sums S = sum of T(x_i, y_i) + noise, each number with
normal noise of a known deviation. Points, bounds and scales of later sums are functions of earlier answers, so *given
the release* T is one fixed function of a row, and the release's density given the rows is a product of normal
densities. With a law of rows, a law of targets and the prior that the engine uses, the posterior of the coefficients is
drawn by Metropolis within Gibbs, with no approximation but the length of the chains:

- *rows*: for every record another row and target from their law, accepted by the ratio of the densities of S alone. A
  record moves S by at most mu deviations in all, mu the privacy of the release, so most are accepted, at any size.
- *coefficients given rows and targets*: the usual regression. This moves by sampling errors only.
- *coefficients with targets that follow them*: the rows' errors are kept, targets change with the coefficients, and the
  density of S decides. This moves by what privacy leaves open. Both together mix in rich and in poor budgets.
- *the law of columns*: places, spreads, shares and correlations move, and all rows follow.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from row_laws import TARGETS, ColumnLaw, Prior, State
from scipy import special
from sordino.algorithm.influence import Plan, Released, posterior, readings
from sordino.algorithm.influence.release import Followed
from sordino.algorithm.influence.sums import centre_radius


def _bins(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """As `readings.bins_of`, by counting the edges that are reached: faster for a few bins and many values."""
    found = np.zeros(values.shape, np.int8)
    for edge in edges[1:-1]:
        found += values >= edge
    return found


class Answered(NamedTuple):
    """One mechanism: its name, what was answered and the deviation of the noise, and where it was asked."""

    name: str
    sums: np.ndarray
    noise: np.ndarray
    point: np.ndarray
    at: Any


class Statistics:
    """T: what a row gives to every released sum, in deviations of that sum's noise."""

    def __init__(self, plan: Plan, released: Released) -> None:
        followed, self.answers = Followed(plan), []
        last = f"gradients {len(plan.shares.gradients)}"
        for one in plan.mechanisms:
            name, bound = one.name, None
            if name.startswith("gradients"):
                bound = followed.gradient_bound
            elif name in ("curvature", "meat"):
                bound = followed.curvature_bound if name == "curvature" else followed.gradient_bound**2
            point = getattr(followed, "point", np.zeros(plan.coefficients)).copy()
            self.answers.append(Answered(name, released[name], followed.scales(name, bound), point, followed.at))
            followed.read(name, released[name], last=name == last)
        self.plan, self.followed = plan, followed
        self.noise = np.concatenate([one.noise for one in self.answers])
        self.target = np.concatenate([one.sums for one in self.answers]) / self.noise
        self.of_rows = sum(one.name in ("centre", "scales", "scatter") for one in self.answers)

    def about_rows(self, x: np.ndarray) -> list[tuple[str, Any]]:
        """Contributions that depend on x alone: vectors, places in histograms, vectors whose squares are summed."""
        plan, followed = self.plan, self.followed
        declaration, numbers = plan.declaration, plan.declaration.numbers
        rows = x - declaration.shifts
        length = np.sqrt((rows[..., numbers] ** 2).sum(axis=-1, keepdims=True))
        radius = centre_radius(declaration)
        rows[..., numbers] *= radius / np.maximum(length, radius)
        away = x - followed.centre.values
        found: list[tuple[str, Any]] = [("vector", rows)]
        if len(numbers):
            bins = _bins(np.abs(away[..., numbers]), readings.SCALE_EDGES)
            found.append(("places", (bins, len(readings.SCALE_EDGES) - 1)))
        scaled = away / followed.spreads.values
        length = np.sqrt((scaled**2).sum(axis=-1, keepdims=True))
        found.append(("squares", scaled * (plan.rho / np.maximum(length, plan.rho))))
        return found

    def whitened(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """z and the weights of rows."""
        away = (x - self.followed.centre.values) @ self.followed.whitened.matrix
        z = np.concatenate([np.ones((*x.shape[:-1], 1)), away], axis=-1)
        return z, np.minimum(1.0, self.plan.tau**2 / (z**2).sum(axis=-1))

    def about_targets(self, whitened: tuple[np.ndarray, np.ndarray], y: np.ndarray) -> list[tuple[str, Any]]:
        """Contributions that depend on targets too."""
        kind, found = self.plan.kind, []
        z, weights = whitened
        shape = z.shape[:-1]
        ones = np.ones((y.size, 1))
        y = np.clip(y, -1.0, 1.0) if kind.reads == "location" else y
        flat, psi = y.ravel(), np.empty(0)
        for one in self.answers[self.of_rows :]:
            if one.name == "location":
                found.append(("places", (_bins(y, readings.LOCATION_EDGES)[..., None], 16)))
                continue
            score = (z @ one.point).reshape(-1, 1)
            if one.name.startswith("residuals"):
                sizes = np.abs(kind.residual(flat, score, ones, one.at)).reshape(shape)
                bins = _bins(sizes, readings.RESIDUAL_EDGES)
                found.append(("places", (bins[..., None], len(readings.RESIDUAL_EDGES) - 1)))
            elif one.name == "curvature":
                root = kind.roots(flat, score, ones, one.at)[0].reshape(shape)
                found.append(("squares", z * (np.sqrt(weights) * root)[..., None]))
            else:
                if one.name != "meat":
                    psi = kind.psi(flat, score, ones, one.at).reshape(shape)
                pull = z * (weights * psi)[..., None]
                found.append(("squares" if one.name == "meat" else "vector", pull))
        return found

    def summed(self, blocks: list[tuple[str, Any]], first: int) -> np.ndarray:
        """Sums over the rows of every chain, (chains, numbers), in deviations; the first answer is number `first`."""
        found = []
        for one, (kind, values) in zip(self.answers[first:], blocks, strict=False):
            if kind == "vector":
                total = values.sum(axis=1)
            elif kind == "places":
                bins, count = values
                chains, _, histograms = bins.shape
                first_bin = (np.arange(chains)[:, None, None] * histograms + np.arange(histograms)) * count
                total = np.bincount((bins + first_bin).ravel(), minlength=chains * histograms * count)
                total = total.reshape(chains, -1).astype(float)
            else:
                total = values.transpose(0, 2, 1) @ values
                total = total[:, *np.triu_indices(values.shape[2])]
            found.append(total / one.noise)
        return np.concatenate(found, axis=1)

    def each(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Every row's contributions, (n, chains, numbers) in deviations, in single precision: they are small."""
        blocks = self.about_rows(x) + self.about_targets(self.whitened(x), y)
        found = np.empty((x.shape[1], x.shape[0], len(self.noise)), np.float32)
        first = 0
        for one, (kind, values) in zip(self.answers, blocks, strict=True):
            part = found[:, :, first : first + len(one.noise)]
            first += len(one.noise)
            scale = (1.0 / one.noise).astype(np.float32)
            if kind == "vector":
                part[:] = values.transpose(1, 0, 2) * scale
            elif kind == "places":
                bins, count = values
                part[:] = 0.0
                where = bins.transpose(1, 0, 2) + np.arange(bins.shape[2]) * count
                np.put_along_axis(part, where, np.broadcast_to(scale[0], where.shape), axis=2)
            else:
                turned = np.ascontiguousarray(values.transpose(1, 0, 2), np.float32)
                start = 0
                for k in range(turned.shape[2]):
                    rest = turned.shape[2] - k
                    np.multiply(turned[..., k : k + 1], turned[..., k:], out=part[..., start : start + rest])
                    start += rest
                part *= scale
        return found


class Drawn(NamedTuple):
    """Draws (sweeps, chains, coefficients) in encoded units, extras and laws of columns, and shares accepted."""

    theta: np.ndarray
    extra: np.ndarray
    law: np.ndarray
    accepted: dict[str, float]


class Chains:
    """Chains of one release."""

    def __init__(self, plan: Plan, released: Released, columns: ColumnLaw, *, chains: int = 16, seed: int = 0) -> None:
        self.plan, self.columns, self.chains = plan, columns, chains
        self.g = np.random.default_rng([seed, 71])
        self.statistics = Statistics(plan, released)
        self.targets = TARGETS[plan.family]()
        self.prior = Prior(plan)
        law = posterior(plan, released)
        half, middle = plan.kind.units(plan.declaration)
        self.half, self.middle = half, middle
        draws = law.draws.copy()
        draws[:, 0] -= middle
        draws /= half
        mean = law.weights @ draws
        covariance = ((draws - mean) * law.weights[:, None]).T @ (draws - mean)
        self.root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(mean)))
        # Chains start wider than the engine's answer, at laws of columns near what was read, wider than their errors.
        theta = mean + 1.5 * (self.g.standard_normal((chains, len(mean))) @ self.root.T)
        n = plan.records
        self.state = State(
            theta,
            self.targets.drawn(self.g, chains),
            self._first_laws(),
            self.g.standard_normal((chains, n, columns.columns)),
            self.targets.base(self.g, (chains, n)),
        )
        self.factors = {"theta": 0.5, "extra": 0.5, "law": 0.5}
        self.spreads = self.state.law.std(axis=0) if columns.known is None else np.zeros(columns.size)
        self.counts: dict[str, list[float]] = {"rows": [], "theta": [], "extra": [], "law": []}
        state = self.state
        state.x = columns.rows(state.law, state.base)
        state.y = self.targets.targets(state.score, state.errors, state.extra)

    def _first_laws(self) -> np.ndarray:
        columns, followed = self.columns, self.statistics.followed
        found = columns.drawn(self.g, self.chains)
        if columns.known is not None:
            return found
        centre, noise = followed.centre, self.g.standard_normal(found.shape)
        found[:, columns.places] = centre.values[columns.numbers] + (
            1.5 * np.sqrt(centre.variance[columns.numbers]) * noise[:, columns.places]
        )
        found[:, columns.spreads] = np.log(followed.spreads.values[columns.numbers]) + 0.25 * noise[:, columns.spreads]
        shares = np.clip(centre.values[columns.flags], 0.02, 0.98)
        found[:, columns.shares] = special.logit(shares) + 0.5 * noise[:, columns.shares]
        found[:, columns.correlations] *= 0.5
        return found

    def run(self, sweeps: int, burn: int, *, theta_moves: int = 3, law_moves: int = 3) -> Drawn:
        """So many sweeps are kept after `burn` others, in which step sizes are found."""
        kept: tuple[list[np.ndarray], ...] = ([], [], [])
        seen: list[np.ndarray] = []
        for sweep in range(burn + sweeps):
            if sweep == burn:
                self.counts = {name: [] for name in self.counts}
            self._rows()
            self.targets.given_rows(self.g, self.state, self.prior)
            self._moves(theta_moves, law_moves, adapting=sweep < burn)
            state = self.state
            if sweep < burn:
                seen.append(state.law.copy())
                if self.columns.known is None and sweep in (burn // 3, 2 * burn // 3):
                    self.spreads = np.concatenate(seen[sweep // 2 :]).std(axis=0)
            else:
                table = self.half * state.theta
                table[:, 0] += self.middle
                for place, one in zip(kept, (table, state.extra, state.law), strict=True):
                    place.append(one.copy())
        theta, extra, law = (np.array(one) for one in kept)
        accepted = {name: float(np.mean(one)) if one else math.nan for name, one in self.counts.items()}
        return Drawn(theta, extra, law, accepted)

    def _rows(self) -> None:
        """Another row and target for every record, accepted one by one."""
        g, state, n = self.g, self.state, self.plan.records
        base = g.standard_normal(state.base.shape)
        errors = self.targets.base(g, state.errors.shape)
        x = self.columns.rows(state.law, base)
        score = state.theta[:, :1] + np.einsum("cnp,cp->cn", x, state.theta[:, 1:])
        y = self.targets.targets(score, errors, state.extra)
        now, moves = self.statistics.each(state.x, state.y), self.statistics.each(x, y)
        left = (self.statistics.target - now.sum(axis=0, dtype=float)).astype(np.float32)
        moves -= now
        lengths = 0.5 * np.einsum("ncm,ncm->nc", moves, moves)
        least = np.log(g.random((n, self.chains))) + lengths
        taken = np.empty((n, self.chains), bool)
        for i in range(n):
            move = moves[i]
            taken[i] = chosen = np.einsum("cm,cm->c", left, move) > least[i]
            left -= move * chosen[:, None]
        self.counts["rows"].append(float(taken.mean()))
        which = taken.T
        state.base = np.where(which[..., None], base, state.base)
        state.x = np.where(which[..., None], x, state.x)
        state.errors, state.y = np.where(which, errors, state.errors), np.where(which, y, state.y)

    def _moves(self, theta_moves: int, law_moves: int, *, adapting: bool) -> None:
        """Coefficients with targets that follow them, then the law of columns with rows that follow it."""
        g, state, statistics = self.g, self.state, self.statistics
        whitened = statistics.whitened(state.x)
        rows = statistics.summed(statistics.about_rows(state.x), 0)
        targets = statistics.summed(statistics.about_targets(whitened, state.y), statistics.of_rows)
        now = self._density(rows, targets) + self._log_prior(state.theta, state.extra, state.law)
        for name in ["theta"] * theta_moves + ["extra"] * self.targets.extra:
            theta, extra, size = state.theta, state.extra, len(self.root)
            if name == "theta":
                normal = g.standard_normal((self.chains, size))
                theta = theta + self.factors[name] * 2.4 / math.sqrt(size) * normal @ self.root.T
            else:
                extra = extra + self.factors[name] * g.standard_normal(self.chains)
            score = theta[:, :1] + np.einsum("cnp,cp->cn", state.x, theta[:, 1:])
            y = self.targets.targets(score, state.errors, extra)
            found = statistics.summed(statistics.about_targets(whitened, y), statistics.of_rows)
            there = self._density(rows, found) + self._log_prior(theta, extra, state.law)
            taken = np.log(g.random(self.chains)) < there - now
            state.theta = np.where(taken[:, None], theta, state.theta)
            state.extra = np.where(taken, extra, state.extra)
            state.y, now = np.where(taken[:, None], y, state.y), np.where(taken, there, now)
            targets = np.where(taken[:, None], found, targets)
            self._count(name, taken, adapting=adapting)
        for _ in range(law_moves if self.columns.known is None else 0):
            chosen = g.permutation(self.columns.size)[: max(3, min(8, self.columns.size // 2))]
            law = state.law.copy()
            step = self.factors["law"] * 2.4 / math.sqrt(len(chosen)) * g.standard_normal((self.chains, len(chosen)))
            law[:, chosen] += step * self.spreads[chosen]
            x = self.columns.rows(law, state.base)
            score = state.theta[:, :1] + np.einsum("cnp,cp->cn", x, state.theta[:, 1:])
            y = self.targets.targets(score, state.errors, state.extra)
            found = statistics.summed(statistics.about_rows(x), 0)
            other = statistics.summed(statistics.about_targets(statistics.whitened(x), y), statistics.of_rows)
            there = self._density(found, other) + self._log_prior(state.theta, state.extra, law)
            taken = np.log(g.random(self.chains)) < there - now
            state.law, now = np.where(taken[:, None], law, state.law), np.where(taken, there, now)
            state.x = np.where(taken[:, None, None], x, state.x)
            state.y = np.where(taken[:, None], y, state.y)
            self._count("law", taken, adapting=adapting)

    def _count(self, name: str, taken: np.ndarray, *, adapting: bool) -> None:
        share = float(taken.mean())
        self.counts[name].append(share)
        if adapting:
            self.factors[name] = float(np.clip(self.factors[name] * math.exp(0.3 * (share - 0.28)), 0.02, 3.0))

    def _density(self, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        away = self.statistics.target - np.concatenate([rows, targets], axis=1)
        return -0.5 * (away**2).sum(axis=1)

    def _log_prior(self, theta: np.ndarray, extra: np.ndarray, law: np.ndarray) -> np.ndarray:
        return self.prior.log(theta) + self.targets.log_prior(extra) + self.columns.log_prior(law)


def effective(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Effective sample sizes and split R-hat of draws (sweeps, chains, numbers), from variances of halves' means."""
    half = len(draws) // 2
    halves = np.concatenate([draws[:half], draws[half : 2 * half]], axis=1)
    within, between = halves.var(axis=0, ddof=1).mean(axis=0), halves.mean(axis=0).var(axis=0, ddof=1)
    total = within * (half - 1) / half + between
    return halves.shape[1] * total / np.maximum(between, 1e-300), np.sqrt(total / within)
