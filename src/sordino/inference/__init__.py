"""What a release says: summaries, contrasts, margins, predictions, and the power of a planned fit."""
