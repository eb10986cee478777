"""The page's colours, light and dark: one table for the style sheet, the figures and the tests.

Figures are drawn in a fixed set of colours. In the page each of these becomes a variable, so that
a figure changes with the page, and a colour that is pale on white gets a darker shade there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#ffffff",
        "card": "#f5f7f9",
        "ink": "#1b2330",
        "soft": "#566171",
        "line": "#dfe4ea",
        "edge": "#838d9b",
        "accent": "#0b5c9e",
        "focus": "#b45309",
        "good": "#12703f",
        "bad": "#b42318",
        "warn": "#b45309",
        "c-0072b2": "#0072b2",
        "c-d55e00": "#c95700",
        "c-009e73": "#008a64",
        "c-cc79a7": "#b9598f",
        "c-e69f00": "#b07800",
        "c-56b4e9": "#2a8cc7",
        "c-222222": "#1b2330",
        "c-767676": "#6b7482",
        "c-d9d9d9": "#d5dae1",
    }
)
DARK: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#12161c",
        "card": "#1a2028",
        "ink": "#e6eaf0",
        "soft": "#a3adba",
        "line": "#2c343f",
        "edge": "#768292",
        "accent": "#7cbcf5",
        "focus": "#f5b14c",
        "good": "#6fd09a",
        "bad": "#ff9b8e",
        "warn": "#f5b14c",
        "c-0072b2": "#4ba3e3",
        "c-d55e00": "#ff8a3d",
        "c-009e73": "#2fc796",
        "c-cc79a7": "#e196c0",
        "c-e69f00": "#edb03a",
        "c-56b4e9": "#8fd0f7",
        "c-222222": "#e6eaf0",
        "c-767676": "#98a2af",
        "c-d9d9d9": "#3a434f",
    }
)


def stylesheet() -> str:
    """Write both sets of colours as CSS: light on paper, else what the system or the reader wants.

    Examples
    --------
    >>> stylesheet().splitlines()[0][:24]
    ':root { --paper: #ffffff'
    """
    light, dark = _variables(LIGHT), _variables(DARK)
    # Only on screens: a page printed at night should still be black on white.
    return (
        f":root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media screen {{ :root[data-theme=light] {{ {light} color-scheme: light; }} "
        f":root[data-theme=dark] {{ {dark} color-scheme: dark; }} }}\n"
    )


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours as WCAG 2 defines it, from 1 to 21.

    Examples
    --------
    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
