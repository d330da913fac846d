"""Audits: exact laws, attacks, one run with canaries, replay of the code, and the search for counterexamples."""
