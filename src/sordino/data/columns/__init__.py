"""Column kinds, one file each: a kind serves features and targets."""

from sordino.data.columns.base import FEATURE_KINDS as FEATURE_KINDS
from sordino.data.columns.base import INDICATOR as INDICATOR
from sordino.data.columns.base import REFUSE as REFUSE
from sordino.data.columns.base import TARGET_KINDS as TARGET_KINDS
from sordino.data.columns.base import FeatureKind as FeatureKind
from sordino.data.columns.base import MissingRule as MissingRule
from sordino.data.columns.base import RawValue as RawValue
from sordino.data.columns.base import TargetKind as TargetKind
from sordino.data.columns.base import feature_kind as feature_kind
from sordino.data.columns.base import read_feature_kind as read_feature_kind
from sordino.data.columns.base import read_target_kind as read_target_kind
from sordino.data.columns.base import target_kind as target_kind
from sordino.data.columns.boolean import Boolean as Boolean
from sordino.data.columns.boolean import BooleanTarget as BooleanTarget
from sordino.data.columns.boolean import Truth as Truth
from sordino.data.columns.category import Category as Category
from sordino.data.columns.category import CategoryTarget as CategoryTarget
from sordino.data.columns.number import Number as Number
from sordino.data.columns.number import NumberTarget as NumberTarget
from sordino.data.scaling import SYMMETRIC as SYMMETRIC
from sordino.data.scaling import UNIT as UNIT
from sordino.data.scaling import UNSCALED as UNSCALED
from sordino.data.scaling import Bounds as Bounds
from sordino.data.scaling import Scaling as Scaling
