"""Writes the page of evidence: what is proved, tested and assumed about the arithmetic of each kind of release."""

from pathlib import Path
from typing import NamedTuple

from sordino.core.bound import NOT_COVERED, Evidence
from sordino.estimators import METHODS
from sordino.noise import integer_sums as sums
from sordino.noise import lattice

ROOT = Path(__file__).parents[1]
_NOISE, _TRAINING = "tests/noise", "tests/mechanisms/networks"


class Claim(NamedTuple):
    """A sentence, and the files that show it, tests or modules."""

    words: str
    shown: tuple[str, ...]


class Release(NamedTuple):
    """A kind of release: the evidence that its line about floating point states, and the claims behind it."""

    name: str
    word: Evidence
    proved: tuple[Claim, ...] = ()
    built: tuple[Claim, ...] = ()
    tested: tuple[Claim, ...] = ()
    assumed: tuple[str, ...] = ()


_DRAWS = Claim(
    "integer Gaussians have exactly the stated distribution: tables of integers, decisions by comparison",
    ("src/sordino/noise/rounded_gaussian.py", f"{_NOISE}/test_rounded_gaussians.py"),
)
_KARNEY = Claim(
    "Gaussians and Laplace noise from fair bits and comparisons alone",
    ("src/sordino/noise/gaussian.py", f"{_NOISE}/test_gaussians.py"),
)
_LATTICE = Claim(
    "a noised answer depends only on the integer sum plus noise, in whatever order the sum was computed",
    ("src/sordino/noise/lattice.py", f"{_NOISE}/test_lattice.py"),
)
_SUMS = Claim(
    "sums are integers: the same in any order, block, batch or number of devices",
    ("src/sordino/noise/lattice.py", "tests/noise/test_exact_sums.py"),
)
_OWN_BITS = Claim(
    "a contribution has the same bits at every position and beside any other records",
    ("tests/noise/test_exact_sums.py", "tests/mechanisms/test_removal.py"),
)
_LAST_BITS = Claim(
    "an attack on the last bits finds nothing here, and breaks the same release in floating point",
    ("tests/noise/test_last_bits.py",),
)
_AVERAGE = Claim(
    "iterates are added as integers, and the bound on the average includes rounding",
    ("src/sordino/mechanisms/chain/release.py", "tests/mechanisms/chain/test_exact_average.py"),
)
_PROPOSED = Claim(
    "counts and slope have discrete Laplace noise; the posterior draw is rounded exactly, by fractions",
    ("src/sordino/mechanisms/propose_test_sample.py", "tests/mechanisms/test_propose_test_sample.py"),
)
_SHIFT = Claim(
    "the floating-point error of a hidden step is a shift at every step of the bound; exact on quadratics",
    ("src/sordino/accounting/bounds/closed_forms.py", "tests/accounting/test_rounding_shift.py"),
)
_CLIPPED = Claim("no contribution exceeds its bound, for any record", ("tests/mechanisms/chain/test_claims.py",))
_BITS = "the generator's bits are fair (ChaCha20 of randomgen, keyed by the operating system)"
_IEEE = "double precision is IEEE 754 on the device, and integers of 64 bits are exact"
_PLACES = (
    "compiled elementwise operations treat all places of a block alike. Equal sub-programs round alike in programs for "
    "other padded table sizes (tested, not proved)"
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
    "noised sums on the host (regressions, constants, `look`, checks)",
    Evidence.PROVED,
    (_KARNEY,),
    (Claim("contributions are truncated to integers of a public unit", ("src/sordino/noise/integer_sums.py",)),),
    (Claim("sums", (f"{_NOISE}/test_record_sums.py",)), _LAST_BITS),
    (_BITS, _IEEE, "equal inputs have equal exponentials at every position of an array (tested)"),
)
HIDDEN = Release(
    "last iterates of chains, and kept draws, whose spec states `algorithm.rounding`",
    Evidence.PROVED,
    (_DRAWS, _SHIFT),
    (_CLIPPED,),
    (
        Claim("the error of a step is at most the stated one", ("tests/mechanisms/chain/test_rounding.py",)),
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
            "contributions are integer vectors of bounded length, also where only their products are summed; sums are "
            "exact in any order and block",
            ("src/sordino/mechanisms/networks/integer_sums.py", f"{_TRAINING}/test_integer_sums.py"),
        ),
    ),
    (
        Claim(
            "the shapes of blocks and steps depend on public numbers alone",
            ("src/sordino/mechanisms/networks/training.py",),
        ),
        Claim(
            "some devices compute convolutions differently by place (an H200 does). There, "
            "products with weights are sums of integers below 2^53, the same in any order",
            ("src/sordino/mechanisms/networks/reproducible_ops.py", f"{_TRAINING}/test_reproducible_ops.py"),
        ),
    ),
    (
        _LAST_BITS,
        Claim(
            "a contribution has the same bits at every position and beside any other records",
            (f"{_TRAINING}/test_integer_sums.py", "bench/lattice_bits.py"),
        ),
        Claim(
            "draws on the device equal integer draws from the same words",
            ("src/sordino/noise/device_gaussian.py", f"{_NOISE}/test_device_gaussians.py"),
        ),
    ),
    (
        _BITS,
        _IEEE,
        "the gradient program treats all places of a block alike and mixes none of them. Before it begins, every run "
        "compares the bits of one simulated record in all places; if they differ, the run is not called exact",
    ),
)
AVERAGE = Release(
    "averages along chains whose spec states `algorithm.rounding` (view `average`)",
    Evidence.PROVED,
    (_DRAWS, _AVERAGE, Claim("shifts with rounding are those of coupled chains", (_SHIFT.shown[1],))),
    (_CLIPPED,),
    (Claim("the error of a step is at most the stated one", ("tests/mechanisms/chain/test_rounding.py",)), _LAST_BITS),
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
        assumed=(
            "the scale of every step is a computed power of a random number, which no lattice represents exactly",
        ),
    ),
    Release(
        "posterior draws (but the slope of Propose-Test-Sample)",
        Evidence.ASSUMED,
        assumed=(
            "the draw itself is the mechanism, and its distribution has parameters computed from private rows in "
            "floating point; exact fractions exist for one Gaussian number only",
        ),
    ),
    Release(
        "last iterates, kept draws and averages bounded by contraction, where the spec states no `algorithm.rounding`",
        Evidence.ASSUMED,
        assumed=("the bound is about real numbers; a bound on noised sums of the same run is covered",),
    ),
    Release(
        "chains whose gradients have no bound, and averages of functions other than parameters",
        Evidence.ASSUMED,
        assumed=("sums have no lattice; a custom function is computed in floating point",),
    ),
    Release(
        "networks trained on a device whose bits still depend on the place in a block (none is known)",
        Evidence.ASSUMED,
        assumed=("sums and noise are in single precision",),
    ),
    Release(
        "NumPyro models and losses fitted by `sordino.fit` (`natural`, `variational`, `rounds`, `sgld`)",
        Evidence.ASSUMED,
        assumed=(
            "sums are integers, but gradients come from the caller's program; that it gives a record the same bits "
            "beside any other records is not checked",
        ),
    ),
    Release(
        "custom steps with `sordino.chain` and JAX keys",
        Evidence.ASSUMED,
        assumed=("sums are exact, noise is drawn in floating point inside the caller's program",),
    ),
)
RELEASES = (HOST, COMPILED, NETWORKS, HIDDEN, AVERAGE, PROPOSED, *NAMED)
# The line of every method of the estimators, and the kind of release it belongs to.
_LINES = {
    sums.COVERED: HOST,
    lattice.COVERED: COMPILED,
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
        "This page lists, for each kind of release, what is proved, built in, tested and assumed about floating point.",
        "Every claim links to the module that proves it or to its test. *Proved* refers to the code, under the listed",
        "assumptions and no others. `make docs` writes this page from the code; do not edit.",
        "",
        "| method | line about floating point | kind of release |",
        "| --- | --- | --- |",
    ]
    for name in sorted(METHODS):
        kind = kind_of(name)
        lines.append(
            f"| `{name}` | {METHODS[name].floating_point.evidence.word} | {kind.name if kind else 'listed below'} |"
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
    return ", ".join(f"[{Path(name).stem}](../../{name})" for name in files)
