"""A private fit: what is declared, which method, the charge, the run, and the rounds that a killed run resumes."""
