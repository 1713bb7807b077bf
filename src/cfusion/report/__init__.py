"""Score tables, pictures, and a page with both."""
