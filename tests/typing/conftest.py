"""Type checkers read the scripts here; the wrong one must not be imported for its examples."""

collect_ignore = ["wrong_script.py"]
