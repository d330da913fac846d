"""Hidden-state privacy dynamics of Ye & Shokri 2022 as plain functions, for theorems and for the paper's curves."""
