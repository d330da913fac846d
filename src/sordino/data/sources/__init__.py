"""Tables in: importing this package registers every source."""

from sordino.data.sources.csv_file import read_csv as read_csv
from sordino.data.sources.csv_file import read_csv_header as read_csv_header
from sordino.data.sources.parquet_file import read_parquet as read_parquet
from sordino.data.sources.registry import column_names as column_names
from sordino.data.sources.registry import from_arrays as from_arrays
from sordino.data.sources.registry import from_arrow as from_arrow
from sordino.data.sources.registry import from_matrix as from_matrix
from sordino.data.sources.registry import from_pandas as from_pandas
from sordino.data.sources.registry import from_polars as from_polars
from sordino.data.sources.registry import from_structured as from_structured
from sordino.data.sources.registry import read_table as read_table
from sordino.data.sources.registry import register_source as register_source
from sordino.data.sources.registry import registered_sources as registered_sources
