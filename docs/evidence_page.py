"""The page of evidence: for each kind of release what is proved, by construction, tested and assumed of arithmetic."""

from pathlib import Path
from typing import NamedTuple

from sordino.core.bound import NOT_COVERED, Evidence
from sordino.estimators import METHODS
from sordino.mechanisms.chain import rounding as hidden
from sordino.mechanisms.regression.gradients import MINIMISER_COVERED
from sordino.noise import integer_sums as sums
from sordino.noise import lattice

ROOT = Path(__file__).parents[1]
_NOISE, _TRAINING = "tests/noise", "tests/mechanisms/networks"


class Claim(NamedTuple):
    """A sentence, and the files that show it, tests or modules."""

    words: str
    shown: tuple[str, ...]


class Release(NamedTuple):
    """A kind of release: the word its line about floating point has, and what that rests on."""

    name: str
    word: Evidence
    proved: tuple[Claim, ...] = ()
    built: tuple[Claim, ...] = ()
    tested: tuple[Claim, ...] = ()
    assumed: tuple[str, ...] = ()


_DRAWS = Claim(
    "whole-number Gaussians have the stated law as real numbers: tables of whole numbers, decisions by comparison",
    ("src/sordino/noise/rounded_gaussian.py", f"{_NOISE}/test_rounded_gaussians.py"),
)
_KARNEY = Claim(
    "Gaussians and Laplace noise from fair bits and comparisons alone",
    ("src/sordino/noise/gaussian.py", f"{_NOISE}/test_gaussians.py", f"{_NOISE}/test_whole_laplace.py"),
)
_LATTICE = Claim(
    "a noised answer is a function of the floored whole-number sum plus noise alone, however the sum was added up",
    ("src/sordino/noise/lattice.py", f"{_NOISE}/test_lattice.py"),
)
_SUMS = Claim(
    "sums are whole numbers, the same in any order, block, batch or on any number of devices",
    ("src/sordino/noise/lattice.py", "tests/noise/test_exact_sums.py"),
)
_OWN_BITS = Claim(
    "a contribution has the same bits wherever its record stands and whatever stands beside it",
    ("tests/noise/test_exact_sums.py", "tests/mechanisms/test_removal.py"),
)
_LAST_BITS = Claim(
    "an attack on the last bits sees nothing, and sees the same release in floating point",
    ("tests/noise/test_last_bits.py", f"{_NOISE}/test_lattice.py"),
)
_AVERAGE = Claim(
    "iterates are added up as whole numbers, and roundings are in the move of the average",
    ("src/sordino/mechanisms/chain/release.py", "tests/mechanisms/chain/test_exact_average.py"),
)
_PROPOSED = Claim(
    "counts and slope have discrete Laplace noise, and the real posterior draw is rounded, decided in fractions",
    ("src/sordino/mechanisms/propose_test_sample.py", "tests/mechanisms/test_propose_test_sample.py"),
)
_SHIFT = Claim(
    "the floating-point error of a hidden step is a shift at every step of the bound; exact on quadratics",
    ("src/sordino/accounting/bounds/closed_forms.py", "tests/accounting/test_rounding_shift.py"),
)
_CLIPPED = Claim(
    "no contribution is longer than its bound, whatever the record is", ("tests/mechanisms/chain/test_claims.py",)
)
_BITS = "bits of the generator are fair (ChaCha20 of randomgen, keyed by the operating system)"
_IEEE = "double precision is IEEE 754 on the device, and whole numbers of 64 bits are exact"
_PLACES = (
    "compiled elementwise operations treat all places of a block alike, and equal sub-programs round alike in programs "
    "for other padded sizes of the table (tested, not proved)"
)
_ELEMENTARY = "exponentials, logarithms, hyperbolic tangents and quotients are accurate to 2^-40 (tested)"

