"""Libraries and weights that may not be there: one line says what is missing and what to do."""

from __future__ import annotations

import importlib
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from smallcal.data.shown import one_line
from smallcal.errors import (
    FileError,
    InputError,
    MissingExtraError,
    SmallcalError,
    missing_extra,
)

#: Seconds after which a server that says nothing counts as not there.
PATIENCE = 8

#: Seconds without a byte after which a download has failed.
_STALLED = 60

#: How weights are given by hand, in Python and on the command line.
BY_HAND = ("pass the weights as checkpoint=FILE", "give the weights by --checkpoint FILE")


def library(name: str, source: str) -> Any:
    """Import the library of a kind of models, or say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if name == "timm" and error.name in (None, "timm"):
            raise missing_extra(name, "vision", f"opening {source}", "smallcal-lab") from None
        package = (error.name or name).partition(".")[0]
        raise MissingExtraError(
            f"opening {source} needs the package '{package}': pip install {package}"
        ) from None
    except (RuntimeError, OSError) as error:  # builds of torch and torchvision that do not match
        raise MissingExtraError(
            f"opening {source}: {name} cannot be imported ({one_line(error)[:150]}); torch and "
            "torchvision must be of versions and builds that match"
        ) from None


def reach(url: str) -> str:
    """Return why a server cannot be reached, or nothing.

    The hub's own client tries six times and waits up to a minute each; this asks once.
    """
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return ""
    except urllib.error.HTTPError:
        return ""  # it answered
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{urlsplit(url).hostname} cannot be reached ({one_line(reason)[:80]})"


def require_hub(source: str, what: str, *, instead: str = "") -> None:
    """Raise unless the hub, which has what the cache has not, can be asked."""
    constants = importlib.import_module("huggingface_hub.constants")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            raise _absent(source, what, constants.HF_HUB_CACHE, f"{name} is set", instead)
    if why := reach(str(constants.ENDPOINT)):
        raise _absent(source, what, constants.HF_HUB_CACHE, why, instead)


def require_address(source: str, url: str) -> None:
    """Raise unless a file is in the cache of torch, or the server that has it answers."""
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    file = folder / urlsplit(url).path.rpartition("/")[2]
    if not file.exists() and (why := reach(url)):
        raise _absent(source, file.name, folder, why)


def _absent(source: str, what: str, folder: object, why: str, instead: str = "") -> FileError:
    return FileError(
        f"{source}: {what} is not in the cache {folder}, and {why}: fetch it there on a machine "
        "with network and copy that folder, or ",
        python=instead or BY_HAND[0],
        shell=instead or BY_HAND[1],
    )


def headless(source: str, what: str) -> InputError:
    """Build the error for a model whose last layer is yet to be trained."""
    return InputError(
        f"{source} has {what}: ",
        python="pass classes=... to train it",
        shell="train it first, with smallcal train",
    )


@contextmanager
def loading(source: str) -> Iterator[None]:
    """Say in one line what a library objects to; no download waits for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_STALLED)
    try:
        yield
    except SmallcalError:
        raise
    except TypeError as error:  # an option that the network does not take
        raise InputError(f"{source}: {one_line(error)[:300]}") from error
    except Exception as error:  # what libraries raise for names, options and files has no one type
        raise FileError(f"{source} cannot be loaded: {one_line(error)[:300]}") from error
    finally:
        socket.setdefaulttimeout(before)
