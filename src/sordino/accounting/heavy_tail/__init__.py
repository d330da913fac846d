"""Heavy-tailed chains: moments and couplings (ours), and the Markov-chain perturbation bound of Simsekli et al."""
