"""Simsekli, Gurbuzbalaban, Yildirim and Zhu: differential privacy of heavy-tailed noisy SGD."""
