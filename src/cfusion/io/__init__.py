"""Files: codecs, JSON, text tables and atomic writing, without any knowledge of data sets."""
