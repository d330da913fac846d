"""Target kinds: importing this package registers number, category and boolean."""

from sordino.data.targets.base import TARGET_KINDS as TARGET_KINDS
from sordino.data.targets.base import TargetKind as TargetKind
from sordino.data.targets.base import read_target_kind as read_target_kind
from sordino.data.targets.base import target_kind as target_kind
from sordino.data.targets.boolean import BooleanTarget as BooleanTarget
from sordino.data.targets.category import CategoryTarget as CategoryTarget
from sordino.data.targets.number import NumberTarget as NumberTarget
