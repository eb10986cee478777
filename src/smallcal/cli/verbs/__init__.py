"""One file per verb, named like it."""
