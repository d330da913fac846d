"""One file per theorem; every module here is imported when the registry is first asked."""
