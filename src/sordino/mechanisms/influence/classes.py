"""Families of classes: two (logistic regression) and several.

Targets are classes, so psi is bounded by what probabilities are, and its slope depends on x alone. Scores are cut to a
cap before they are compared with targets: the cut is a function of x, so it biases nothing.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.families import At, Family, PsiLaw, register
from sordino.mechanisms.influence.sums import cut_share


@register
class Logistic(Family):
    """Two classes, targets 0 and 1: psi = y - expit(score cut to +-C).

    |psi| <= expit(C), and 1/2 at the first point, where all scores are 0. Slope p (1 - p) at the score, at most 1/4.
    No correction is needed for the cut: it is a function of x, and the posterior compares psi with its mean, cut alike.
    """

    name = "logistic"
    budget = "classes"
    curved = True

    def target(self, declaration: Declaration, y: Array) -> Array:
        return (y > 0.5).astype(np.float64)

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        return (generator.random(len(scores)) < special.expit(scores[:, 0])).astype(np.float64)

    def bound(self, declaration: Declaration, at: At) -> float:
        return 0.5 if at.first else float(special.expit(at.cap))

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 0.25

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        return y[:, None] - special.expit(np.clip(score, -at.cap, at.cap))

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        p = special.expit(score)
        return [np.sqrt(p * (1.0 - p))]

    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        p = special.expit(score)
        mean, slope = p - special.expit(np.clip(prepared, -at.cap, at.cap)), p * (1.0 - p)
        return PsiLaw(mean, slope[..., None], (slope + mean**2)[..., None])

    def laws(self, score: Array, asked: list[tuple[Any, At]], exposure: Array) -> list[PsiLaw]:
        p = special.expit(score)
        slope = p * (1.0 - p)
        shown = slope[..., None]
        means = [p - special.expit(np.clip(prepared, -at.cap, at.cap)) for prepared, at in asked]
        return [PsiLaw(mean, shown, (slope + mean**2)[..., None]) for mean in means]

    def mean(self, score: Array, prepared: Any, exposure: Array, at: At) -> Array:
        asked = special.expit(np.clip(prepared, -at.cap, at.cap))
        if score.ndim < 3:
            return special.expit(score) - asked
        # Many draws: as few passes as it takes.
        found = np.exp(np.minimum(np.negative(score), 80.0))
        found += 1.0
        np.reciprocal(found, out=found)
        return np.subtract(found, asked.astype(score.dtype), out=found)

    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        p = special.expit(prepared)
        return (p * (1.0 - p))[..., None]


@register
class Multinomial(Family):
    """Several classes 0, ..., C - 1: psi = E'(e_y - p), p the softmax of E times the scores, each cut to +-cap first.

    E is an orthonormal basis of the vectors whose entries add up to 0, so all classes are alike and |psi| = |e_y - p|;
    coefficients are told as contrasts with the first class. |e_y - p|^2 = (1 - p_y)^2 + the sum of the other p_c^2 <=
    1 + top, top the largest probability that cut scores allow; at the first point it is 1 - 1/C. Slope E'(diag(p) - p
    p')E, the sum of p_c E'(e_c - p)(e_c - p)'E: its norm is at most 1/2, reached at p = 1/2 for two classes.
    """

    name = "multinomial"
    budget = "classes"
    curved = True

    def outputs(self, declaration: Declaration) -> int:
        return (declaration.classes or 2) - 1

    def check(self, declaration: Declaration) -> None:
        if declaration.classes is None or declaration.classes < 2:
            raise refuse("classes", "to be declared, at least 2, for the family multinomial", declaration.classes)

    def contrasts(self, declaration: Declaration) -> Array:
        basis = _basis(self.outputs(declaration) + 1)
        return basis[1:] - basis[0]

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        lifted = scores @ _basis(scores.shape[1] + 1).T + generator.gumbel(size=(len(scores), scores.shape[1] + 1))
        return np.argmax(lifted, axis=1).astype(np.float64)

    def bound(self, declaration: Declaration, at: At) -> float:
        classes = declaration.classes or 2
        if at.first:
            return math.sqrt(1.0 - 1.0 / classes)
        # The other p_c are at most `top` and together at most 1 - p_y: |psi|^2 <= (1 - p_y)^2 + top (1 - p_y).
        top = 1.0 / (1.0 + (classes - 1) * math.exp(-2.0 * at.cap))
        return math.sqrt(1.0 + top)

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return 0.5 * (1.0 + cut_share(declaration))

    def target(self, declaration: Declaration, y: Array) -> Array:
        return np.clip(np.rint(y), 0.0, (declaration.classes or 2) - 1.0)

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        basis = _basis(score.shape[-1] + 1)
        return basis[y.astype(np.int64)] - _in_basis(_shares_of(score, basis, at.cap), basis)

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        basis = _basis(score.shape[-1] + 1)
        p = _shares_of(score, basis)
        middle = _in_basis(p, basis)
        return [np.sqrt(p[c])[:, None] * (basis[c] - middle) for c in range(len(basis))]

    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        basis = _basis(score.shape[-1] + 1)
        p = _softmax(score, basis)
        mean, slope = (p - _softmax(prepared, basis, at.cap)) @ basis, _slope(p, basis)
        return PsiLaw(mean, slope, slope + mean[..., :, None] * mean[..., None, :])

    def laws(self, score: Array, asked: list[tuple[Any, At]], exposure: Array) -> list[PsiLaw]:
        basis = _basis(score.shape[-1] + 1)
        p = _softmax(score, basis)
        slope = _slope(p, basis)
        means = [(p - _softmax(prepared, basis, at.cap)) @ basis for prepared, at in asked]
        return [PsiLaw(mean, slope, slope + mean[..., :, None] * mean[..., None, :]) for mean in means]

    def mean(self, score: Array, prepared: Any, exposure: Array, at: At) -> Array:
        basis = _basis(score.shape[-1] + 1)
        # Draws keep their precision.
        basis, asked = basis.astype(score.dtype), (_softmax(prepared, basis, at.cap) @ basis).astype(score.dtype)
        p = _shares_of(score, basis)
        # Outputs before rows in memory: sums over rows follow.
        found = np.empty((*score.shape[:-2], basis.shape[1], score.shape[-2]), score.dtype)
        for k in range(basis.shape[1]):
            one = p[0] * basis[0, k]
            for c in range(1, len(basis)):
                if basis[c, k] != 0.0:
                    one += p[c] * basis[c, k]
            np.subtract(one, asked[..., k], out=found[..., k, :])
        return np.swapaxes(found, -1, -2)

    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        basis = _basis(prepared.shape[-1] + 1)
        return _slope(_softmax(prepared, basis), basis)


def _slope(p: Array, basis: Array) -> Array:
    """E'(diag(p) - p p')E for every row."""
    middle, outputs = p @ basis, basis.shape[1]
    squares = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    return (p @ squares).reshape(len(p), outputs, outputs) - middle[:, :, None] * middle[:, None, :]


@cache
def _basis(classes: int) -> Array:
    """Helmert's basis of the vectors whose entries add up to 0: (classes, classes - 1), columns of length 1."""
    found = np.zeros((classes, classes - 1))
    for k in range(1, classes):
        found[:k, k - 1], found[k, k - 1] = 1.0, -float(k)
        found[:, k - 1] /= math.sqrt(k * (k + 1.0))
    return found


