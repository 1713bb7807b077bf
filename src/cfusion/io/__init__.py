"""Files: codecs, JSON, tables of text, and writing whole or not at all; knows nothing of data sets."""
