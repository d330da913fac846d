"""Everything the five papers show or state, and where it is had again, or why it cannot be."""

from dataclasses import dataclass

from sordino.core.validate import SordinoError

YE_SHOKRI, BERTAZZI = "ye2022differentially", "bertazzi2025differential"
SIMSEKLI, VINAROZ, HELLER = "simsekli2024differential", "vinaroz2022differentially", "heller2023can"


@dataclass(frozen=True)
class Entry:
    """One figure, table, algorithm or statement of a paper: the items that have it again, or a reason why none does."""

    paper: str
    what: str
    items: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if bool(self.items) == bool(self.reason):
            raise SordinoError(f"Expected {self.what!r} to name items or a reason, not both, got {self!r}.")


def _entries(paper: str, rows: tuple[tuple[str, str], ...]) -> tuple[Entry, ...]:
    """A row names items, separated by commas, or gives a reason after a dash."""
    return tuple(
        Entry(paper, what, reason=where[2:]) if where.startswith("- ") else Entry(paper, what, tuple(where.split(", ")))
        for what, where in rows
    )


_NO_MAIN_TEXT = "- only the appendix of the paper is at hand"

INVENTORY: tuple[Entry, ...] = (
    *_entries(
        YE_SHOKRI,
        (
            ("Figure 1, privacy dynamics and baselines", "ye-shokri-dynamics, ye-shokri-baselines"),
            ("other figures and tables of the main text", _NO_MAIN_TEXT),
            ("Theorem 2.1, the naive baseline", "ye-shokri-baselines"),
            ("Lemmas 3.1 and 3.2, amplification by post-processing", "- steps of the proof of 3.3; errata has (157)"),
            ("Theorem 3.3, fixed batches", "ye-shokri-dynamics"),
            ("Theorem 4.2, shuffled batches", "ye-shokri-dynamics"),
            ("Theorem 4.3, sampled batches", "ye-shokri-dynamics"),
            ("Section 5, privacy and utility of logistic regression", "ye-shokri-logistic"),
            ("Corollary 5.3, noise multiplier", "ye-shokri-pseudocode"),
            ("Appendix C, the assumption of Ryffel et al.", "ye-shokri-ryffel"),
            ("Theorem D.4, convex losses", "which-theorem-wins"),
            ("Theorem D.5, Balle et al.", "ye-shokri-baselines"),
            ("Theorem D.6 and Corollary D.7, full batches", "ye-shokri-full"),
            ("F.1, Algorithm 2", "ye-shokri-pseudocode"),
            ("F.1, private feature normalisation", "ye-shokri-normalisation"),
            (
                "Proposition F.1 (5.1), smoothness of softmax",
                "- holds as stated; it is the softmax model's own certificate",
            ),
            ("Proposition F.2 (5.2), clipped gradients", "ye-shokri-clipping"),
        ),
    ),
    *_entries(
        BERTAZZI,
        (
            ("figures and tables", "- the paper has none"),
            ("Proposition 3.2(i), from posterior to chain", "bertazzi-transfer"),
            ("Proposition 3.2(ii), from chain to posterior", "bertazzi-ratios"),
            ("Proposition 3.3, leak", "bertazzi-transfer"),
            ("Proposition 3.4, forced distance", "bertazzi-transfer"),
            ("Propositions 3.7 and 3.10, estimators", "bertazzi-estimator"),
            ("Lemmas 4.1 and 4.2, likelihood ratios", "bertazzi-ratios"),
            ("Propositions 4.5 and 4.6, diffusions with general drifts", "bertazzi-sde"),
            ("Theorems 5.2 and 5.4, ULA", "bertazzi-langevin"),
            ("C_4, the posterior's constant", "- a misprint; computed in errata"),
            ("Theorem 5.6, noisy SGD", "bertazzi-langevin, bertazzi-sgd"),
            ("Theorems 5.7 and 5.8, constant drifts and paths", "bertazzi-sgd"),
            ("Propositions A.2, A.3 and A.4, two families of laws", "bertazzi-transfer"),
            ("Proposition A.6, coupled values", "bertazzi-ratios"),
            ("Lemmas B.1 to B.3, Girsanov", "- steps of proofs; 4.5 and 4.6 use them"),
        ),
    ),
    *_entries(
        SIMSEKLI,
        (
            ("Figure 1, linear regression", "simsekli-fig1"),
            ("Figure 2, logistic regression", "simsekli-fig2"),
            ("Assumption 3, Examples 1 and 2", "simsekli-assumption3"),
            ("Lemma 5, perturbation of Markov chains", "- quoted from Rudolf & Schweizer; Theorem 9 uses it"),
            ("Lemmas 6, 7 and 8, constants of GD", "simsekli-constants"),
            ("Theorem 9, GD, with sigma_* and sigma^*", "simsekli-fig1, simsekli-constants"),
            ("Theorem 10, SGD", "simsekli-fig1, simsekli-fig2, simsekli-constants"),
            ("Section 4.3, Rényi comparison", "simsekli-renyi"),
            ("Propositions 11 and 12, constants of two losses", "simsekli-constants, simsekli-data-bound"),
            ("R_p, records bounded with high probability", "simsekli-data-bound"),
            ("Lemmas 13, 14 and 15, constants of SGD", "simsekli-constants"),
            ("Lemmas 16, 17 and 18, shifts of stable laws", "simsekli-constants"),
        ),
    ),
    *_entries(
        VINAROZ,
        (
            ("Table 1 and Figure 1, mixture of Gaussians", "vinaroz-park-table1"),
            ("Table 2, regression datasets", "vinaroz-park-regression"),
            ("Table 3, test error", "vinaroz-park-regression"),
            ("Table 4, test log-likelihood", "vinaroz-park-regression"),
            ("Table 5, point estimates", "vinaroz-park-regression"),
            ("Tables 6 and 7, settings of VI and DP-VI", "vinaroz-park-regression"),
            ("Tables 8 and 9, the effect of the clip", "vinaroz-park-clipping"),
            ("Propositions 1 and 2, sensitivity and privacy", "vinaroz-park-theory"),
            ("Theorem 4.1, accuracy", "vinaroz-park-theory"),
            ("Appendix A, KL of clipped SEP", "vinaroz-park-theory"),
        ),
    ),
    *_entries(
        HELLER,
        (
            ("Figure 1, SGLD by epoch", "heller-fetaya-fig1"),
            ("Figure 2, LeNet-5 on MNIST, accuracy beside", "heller-fetaya-mnist"),
            ("Figure 3, clipped gradients, accuracy beside", "heller-fetaya-mnist"),
            ("Theorem IV.1, the construction", "heller-fetaya-construction"),
            ("Lemmas IV.3, IV.4 and A.1, one posterior draw", "heller-fetaya-fig1"),
            ("Lemmas IV.5 to IV.7 and A.2 to A.9, SGLD's leak and its epoch", "heller-fetaya-construction"),
            ("Algorithm 1 and Claim IV.8, Propose-Test-Sample", "heller-fetaya-pts"),
            ("Claim IV.9, with SGLD in it, parameters (34)", "heller-fetaya-pts"),
            ("n_min, equation (33)", "heller-fetaya-pts"),
            ("Equations (10) to (12), the attack's bound and cap", "heller-fetaya-attack"),
            ("Claims of appendices C and D", "- steps of proofs; the slips found are in errata"),
        ),
    ),
)
