"""Tables in, a public schema, encoding with certified bounds, neighbours, synthetic truth.

Importing this package imports neither pandas nor pyarrow; they load when a table is read.
"""

import sordino.data.columns
import sordino.data.sources  # noqa: F401  (both register what has a file in them)
from sordino.data.columns.base import INDICATOR as INDICATOR
from sordino.data.columns.base import KINDS as KINDS
from sordino.data.columns.base import REFUSE as REFUSE
from sordino.data.columns.base import ColumnKind as ColumnKind
from sordino.data.columns.base import MissingRule as MissingRule
from sordino.data.columns.base import column_kind as column_kind
from sordino.data.columns.category import Boolean as Boolean
from sordino.data.columns.category import Category as Category
from sordino.data.columns.interaction import Interaction as Interaction
from sordino.data.columns.number import Date as Date
from sordino.data.columns.number import Measurement as Measurement
from sordino.data.columns.number import Number as Number
from sordino.data.columns.number import Ordered as Ordered
from sordino.data.encode import encode as encode
from sordino.data.encode import encode_features as encode_features
from sordino.data.example_tables import rand_health as rand_health
from sordino.data.example_tables import rand_health_schema as rand_health_schema
from sordino.data.neighbours import Dataset as Dataset
from sordino.data.neighbours import EncodedRecord as EncodedRecord
from sordino.data.neighbours import NeighbourPair as NeighbourPair
from sordino.data.neighbours import neighbours as neighbours
from sordino.data.raw_columns import ObjectColumn as ObjectColumn
from sordino.data.raw_columns import StoredColumn as StoredColumn
from sordino.data.scaling import SYMMETRIC as SYMMETRIC
from sordino.data.scaling import UNIT as UNIT
from sordino.data.scaling import UNSCALED as UNSCALED
from sordino.data.scaling import RowNorm as RowNorm
from sordino.data.scaling import Scaling as Scaling
from sordino.data.scaling import clip_rows as clip_rows
from sordino.data.schema import Feature as Feature
from sordino.data.schema import Schema as Schema
from sordino.data.schema import Target as Target
from sordino.data.schema import read_schema as read_schema
from sordino.data.schema import schema_from_dict as schema_from_dict
from sordino.data.schema import schema_from_text as schema_from_text
from sordino.data.schema import schema_to_dict as schema_to_dict
from sordino.data.schema import schema_to_text as schema_to_text
from sordino.data.schema import write_schema as write_schema
from sordino.data.schema_check import SchemaFinding as SchemaFinding
from sordino.data.schema_check import check as check
from sordino.data.schema_check import json_schema as json_schema
from sordino.data.schema_check import new_schema_template as new_schema_template
from sordino.data.schema_check import template_text as template_text
from sordino.data.schema_lines import check_line as check_line
from sordino.data.schema_lines import declared_lines as declared_lines
from sordino.data.schema_lines import mistakes_by_column as mistakes_by_column
from sordino.data.schema_lines import suggested_line as suggested_line
from sordino.data.schema_lines import with_formula as with_formula
from sordino.data.sources.csv_files import CsvFile as CsvFile
from sordino.data.sources.csv_files import Dialect as Dialect
from sordino.data.sources.in_memory import from_arrays as from_arrays
from sordino.data.sources.in_memory import from_arrow as from_arrow
from sordino.data.sources.in_memory import from_matrix as from_matrix
from sordino.data.sources.registry import column_names as column_names
from sordino.data.sources.registry import declared_types as declared_types
from sordino.data.sources.registry import read_table as read_table
from sordino.data.sources.registry import register_source as register_source
from sordino.data.table import Table as Table
from sordino.data.units import DeclaredUnit as DeclaredUnit
from sordino.data.units import DeclaredWeight as DeclaredWeight
