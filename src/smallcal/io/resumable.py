"""A folder in which something is made part by part, and gone on with after any stop.

::

    FOLDER/MANIFEST    what was asked for
    FOLDER/...         finished parts, each written whole or not at all
    FOLDER/.lock       who is at work on it

The manifest is there before any part, so that parts of two things are never mixed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from smallcal.errors import FileError, InputError, file_errors
from smallcal.io.atomic import atomic_path, leftovers
from smallcal.io.documents import read_document
from smallcal.io.lock import FILE_NAME, alone_in

Task = TypeVar("Task")

#: A manifest names each input file: a hundred bytes or two for each.
MAX_BYTES = 64 * 1024 * 1024


class Refused(InputError):
    """Parts of something else are there, and stay."""


@dataclass(frozen=True, eq=False)
class Resumable(Generic[Task]):
    """The folder of one piece of work.

    Attributes
    ----------
    folder : Path
    parts : Path
        Where the parts are: the folder, or one inside it.
    manifest : Path
        The file that says what was asked for.
    part : callable
        Gives the file of a task.
    flaw : callable
        Says what is wrong with the file of a task, or nothing.
    others : tuple of Path
        Files beside the parts and the manifest that are written there.
    what, instead : str
        What is made there, and what to name so that it is made elsewhere, for errors.
    other : callable
        Says that the folder has parts of something else, given in words what differs.
    unknown : str
        Says that nobody knows what the parts in the folder are of.
    indent : int
        Of the manifest.
    beside : callable
        Gives the files that are written before a task's own.
    notes : list of str
        What happened to the parts that the user should know.
    """

    folder: Path
    parts: Path
    manifest: Path
    part: Callable[[Task], Path]
    flaw: Callable[[Task, Path], str]
    others: tuple[Path, ...]
    what: str
    instead: str
    other: Callable[[str], str]
    unknown: str
    indent: int = 2
    beside: Callable[[Task], Sequence[Path]] = lambda task: ()
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def claimed(self, *, parents: bool = False) -> Iterator[bool]:
        """Keep other processes out of the folder; make it, or its ``parents`` too, if need be.

        Gives whether that is certain.

        Raises
        ------
        InputError
            If another process is at work on it.
        Refused
            If the folder holds what smallcal did not write; nothing was touched.
        """
        with file_errors(f"cannot make {self.parts}"):
            self._refuse_unknown()
            made = not self.folder.exists()
            self.parts.mkdir(parents=parents, exist_ok=True)
        with alone_in(self.folder, what=self.what, instead=self.instead) as certain:
            # Whoever had the lock before may have moved the folder away with it.
            if not (self.folder / FILE_NAME).exists():
                raise InputError(
                    f"another process has just finished {self.what}; use that result",
                    code="file-busy",
                )
            try:
                yield certain
            except BaseException:
                if made:
                    self._leave_if_empty()
                raise

    def _refuse_unknown(self) -> None:
        """Raise where there is something, and no manifest to say what it is."""
        if os.path.lexists(self.manifest):
            return
        # The manifest is written before any part, so no kill leaves more than this behind.
        left = {self.folder / FILE_NAME, self.parts / FILE_NAME, *leftovers([self.manifest])}
        there = set(self.parts.iterdir()) if self.parts.is_dir() else set()
        if there - left or any(os.path.lexists(path) for path in self.others):
            raise Refused(self.unknown)

    def _leave_if_empty(self) -> None:
        """Remove a folder in which nothing was begun."""
        if all(path in (self.parts, self.folder / FILE_NAME) for path in self.folder.rglob("*")):
            with suppress(OSError):
                (self.folder / FILE_NAME).unlink()
                for folder in dict.fromkeys((self.parts, self.folder)):
                    folder.rmdir()

    def sweep(self, tasks: Sequence[Task]) -> None:
        """Remove what a process that was killed had not finished writing."""
        beside = [file for task in tasks for file in self.beside(task)]
        for path in leftovers([*map(self.part, tasks), *beside, self.manifest, *self.others]):
            path.unlink(missing_ok=True)

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Begin, or go on with what was asked for in the same words.

        Raises
        ------
        Refused
            If the folder holds parts of something else.
        """
        found = read_manifest(self.manifest)
        if found is not None:
            self._resume(found, asked)
        else:
            self._refuse_unknown()
            self._write_manifest(asked)

    def _resume(self, before: dict[str, Any], asked: Mapping[str, Any]) -> None:
        """Check that this is what was begun.

        Another smallcal may do something else under the same names, so its parts must not be mixed
        with these. Other packages change no more than the rounding of a number: to throw hours of
        work away for their sake would be worse than to say so and keep a record.
        """
        begun, now = before.get("versions"), asked.get("versions", {})
        begun = begun if isinstance(begun, dict) else {}
        used = before.pop("resumed_with", [])
        wanted = dict(asked)
        if now:
            wanted["versions"] = {**begun, "smallcal": now["smallcal"]}
        if changed := changes(before, wanted):
            raise Refused(self.other(changed))
        last = used[-1] if used else begun
        others = [
            f"{name} {last.get(name)}, now {now.get(name)}"
            for name in sorted({*last, *now} - {"smallcal"})
            if last.get(name) != now.get(name)
        ]
        if others:
            self.notes.append(f"the run was started with other versions: {_some_of(others)}")
            self._write_manifest({**before, "resumed_with": [*used, now]})

    def _write_manifest(self, document: Mapping[str, Any]) -> None:
        """Say what was asked for."""
        text = json.dumps(document, indent=self.indent, sort_keys=True, default=str)
        with atomic_path(self.manifest) as path:
            path.write_text(text + "\n", "utf-8")

    def missing(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks that are not done; damaged parts are noted, and replaced when they are.

        Nothing is removed: whoever only looks at a run must not change it.
        """
        return [task for task in tasks if not self._is_done(task)]

    def _is_done(self, task: Task) -> bool:
        part = self.part(task)
        if not part.exists():
            return False
        if not (flaw := self.flaw(task, part)):
            return True
        self.notes.append(f"{part} {flaw}; it will be computed again")
        return False


def read_manifest(file: Path) -> dict[str, Any] | None:
    """Return what was asked for; None if there is no such file."""
    if not file.exists():
        return None
    found = read_document(file, most=MAX_BYTES, what="manifest", error=FileError)
    if not isinstance(found, dict):
        raise FileError(f"{file} is not a manifest", code="file-damaged")
    return found


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in a few words what differs between what was asked for and what is; nothing if nothing.

    Examples
    --------
    >>> changes({"draws": 2, "files": {"a": 1}}, {"draws": 5, "files": {"a": 1}})
    'draws: 2, now 5'
    """
    now = json.loads(json.dumps(now, default=str))
    found = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            names = sorted({*old, *new})
            found += [_change(f"{key} {name}", old.get(name), new.get(name)) for name in names]
        else:
            found.append(_change(key, old, new))
    return _some_of([change for change in found if change])


def _change(what: str, old: Any, new: Any) -> str:
    if old == new:
        return ""
    shown = json.dumps(old), json.dumps(new)
    return f"{what}: {shown[0]}, now {shown[1]}" if max(map(len, shown)) < 30 else what


def _some_of(items: Sequence[str]) -> str:
    more = f"; and {len(items) - 3} more" if len(items) > 3 else ""
    return "; ".join(items[:3]) + more
