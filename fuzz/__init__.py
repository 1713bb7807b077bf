"""Damaged data sets and odd calls by the thousand: every one returns, or ends in one line of ours."""
