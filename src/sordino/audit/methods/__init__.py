"""One file per audit method; every file here is found and registered by itself."""
