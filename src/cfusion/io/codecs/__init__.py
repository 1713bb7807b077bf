"""One kind of file each, from bytes to arrays and back; heavy libraries are imported late."""
