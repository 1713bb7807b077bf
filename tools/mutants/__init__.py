"""Mutation testing: small random mistakes in `src/`, and which of them the tests notice."""
