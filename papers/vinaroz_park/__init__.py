"""Vinaroz and Park: differentially private stochastic expectation propagation."""
