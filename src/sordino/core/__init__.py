"""Vocabulary: relations, views, certificates, guarantees, bounds, citations, directed rounding, specs."""
