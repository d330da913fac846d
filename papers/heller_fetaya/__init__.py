"""Heller and Fetaya: can one posterior sample be private for free?"""
