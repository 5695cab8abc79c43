"""Progress on a terminal: one line that is rewritten in place."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

_WIDTH = 32


@contextmanager
def showing(what: str, wanted: bool) -> "Iterator[Optional[Callable[[float], None]]]":
    """A function of the share done, 0 to 1, that draws a bar; None if no bar is wanted."""
    if not wanted:
        yield None
        return
    began = time.monotonic()

    def show(share: float) -> None:
        filled = int(share * _WIDTH)
        seconds = time.monotonic() - began
        bar = "#" * filled + "." * (_WIDTH - filled)
        sys.stderr.write(f"\r{what} [{bar}] {share:4.0%} {seconds:.0f} s")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r" + " " * (len(what) + _WIDTH + 20) + "\r")
        sys.stderr.flush()
