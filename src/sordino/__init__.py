"""Sordino: private Bayesian learning that certifies and audits itself.

Names are loaded on first use, so that `import sordino` costs nothing until something is asked of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino.core.version import __version__ as __version__

if TYPE_CHECKING:
    from sordino.accounting.calibrate import Calibration as Calibration
    from sordino.accounting.calibrate import calibrate as calibrate
    from sordino.accounting.convert import compose as compose
    from sordino.accounting.convert import mix as mix
    from sordino.accounting.convert import repeat as repeat
    from sordino.accounting.convert import replace_one_from_add_remove as replace_one_from_add_remove
    from sordino.accounting.convert import to_loss_distribution as to_loss_distribution
    from sordino.accounting.convert import to_renyi as to_renyi
    from sordino.accounting.convert import trade_off_curve as trade_off_curve
    from sordino.accounting.evaluate import Explanation as Explanation
    from sordino.accounting.evaluate import certify as certify
    from sordino.accounting.evaluate import explain as explain
    from sordino.accounting.evaluate import theorem as theorem
    from sordino.accounting.evaluate import theorems as theorems
    from sordino.accounting.evaluate import tightest as tightest
    from sordino.algorithm.chain.pure import chain as chain
    from sordino.algorithm.chain.run import run as run
    from sordino.algorithm.noise.secure import secure_key as secure_key
    from sordino.auditing.verbs import audit as audit
    from sordino.core.bound import Bound as Bound
    from sordino.core.bound import Certificate as Certificate
    from sordino.core.bound import Citation as Citation
    from sordino.core.bound import Evidence as Evidence
    from sordino.core.bound import Inapplicable as Inapplicable
    from sordino.core.bound import Relation as Relation
    from sordino.core.bound import Status as Status
    from sordino.core.bound import View as View
    from sordino.core.gaussian import Bracket as Bracket
    from sordino.core.guarantee import ApproxDP as ApproxDP
    from sordino.core.guarantee import BoundedRange as BoundedRange
    from sordino.core.guarantee import GaussianDP as GaussianDP
    from sordino.core.guarantee import Guarantee as Guarantee
    from sordino.core.guarantee import LossDistribution as LossDistribution
    from sordino.core.guarantee import PureDP as PureDP
    from sordino.core.guarantee import RenyiDP as RenyiDP
    from sordino.core.guarantee import TotalVariation as TotalVariation
    from sordino.core.guarantee import guarantee_from_dict as guarantee_from_dict
    from sordino.core.spec import Spec as Spec
    from sordino.core.spec import read_spec as read_spec
    from sordino.core.validate import InputError as InputError
    from sordino.core.validate import SordinoError as SordinoError
    from sordino.data import Schema as Schema
    from sordino.data import read_schema as read_schema
    from sordino.estimators import ArrayBounds as ArrayBounds
    from sordino.estimators import BudgetWarning as BudgetWarning
    from sordino.estimators import DeltaWarning as DeltaWarning
    from sordino.estimators import NonPrivateWarning as NonPrivateWarning
    from sordino.estimators import PrivateBayesianNetworkClassifier as PrivateBayesianNetworkClassifier
    from sordino.estimators import PrivateBayesianNetworkRegressor as PrivateBayesianNetworkRegressor
    from sordino.estimators import PrivateCoxRegression as PrivateCoxRegression
    from sordino.estimators import PrivateGaussianMixture as PrivateGaussianMixture
    from sordino.estimators import PrivateLinearRegression as PrivateLinearRegression
    from sordino.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from sordino.estimators import PrivatePoissonRegression as PrivatePoissonRegression
    from sordino.estimators import PrivateRobustRegression as PrivateRobustRegression
    from sordino.estimators import public_pipeline as public_pipeline
    from sordino.estimators.checks import check as check
    from sordino.estimators.choice import Candidate as Candidate
    from sordino.estimators.choice import choose as choose
    from sordino.estimators.comparison import compare as compare
    from sordino.estimators.described_chain import fit_chain as fit_chain
    from sordino.estimators.look import look as look
    from sordino.estimators.own_model import fit as fit
    from sordino.estimators.own_release import reopen as reopen
    from sordino.estimators.planning import plan as plan
    from sordino.ledger import Ledger as Ledger
    from sordino.ledger import LedgerRefusal as LedgerRefusal
    from sordino.ledger.release import read_release as read_release
    from sordino.ledger.release import write_release as write_release

_HOMES = {
    "certify": "sordino.accounting.evaluate",
    "audit": "sordino.auditing.verbs",
    "fit": "sordino.estimators.own_model",
    "fit_chain": "sordino.estimators.described_chain",
    "reopen": "sordino.estimators.own_release",
    "look": "sordino.estimators.look",
    "check": "sordino.estimators.checks",
    "choose": "sordino.estimators.choice",
    "Candidate": "sordino.estimators.choice",
    "compare": "sordino.estimators.comparison",
    "plan": "sordino.estimators.planning",
    "run": "sordino.algorithm.chain.run",
    "chain": "sordino.algorithm.chain.pure",
    "secure_key": "sordino.algorithm.noise.secure",
    "Calibration": "sordino.accounting.calibrate",
    "calibrate": "sordino.accounting.calibrate",
    "compose": "sordino.accounting.convert",
    "mix": "sordino.accounting.convert",
    "repeat": "sordino.accounting.convert",
    "replace_one_from_add_remove": "sordino.accounting.convert",
    "to_loss_distribution": "sordino.accounting.convert",
    "to_renyi": "sordino.accounting.convert",
    "trade_off_curve": "sordino.accounting.convert",
    "Explanation": "sordino.accounting.evaluate",
    "explain": "sordino.accounting.evaluate",
    "tightest": "sordino.accounting.evaluate",
    "theorem": "sordino.accounting.evaluate",
    "theorems": "sordino.accounting.evaluate",
    "Bound": "sordino.core.bound",
    "Inapplicable": "sordino.core.bound",
    "Status": "sordino.core.bound",
    "Certificate": "sordino.core.bound",
    "Evidence": "sordino.core.bound",
    "Citation": "sordino.core.bound",
    "InputError": "sordino.core.validate",
    "SordinoError": "sordino.core.validate",
    "ApproxDP": "sordino.core.guarantee",
    "BoundedRange": "sordino.core.guarantee",
    "GaussianDP": "sordino.core.guarantee",
    "Guarantee": "sordino.core.guarantee",
    "LossDistribution": "sordino.core.guarantee",
    "PureDP": "sordino.core.guarantee",
    "RenyiDP": "sordino.core.guarantee",
    "TotalVariation": "sordino.core.guarantee",
    "guarantee_from_dict": "sordino.core.guarantee",
    "Relation": "sordino.core.bound",
    "Bracket": "sordino.core.gaussian",
    "Spec": "sordino.core.spec",
    "read_spec": "sordino.core.spec",
    "View": "sordino.core.bound",
    "Schema": "sordino.data",
    "read_schema": "sordino.data",
    "ArrayBounds": "sordino.estimators",
    "BudgetWarning": "sordino.estimators",
    "DeltaWarning": "sordino.estimators",
    "NonPrivateWarning": "sordino.estimators",
    "PrivateBayesianNetworkClassifier": "sordino.estimators",
    "PrivateBayesianNetworkRegressor": "sordino.estimators",
    "PrivateCoxRegression": "sordino.estimators",
    "PrivateGaussianMixture": "sordino.estimators",
    "PrivateLinearRegression": "sordino.estimators",
    "PrivateLogisticRegression": "sordino.estimators",
    "PrivatePoissonRegression": "sordino.estimators",
    "PrivateRobustRegression": "sordino.estimators",
    "public_pipeline": "sordino.estimators",
    "Ledger": "sordino.ledger",
    "LedgerRefusal": "sordino.ledger",
    "read_release": "sordino.ledger.release",
    "write_release": "sordino.ledger.release",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
