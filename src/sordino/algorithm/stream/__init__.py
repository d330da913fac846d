"""Rows that do not fit into memory: read in order from Parquet, or anywhere from a memory map."""

from sordino.algorithm.stream.mapped_rows import MappedRows as MappedRows
from sordino.algorithm.stream.parquet_rows import ParquetRows as ParquetRows
