"""Errors of seekless. Each carries its message, and the file and the position where known."""

from __future__ import annotations

from typing import Optional


class SeeklessError(Exception):
    """A study failed.

    ``path`` is the file, ``place`` the position in it ("line 3", "byte 40", "row 17"); each is
    None where there is none.
    """

    def __init__(self, message: str, path: Optional[str] = None, place: Optional[str] = None):
        super().__init__(message)
        self.path = path
        self.place = place

    def __reduce__(self):
        return type(self), (str(self), self.path, self.place)


class TraceError(SeeklessError):
    """A trace cannot be read."""


class OptionError(SeeklessError, ValueError):
    """A wrong argument; the message says what was expected."""