def _in_basis(shares: list[Array], basis: Array) -> Array:
    """Shares of all classes times the basis, added class by class: a row's answer depends on that row alone."""
    found = np.empty((len(shares[0]), basis.shape[1]), order="F")
    for k in range(basis.shape[1]):
        np.multiply(shares[0], basis[0, k], out=found[:, k])
        for c in range(1, len(basis)):
            if basis[c, k] != 0.0:
                found[:, k] += shares[c] * basis[c, k]
    return found


def _shares_of(scores: Array, basis: Array, cap: float = math.inf) -> list[Array]:
    """Probabilities of all classes, whose scores are basis times `scores`, cut to +-cap; added one by one."""
    lifted = []
    for row in basis:
        one = scores[..., 0] * row[0]
        for k in range(1, len(row)):
            if row[k] != 0.0:
                one += scores[..., k] * row[k]
        lifted.append(one if cap == math.inf else np.clip(one, -cap, cap, out=one))
    most = lifted[0].copy()
    for one in lifted[1:]:
        np.maximum(most, one, out=most)
    for one in lifted:
        np.exp(np.subtract(one, most, out=one), out=one)
    total = lifted[0].copy()
    for one in lifted[1:]:
        total += one
    return [np.divide(one, total, out=one) for one in lifted]


def _softmax(scores: Array, basis: Array, cap: float = math.inf) -> Array:
    """The same in one array, classes last."""
    return np.stack(_shares_of(scores, basis, cap), axis=-1)
