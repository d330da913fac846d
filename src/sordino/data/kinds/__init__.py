"""Feature kinds: importing this package registers number, category and boolean."""

from sordino.data.kinds.base import FEATURE_KINDS as FEATURE_KINDS
from sordino.data.kinds.base import FeatureKind as FeatureKind
from sordino.data.kinds.base import feature_kind as feature_kind
from sordino.data.kinds.base import read_feature_kind as read_feature_kind
from sordino.data.kinds.boolean import Boolean as Boolean
from sordino.data.kinds.boolean import Truth as Truth
from sordino.data.kinds.category import Category as Category
from sordino.data.kinds.missing import INDICATOR as INDICATOR
from sordino.data.kinds.missing import REFUSE as REFUSE
from sordino.data.kinds.missing import MissingRule as MissingRule
from sordino.data.kinds.missing import RawValue as RawValue
from sordino.data.kinds.number import Number as Number
from sordino.data.kinds.scaling import SYMMETRIC as SYMMETRIC
from sordino.data.kinds.scaling import UNIT as UNIT
from sordino.data.kinds.scaling import UNSCALED as UNSCALED
from sordino.data.kinds.scaling import Bounds as Bounds
from sordino.data.kinds.scaling import Scaling as Scaling
