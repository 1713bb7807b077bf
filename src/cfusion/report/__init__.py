"""What came out, for people: score tables, pictures, and one page that holds both."""
