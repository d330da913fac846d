"""One file per figure or table of a paper, discovered by `sordino.reproduce.item`."""
