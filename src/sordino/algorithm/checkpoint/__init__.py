"""Checkpoints: a run that was stopped, by a signal or by a crash, goes on as if it never had been."""

from sordino.algorithm.checkpoint.errors import CheckpointError as CheckpointError
from sordino.algorithm.checkpoint.errors import Interrupted as Interrupted
from sordino.algorithm.checkpoint.keeper import Checkpoint as Checkpoint
from sordino.algorithm.checkpoint.record import CheckpointSummary as CheckpointSummary
from sordino.algorithm.checkpoint.record import checkpoint_summary as checkpoint_summary
