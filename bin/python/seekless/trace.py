"""Traces: files of any format that the command line reads, or Arrow tables with named columns."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from . import _native
from .errors import OptionError
from .progress import showing

# Nanoseconds, or bytes, of a unit.
_TIMES = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_SIZES = {"bytes": 1, "sectors": 512, "KiB": 1024, "pages": 4096}
_WORDS = {"r": "read", "w": "write", "trim": "discard", "unmap": "discard", "sync": "flush"}
_SECTOR = 512


class Trace:
    """Block requests: a file that is read again for each study, or a table in memory."""

    def __init__(
        self,
        path: Union[str, os.PathLike],
        *,
        event: str = "Q",
        lenient: bool = False,
        columns: Optional[str] = None,
        header: bool = False,
    ):
        """A trace in a file, as ``PATH`` or ``FORMAT:PATH``, compressed or not.

        ``event``: the event of a block trace that counts as a request: "Q" queued, "D" issued,
        "C" completed. ``lenient`` skips and counts malformed records. ``columns`` and ``header``
        describe a table without a format's name, as ``--columns`` of the command line does.
        """
        self.name = os.fspath(path)
        self._native = _native.Trace.file(self.name, event, lenient, columns, header)

    @classmethod
    def _of(cls, native: "_native.Trace", name: str) -> "Trace":
        trace = cls.__new__(cls)
        trace._native, trace.name = native, name
        return trace

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        time: Optional[str] = None,
        op: Optional[str] = None,
        offset: Optional[str] = None,
        size: Optional[str] = None,
        process: Optional[str] = None,
        device: Optional[str] = None,
        service: Optional[str] = None,
        name: str = "table",
    ) -> "Trace":
        """A trace from an Arrow table, or from any object with ``__arrow_c_stream__`` (polars,
        DuckDB, pandas 2.2).

        Each argument names a column, with a unit behind a colon: ``time="ts:ms"``. Units of
        ``time`` and ``service``: ``s``, ``ms``, ``us``, ``ns`` (default: ``s``; timestamps bring
        their own). Units of ``offset`` and ``size``: ``bytes`` (default), ``sectors`` of 512
        bytes, ``KiB``, ``pages`` of 4 KiB. ``op`` holds words (read, write, discard, flush, r,
        w); ``op="flag:read0"`` or ``"flag:read1"`` says which number is a read; without ``op``
        all requests are reads. ``process`` holds numbers or names.

        Without any argument the table has the columns of ``read_trace``. Rows must be in order
        of time. ``name`` is the table's name in messages.
        """
        import pyarrow

        if not isinstance(table, pyarrow.Table):
            if not hasattr(table, "__arrow_c_stream__"):
                raise OptionError(f"{name}: a {type(table).__name__} is no Arrow table")
            table = pyarrow.table(table)
        wanted = dict(
            time=time, op=op, offset=offset, size=size, process=process, device=device,
            service=service,
        )
        table = _named(table, name, wanted) if any(wanted.values()) else _stored(table, name)
        return cls._of(_native.Trace.from_stream(name, table), name)

    def hold(self, *, progress: bool = False) -> "Trace":
        """The same trace in memory, 32 bytes a request: read once, now."""
        with showing("reading", progress) as show:
            return self._of(self._native.held(show), self.name)

    def to_arrow(self, *, progress: bool = False):
        """All requests as a ``pyarrow.Table``; see :func:`seekless.read_trace`."""
        with showing("reading", progress) as show:
            return self._native.table(show)

    def __repr__(self) -> str:
        return f"Trace({self.name!r})"


def _column(table, name: str, field: str, text: str, units: dict, default: str):
    """A column, and its unit."""
    column, unit = text, default
    if text not in table.column_names and ":" in text:
        column, unit = text.rsplit(":", 1)
    if column not in table.column_names:
        raise OptionError(
            f"{name}: no column '{column}' for {field}; there are {', '.join(table.column_names)}"
        )
    if unit not in units:
        raise OptionError(f"{name}: {field}: unit '{unit}'; expected {', '.join(units)}")
    return table[column], units[unit]


def _whole(name: str, field: str, column, factor: int):
    """The column times a factor, as 64-bit integers; fractions of the result are cut off."""
    import pyarrow
    import pyarrow.compute as pc

    try:
        if pyarrow.types.is_timestamp(column.type):
            return column.cast(pyarrow.timestamp("ns")).cast(pyarrow.int64())
        if pyarrow.types.is_duration(column.type):
            return column.cast(pyarrow.duration("ns")).cast(pyarrow.int64())
        if pyarrow.types.is_floating(column.type):
            product = pc.round(pc.multiply(column.cast(pyarrow.float64()), float(factor)))
            return product.cast(pyarrow.int64())
        if pyarrow.types.is_decimal(column.type):
            return pc.multiply(column, factor).cast(pyarrow.int64(), safe=False)
        return pc.multiply_checked(column.cast(pyarrow.int64()), factor)
    except pyarrow.ArrowInvalid as error:
        raise OptionError(f"{name}: {field}: {error}") from error
    except pyarrow.ArrowNotImplementedError as error:
        raise OptionError(f"{name}: {field}: a column of {column.type} holds no numbers") from error


def _words(column):
    import pyarrow

    return column.cast(pyarrow.string())


def _operations(name: str, column, unit: str):
    import pyarrow
    import pyarrow.compute as pc

    if unit == "words":
        words = pc.utf8_lower(_words(column))
        for short, word in _WORDS.items():
            words = pc.if_else(pc.equal(words, short), word, words)
        return words
    flags = _whole(name, "op", column, 1)
    is_read = pc.equal(flags, 0 if unit == "read0" else 1)
    words = pc.if_else(is_read, "read", "write")
    known = pc.is_in(flags, pyarrow.array([0, 1]))
    # Other numbers are refused with their row.
    return pc.if_else(known, words, _words(flags))


def _named(table, name: str, wanted: dict):
    """The table with the columns and the units of `read_trace`."""
    import pyarrow
    import pyarrow.compute as pc

    if not wanted["offset"] or not wanted["size"]:
        raise OptionError(f"{name}: offset and size must name columns")
    columns = {}
    for field, target in (("time", "time_ns"), ("service", "service_ns")):
        if wanted[field]:
            column, factor = _column(table, name, field, wanted[field], _TIMES, "s")
            columns[target] = _whole(name, field, column, factor)
    offset, factor = _column(table, name, "offset", wanted["offset"], _SIZES, "bytes")
    start = _whole(name, "offset", offset, factor)
    size, factor = _column(table, name, "size", wanted["size"], _SIZES, "bytes")
    size = _whole(name, "size", size, factor)
    # As readers do: every sector that the bytes touch.
    columns["sector"] = pc.divide(start, _SECTOR)
    end = pc.divide(pc.add_checked(pc.add_checked(start, size), _SECTOR - 1), _SECTOR)
    sectors = pc.subtract(end, columns["sector"])
    columns["sectors"] = pc.if_else(pc.greater(size, 0), sectors, size)
    if wanted["op"]:
        units = {"words": "words", "read0": "read0", "read1": "read1"}
        column, unit = _column(table, name, "op", wanted["op"], units, "words")
        columns["op"] = _operations(name, column, unit)
    if wanted["process"]:
        column, _ = _column(table, name, "process", wanted["process"], {"": 1}, "")
        number = pyarrow.types.is_integer(column.type)
        columns["pid" if number else "process"] = (
            column.cast(pyarrow.int64()) if number else _words(column)
        )
    if wanted["device"]:
        column, _ = _column(table, name, "device", wanted["device"], {"": 1}, "")
        columns["device"] = _words(column)
    return pyarrow.table(columns)


def _stored(table, name: str):
    """The columns of `read_trace`, with plain text and 64-bit integers."""
    import pyarrow

    words = ("op", "process", "device")
    numbers = ("time_ns", "sector", "sectors", "pid", "day", "service_ns")
    columns = {}
    for column in table.column_names:
        if column in words:
            columns[column] = _words(table[column])
        elif column in numbers:
            columns[column] = _whole(name, column, table[column], 1)
        elif column in ("fua", "sync", "meta", "ahead"):
            columns[column] = table[column]
    # The column `device` holds numbers.
    if "device_name" in table.column_names:
        columns["device"] = _words(table["device_name"])
    for needed in ("sector", "sectors"):
        if needed not in columns:
            raise OptionError(
                f"{name}: no column '{needed}'; name the columns: offset=..., size=..., time=..."
            )
    if "time_ns" in columns and columns["time_ns"].null_count == len(table):
        del columns["time_ns"]
    return pyarrow.table(columns)
