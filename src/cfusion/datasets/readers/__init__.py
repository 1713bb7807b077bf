"""One format a file: `recognises(path)`, `read(path, options)`, and `Options` and `write` where it has them."""
