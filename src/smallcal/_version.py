"""The version, in one place."""

__version__ = "0.1.0"


def versions(*more: str) -> dict[str, str]:
    """Return the versions that a result may depend on, those of ``more`` packages among them.

    Examples
    --------
    >>> list(versions())
    ['smallcal', 'python', 'numpy', 'scipy', 'scikit-learn']
    """
    import platform
    from importlib.metadata import version

    packages = ("numpy", "scipy", "scikit-learn", *more)
    return {
        "smallcal": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
