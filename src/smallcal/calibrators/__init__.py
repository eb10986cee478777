"""The four axes (objective, signal, map, discipline), the methods they make, and the estimators."""
