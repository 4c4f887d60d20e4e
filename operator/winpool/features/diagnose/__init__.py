"""PURE. The diagnosis: why a Windows node does not work, by what a client of the API sees of it."""
