"""One file format per module, from bytes to arrays and back; heavy libraries are imported late."""
