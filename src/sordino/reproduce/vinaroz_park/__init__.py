"""Private message passing on mixtures and networks: what the items of Vinaroz & Park share."""
