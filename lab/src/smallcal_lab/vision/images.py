"""Sets of images by one string, ``KIND:DIR`` or ``KIND:DIR:PART``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from smallcal.errors import FileError, InputError, choose, missing_file
from smallcal_lab.vision import cifar, folders, hub, imagenet
from smallcal_lab.vision.image_set import ImageSet

__all__ = ["KINDS", "ImageSet", "image_parts", "image_place", "open_images"]


#: What can be opened from a folder: functions that open a part of it, and that list its parts.
KINDS: dict[str, tuple[Callable[[Path, str], ImageSet], Callable[[Path], tuple[str, ...]]]] = {
    "folder": (folders.open_folder, folders.folder_parts),
    **{
        name: (partial(cifar.open_clean, name), partial(cifar.clean_parts, name))
        for name in ("cifar10", "cifar100")
    },
    **{
        name: (partial(cifar.open_corrupted, name), partial(cifar.corrupted_parts, name))
        for name in ("cifar10-c", "cifar100-c")
    },
    "tiny-imagenet": (folders.open_tiny, folders.tiny_parts),
    "imagenet": (imagenet.open_imagenet, imagenet.imagenet_parts),
    "imagenet-c": (imagenet.open_corrupted, imagenet.corrupted_parts),
    "imagenet-v2": (imagenet.open_v2, imagenet.v2_parts),
    **{
        name: (partial(imagenet.open_variant, name), lambda place: ())
        for name in ("imagenet-r", "imagenet-a", "imagenet-sketch")
    },
}

#: The one kind that is named and does not lie in a folder.
HUB = "hf-datasets"


def open_images(source: str) -> ImageSet:
    """Open a set of labelled images; each is read when needed.

    Parameters
    ----------
    source : str
        ``KIND:DIR`` or ``KIND:DIR:PART``. Kinds are

        - ``folder``: class folders, and a part where these lie in ``train``, ``val``, ...;
        - ``cifar10``, ``cifar100``: the official batches for Python; ``train`` or ``test`` (usual);
        - ``tiny-imagenet``, ``imagenet``: ``train`` or ``val`` (usual);
        - ``cifar10-c``, ``cifar100-c``, ``imagenet-c``: a corruption and a severity, ``fog-3``;
        - ``imagenet-v2`` and its variants, ``imagenet-r``, ``imagenet-a``, ``imagenet-sketch``;
        - ``hf-datasets:NAME``, with ``:SPLIT`` or ``:CONFIG:SPLIT``, if that package is installed.

    Returns
    -------
    ImageSet

    Raises
    ------
    FileError
        If files are missing, damaged or laid out differently; it names the file.
    InputError
        If there is no such kind or part.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp()) / "pets"
    >>> for name in ("cat", "dog"):
    ...     (root / "val" / name).mkdir(parents=True)
    ...     Image.new("CMYK", (8, 6)).save(root / "val" / name / "1.jpg")
    >>> images = open_images(f"folder:{root}:val")
    >>> images.name, images.classes, images.image(0).mode
    ('pets-val', ('cat', 'dog'), 'RGB')
    >>> open_images("cifar11:data")
    Traceback (most recent call last):
    ...
    smallcal.errors.InputError: unknown kind of images 'cifar11'; did you mean 'cifar10'?
    """
    kind, rest = _kind_of(source)
    if kind == HUB:
        return hub.open_hub(rest)
    place, part = _place_of(kind, rest)
    return KINDS[kind][0](place, part)


def image_parts(source: str) -> tuple[str, ...]:
    """Return the parts that ``KIND:DIR`` has, as they are written after it; none if it has none.

    Examples
    --------
    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("fog/1", "fog/3", "gaussian_noise/5"):
    ...     (root / name).mkdir(parents=True)
    >>> image_parts(f"imagenet-c:{root}")
    ('gaussian_noise-5', 'fog-1', 'fog-3')
    """
    kind, rest = _kind_of(source)
    if kind == HUB:
        return hub.hub_parts(rest)
    place, part = _place_of(kind, rest)
    if part:
        raise InputError(f"{source} is already one part; name {kind}:{place}")
    return KINDS[kind][1](place)


def image_place(source: str) -> tuple[Path, str]:
    """Return the folder and the part that a string names; of ``hf-datasets:NAME`` the name.

    Examples
    --------
    >>> import tempfile
    >>> image_place(f"imagenet-c:{tempfile.gettempdir()}:fog-3")[1]
    'fog-3'
    """
    kind, rest = _kind_of(source)
    return (Path(rest), "") if kind == HUB else _place_of(kind, rest)


def _kind_of(source: str) -> tuple[str, str]:
    kind, _, rest = str(source).partition(":")
    if kind not in KINDS and kind != HUB:
        raise InputError(f"unknown kind of images {kind!r}; {choose(kind, (*KINDS, HUB))}")
    if not rest:
        what = "NAME" if kind == HUB else "DIR"
        raise InputError(f"the place of the images is missing: write {kind}:{what}")
    return kind, rest


def _place_of(kind: str, rest: str) -> tuple[Path, str]:
    """Return folder and part; a folder's own name may hold colons."""
    try:
        whole = Path(rest).expanduser()  # no shell does it behind a colon
        if whole.is_dir():
            return whole, ""
        before, _, part = rest.rpartition(":")
        place = Path(before).expanduser()
        if before and part and place.is_dir():
            return place, part
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"{kind}: cannot read {rest!r}: {error}") from None
    named = place if before else whole
    what = "a file, not a folder" if named.is_file() else f"not there{missing_file(named)}"
    raise FileError(f"{kind}: the folder {named} is {what}")
