"""What the items of Heller & Fetaya 2023 share."""
