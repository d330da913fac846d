"""Rényi divergences of one step, by order: closed forms, certified quadrature, published bounds."""
