"""The page's colours, light and dark: one table for the style sheet, the figures and the tests.

Figures are drawn in a fixed set of colours. In the page each of these becomes a variable, so that
a figure changes with the page, and a colour that is pale on white gets a darker shade there.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Each colour on paper and in the dark.
_COLOURS = {
    "paper": ("#ffffff", "#12161c"),
    "card": ("#f5f7f9", "#1a2028"),
    "ink": ("#1b2330", "#e6eaf0"),
    "soft": ("#566171", "#a3adba"),
    "line": ("#dfe4ea", "#2c343f"),
    "edge": ("#838d9b", "#768292"),
    "accent": ("#0b5c9e", "#7cbcf5"),
    "focus": ("#b45309", "#f5b14c"),
    "good": ("#12703f", "#6fd09a"),
    "bad": ("#b42318", "#ff9b8e"),
    "warn": ("#b45309", "#f5b14c"),
    "c-0072b2": ("#0072b2", "#4ba3e3"),
    "c-d55e00": ("#c95700", "#ff8a3d"),
    "c-009e73": ("#008a64", "#2fc796"),
    "c-cc79a7": ("#b9598f", "#e196c0"),
    "c-e69f00": ("#b07800", "#edb03a"),
    "c-56b4e9": ("#2a8cc7", "#8fd0f7"),
    "c-222222": ("#1b2330", "#e6eaf0"),
    "c-767676": ("#6b7482", "#98a2af"),
    "c-d9d9d9": ("#d5dae1", "#3a434f"),
}
LIGHT: Mapping[str, str] = {name: light for name, (light, _) in _COLOURS.items()}
DARK: Mapping[str, str] = {name: dark for name, (_, dark) in _COLOURS.items()}


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
