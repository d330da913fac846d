"""Bertazzi et al.: chains that are solved exactly, shared by the items."""
