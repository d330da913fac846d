"""Ye and Shokri: differentially private learning needs hidden state."""
