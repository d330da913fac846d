"""The dossier: a folder that answers a reviewer item by item, each answer with its evidence."""
