"""The loss-distribution engine: pairs, grids, composition by Fourier transform, certified curves."""
