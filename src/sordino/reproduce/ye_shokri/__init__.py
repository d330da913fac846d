"""What the items about Ye & Shokri 2022 share."""
