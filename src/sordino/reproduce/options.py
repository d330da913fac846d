"""How an item of the papers is to be run again."""

from dataclasses import dataclass
from pathlib import Path

from sordino.core.errors import InputError


@dataclass(frozen=True)
class Options:
    """Quick or in full, where the benchmark data are, and the seed of everything random."""

    quick: bool
    data_dir: Path | None
    seed: int

    def data_folder(self, wanted: str) -> Path:
        """The folder of benchmark data, or a refusal that says which files are missing."""
        if self.data_dir is None:
            raise InputError(f"Expected --data-dir to name the folder that holds {wanted}, got none; pass it.")
        return self.data_dir
