"""One format per file: `recognises(path)`, `read(path, options)`, and `Options` and `write` if it has them."""
