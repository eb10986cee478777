"""Where an exported calibrator comes from, as every exported file says."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from smallcal._version import __version__
from smallcal.calibrators import artefact
from smallcal.calibrators.fitted import FittedCalibrator


@dataclass(frozen=True)
class Origin:
    """What to say of a calibrator in a file that has left smallcal.

    Attributes
    ----------
    method : str
        Its true name.
    library : str
        The release that exported it.
    sha256 : str
        Of the saved artefact.
    """

    method: str
    library: str
    sha256: str

    def words(self) -> dict[str, str]:
        """Return each as text for a comment."""
        return {name: plain_words(text) for name, text in vars(self).items()}


def origin_of(fitted: FittedCalibrator, path: str | os.PathLike[str] | None = None) -> Origin:
    """Return where a calibrator comes from; without a path its artefact is what `save` writes.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10)
    >>> origin = origin_of(cal.fitted_)
    >>> origin.method, len(origin.sha256)
    ('none', 64)
    """
    if path is None:
        content = artefact.text_of(fitted.to_dict()).encode(errors="surrogatepass")
    else:
        content = Path(path).read_bytes()
    return Origin(fitted.method, f"smallcal {__version__}", hashlib.sha256(content).hexdigest())


def plain_words(text: str) -> str:
    """Return text that can stand in a comment or a docstring of any language and ends none.

    Examples
    --------
    >>> plain_words("srts-bce[n_groups=5]"), plain_words("it's */ all")
    ('srts-bce[n_groups=5]', 'it?s ?? all')
    """
    kept = "-+_.:=,[]()% "
    return "".join(c if c.isascii() and (c.isalnum() or c in kept) else "?" for c in text)