COMPILED = Release(
    "noised sums in compiled rounds (DP-VI, EM, message passing) and chains whose bound holds for noised sums",
    Evidence.PROVED,
    (_DRAWS, _LATTICE, _SUMS),
    (_CLIPPED,),
    (_OWN_BITS, _LAST_BITS),
    (_BITS, _IEEE, _PLACES),
)
HOST = Release(
    "noised sums on the host (bounded influence, statistics, Newton, ridge, gradients, constant, `look`, checks)",
    Evidence.PROVED,
    (_KARNEY,),
    (Claim("contributions are cut to whole numbers of a public unit", ("src/sordino/noise/integer_sums.py",)),),
    (Claim("sums", (f"{_NOISE}/test_record_sums.py",)), _LAST_BITS),
    (_BITS, _IEEE, "equal inputs have equal exponentials wherever they stand in an array (tested)"),
)
HIDDEN = Release(
    "last iterates of chains, and kept draws, whose spec states `algorithm.rounding` (method `chain`)",
    Evidence.PROVED,
    (_DRAWS, _SHIFT),
    (_CLIPPED,),
    (
        Claim("steps are as far off as stated at most", ("tests/mechanisms/chain/test_rounding.py",)),
        _LAST_BITS,
    ),
    (_BITS, _IEEE, _ELEMENTARY),
)
NETWORKS = Release(
    "networks trained by `sordino.mechanisms.networks` with independent noise, where the device has the same bits in "
    "all places of a block",
    Evidence.PROVED,
    (
        _DRAWS,
        Claim(
            "contributions are whole numbers whose length is bounded as whole numbers, also where only products of "
            "them are summed; sums are exact in any order and block",
            ("src/sordino/mechanisms/networks/integer_sums.py", f"{_TRAINING}/test_integer_sums.py"),
        ),
    ),
    (
        Claim(
            "blocks and steps are programs whose shapes depend on public numbers alone",
            ("src/sordino/mechanisms/networks/trainer.py",),
        ),
        Claim(
            "where a device's own products and convolutions differ by place (convolutions on an H200 do), products "
            "with weights are sums of whole numbers below 2^53, the same in any order",
            ("src/sordino/mechanisms/networks/reproducible_ops.py", f"{_TRAINING}/test_reproducible_ops.py"),
        ),
    ),
    (
        _LAST_BITS,
        Claim(
            "a contribution has the same bits wherever its record stands and whatever stands beside it",
            (f"{_TRAINING}/test_integer_sums.py", "bench/lattice_bits.py"),
        ),
        Claim(
            "draws on the device are those of whole numbers on the same words",
            ("src/sordino/noise/device_gaussian.py", f"{_NOISE}/test_device_gaussians.py"),
        ),
    ),
    (
        _BITS,
        _IEEE,
        "the program that computes gradients treats all places of a block alike and mixes none of them (every run "
        "compares bits of one drawn record in all places before it begins, and is not called exact where they differ)",
    ),
)
OUTPUT = Release(
    "output perturbation",
    Evidence.PROVED,
    (_KARNEY,),
    (
        Claim(
            "a gradient, roundings included, bounds the distance from the minimiser",
            ("src/sordino/mechanisms/regression/gradients.py",),
        ),
    ),
    (Claim("minimisers", ("tests/mechanisms/regression/test_minimiser.py",)), _LAST_BITS),
    (_BITS, _IEEE, _ELEMENTARY),
)
AVERAGE = Release(
    "averages along chains whose spec states `algorithm.rounding` (view `average`)",
    Evidence.PROVED,
    (_DRAWS, _AVERAGE, Claim("moves with roundings are those of coupled chains", (_SHIFT.shown[1],))),
    (_CLIPPED,),
    (Claim("steps are as far off as stated at most", ("tests/mechanisms/chain/test_rounding.py",)), _LAST_BITS),
    (_BITS, _IEEE, _ELEMENTARY),
)
PROPOSED = Release(
    "Propose-Test-Sample",
    Evidence.PROVED,
    (_KARNEY, _PROPOSED),
    tested=(_LAST_BITS,),
    assumed=(_BITS, _IEEE),
)
# What no construction of this kind reaches, each with the reason.
NAMED = (
    Release(
        "stable noise",
        Evidence.ASSUMED,
        assumed=("the scale of every step is a computed power of a random number: no lattice holds it exactly",),
    ),
    Release(
        "posterior draws (but the slope of Propose-Test-Sample)",
        Evidence.ASSUMED,
        assumed=(
            "the draw itself is the mechanism, from a law whose parameters are computed from private rows in floating "
            "point; fractions decide it for one Gaussian number only",
        ),
    ),
    Release(
        "last iterates, kept draws and averages bounded by contraction, where the spec states no `algorithm.rounding`",
        Evidence.ASSUMED,
        assumed=("the bound is about real numbers; a bound for noised sums of the same run is covered",),
    ),
    Release(
        "chains whose gradients have no bound, and averages of functions other than parameters",
        Evidence.ASSUMED,
        assumed=("sums have no lattice; a function of one's own is computed in floating point",),
    ),
    Release(
        "networks trained with correlated noise (matrix mechanisms), with `exact=False`, or on a device whose bits "
        "depend on the place in a block even so (none is known)",
        Evidence.ASSUMED,
        assumed=(
            "sums and noise are in single precision; noise that is a combination of earlier noise is on no lattice",
        ),
    ),
    Release(
        "steps of one's own with `sordino.chain` and JAX keys",
        Evidence.ASSUMED,
        assumed=("sums are exact, noise is drawn in floating point inside the caller's program",),
    ),
)
RELEASES = (HOST, COMPILED, NETWORKS, HIDDEN, AVERAGE, OUTPUT, PROPOSED, *NAMED)
# The line of every method of the estimators, and the kind of release it belongs to.
_LINES = {
    sums.COVERED: HOST,
    lattice.COVERED: COMPILED,
    hidden.COVERED: HIDDEN,
    MINIMISER_COVERED: OUTPUT,
    NOT_COVERED.reason: None,
}


def kind_of(method: str) -> Release | None:
    """Which kind of release a method makes, by its line about floating point."""
    return _LINES[METHODS[method].floating_point.reason]


def evidence_page() -> str:
    """The whole page."""
    lines = [
        "# Evidence: what floating point does to a guarantee",
        "",
        "Written by `make docs` from the code; do not edit. Every claim links to the module that argues it or the test",
        "that shows it. *Proved* is a claim about the code under the assumptions listed beside it, and no others.",
        "",
        "| method | line about floating point | kind of release |",
        "| --- | --- | --- |",
    ]
    for name in sorted(METHODS):
        kind = kind_of(name)
        lines.append(
            f"| `{name}` | {METHODS[name].floating_point.evidence.word} | {kind.name if kind else 'named below'} |"
        )
    for release in RELEASES:
        lines += ["", f"## {release.name[0].upper()}{release.name[1:]}", "", f"Line: *{release.word.word}*.", ""]
        for heading, claims in (
            ("proved", release.proved), ("by construction", release.built), ("tested", release.tested)
        ):  # fmt: skip
            lines += [f"- {heading}: {claim.words} ({_links(claim.shown)})" for claim in claims]
        lines += [f"- assumed: {words}" for words in release.assumed]
    return "\n".join(lines)


def _links(files: tuple[str, ...]) -> str:
    return ", ".join(f"[{Path(name).stem}](../{name})" for name in files)
