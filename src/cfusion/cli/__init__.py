"""The command line: each command builds, calls one function and writes."""
