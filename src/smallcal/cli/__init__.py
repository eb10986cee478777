"""The command line: ``smallcal VERB``.

Exit codes: 0 fine, 1 a check failed, 2 bad input, 3 a defect in smallcal, 130 interrupted. An
error is one line on stderr. :mod:`smallcal.cli.lazy` imports a verb when it is called, so that
``smallcal -h`` answers at once.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from smallcal.data.shown import one_line, visible
from smallcal.errors import SmallcalError, code_of, did_you_mean

BAD_INPUT = 2
DEFECT = 3
INTERRUPTED = 130
CLOSED_PIPE = 141

#: What the system says of bytes that cannot be written.
_WRITING = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", -1))


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.disable()  # modules that load make no garbage; a verb that begins enables it again
    # A terminated command must clean up like an interrupted one: no temporary file stays behind.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _terminate)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # a service may start commands without
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open as long as we run
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a class name must not crash an ASCII terminal
            stream.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    gc.freeze()  # nor is there need to search all modules for cycles when all of them go
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing but SystemExit escapes.

    Examples
    --------
    >>> run(["--version"])
    smallcal ...
    0
    """
    try:
        return _flushed(args)
    except KeyboardInterrupt:
        return _fail("interrupted; no partial file was left", INTERRUPTED)
    except BrokenPipeError:
        _let_go_of_stdout()
        return CLOSED_PIPE
    except OSError as error:
        return _report_system(error)
    except Exception as error:  # noqa: BLE001 - the outermost door: every error becomes one line
        return _report(error)


def _flushed(args: Sequence[str]) -> int:
    """Run one command and write out what it printed, also where it leaves by itself."""
    try:
        return _invoke(args)
    finally:
        if not isinstance(sys.exc_info()[1], Exception):
            sys.stdout.flush()


def _invoke(args: Sequence[str]) -> int:
    # Not at the top: who interrupts while packages load should see one line, too.
    import typer
    from typer.main import get_command

    from smallcal.cli.app import app
    from smallcal.cli.complete import ASKED

    command = get_command(app)
    if ASKED in os.environ:
        command.main(list(args), prog_name="smallcal", standalone_mode=False)
    try:
        # Not command(...): that would print errors in its own way and hide interrupts.
        with command.make_context("smallcal", list(args)) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    return 0


def _report(error: Exception) -> int:
    _show_traceback(error)
    if isinstance(error, SmallcalError):
        return _fail(f"{error.shell} [{error.code}]", BAD_INPUT)
    if hasattr(error, "format_message"):  # a usage error of typer, which may carry its own click
        return _fail(f"{_usage(error)} [usage]", BAD_INPUT)
    return _report_defect(error)


def _show_traceback(error: Exception) -> None:
    """Show where an error comes from, if asked; a name in it does nothing to the terminal."""
    if os.environ.get("SMALLCAL_DEBUG"):
        with suppress(OSError):
            sys.stderr.write(visible("".join(traceback.format_exception(error)), keep="\n"))


def _report_defect(error: Exception) -> int:
    return _fail(
        f"unexpected {type(error).__name__}: {error} (a bug in smallcal, please report it; "
        "SMALLCAL_DEBUG=1 shows the traceback)",
        DEFECT,
    )


def _report_system(error: OSError) -> int:
    """Say in one line what the system refused: that is no defect."""
    _show_traceback(error)
    if not error.strerror:
        return _report_defect(error)
    where = error.filename
    if where is None and error.errno in _WRITING:  # a file would be named: all have one writer
        where = "cannot write to standard output"
        _let_go_of_stdout()
    said = ": ".join(str(part) for part in (where, error.strerror) if part)
    return _fail(f"{said} [{code_of(error)}]", BAD_INPUT)


def _usage(error: Any) -> str:
    """Return what is wrong with the words that were typed, and one thing that was meant."""
    context = getattr(error, "ctx", None)
    verb = "smallcal" if context is None else context.command_path
    said = str(error.format_message())
    if context is not None and hasattr(error, "possibilities"):  # an option that is not there
        known = [name.lstrip("-") for one in context.command.params for name in one.opts]
        meant = did_you_mean(error.option_name.lstrip("-"), known)
        said = "; ".join(filter(None, [error.message, meant.replace("'", "'--", 1)]))
    return f"{said} ({verb} -h helps)"


def _fail(message: str, code: int) -> int:
    with suppress(OSError):
        sys.stderr.write(f"smallcal: error: {one_line(message)}\n")
    return code


def _let_go_of_stdout() -> None:
    """Be quiet about what cannot be printed, also when Python flushes at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
