"""seekless: block traces, simulated disks, learned layouts.

    import seekless

    result = seekless.simulate("week.blkparse.gz", disk="wd800jb", cache="64MiB")
    print(result["adaptive"].all_busy_s, "seconds of disk time")
    result.plot()

Every number is that of the command line, to the last digit. Ctrl-C ends a call. Errors are
:class:`SeeklessError`; they carry the file and the position in it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Mapping, Optional, Sequence, Union

from . import _native
from ._native import __version__
from .errors import OptionError, SeeklessError, TraceError
from .progress import showing
from .results import Advice, Cell, Disk, Disks, Run, Simulation, Stat, Sweep, Tried, _of
from .trace import Trace

__all__ = [
    "Advice", "Cell", "Disk", "Disks", "OptionError", "Run", "SeeklessError", "Simulation", "Stat",
    "Sweep", "Trace", "TraceError", "Tried", "__version__", "advise", "disks", "read_trace",
    "simulate", "stat", "sweep",
]

TraceLike = Union[Trace, str, os.PathLike, Any]
"""A trace, the path of a file (``FORMAT:PATH`` too), or an Arrow table of ``read_trace``."""

SIMULATED = ("vanilla", "adaptive", "clairvoyant")
ADVISED = ("adaptive", "adaptive:trail=off", "borg", "clairvoyant")


def _trace(trace: TraceLike) -> Trace:
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, (str, os.PathLike)):
        return Trace(trace)
    return Trace.from_arrow(trace)


def _disk(disk: Union[str, os.PathLike, Disk]) -> "tuple[str, Optional[str]]":
    if not isinstance(disk, Disk):
        text = os.fspath(disk)
        if not (text.endswith(".toml") or "/" in text):
            return text, None
        disk = Disk.from_toml(text)
    return disk.name, disk.toml


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _args(disk, policy, options: Mapping[str, Any], device: Optional[str]) -> dict:
    policies = [policy] if isinstance(policy, str) else list(policy)
    pairs = [(key.replace("_", "-"), _text(value)) for key, value in options.items()]
    return {
        "disk": _disk(disk),
        # A policy's settings follow a colon; commas divide policies, as on the command line.
        "policies": [p for text in policies for p in text.split(",")],
        "options": pairs,
        "device": device,
    }


def read_trace(path: Union[str, os.PathLike], *, progress: bool = False, **reading: Any):
    """All requests of a trace, of any format that the command line reads, as a ``pyarrow.Table``.

    Columns: ``time_ns`` (nanoseconds since the first request; null without times), ``op`` (read,
    write, discard, write_zeroes, flush), ``sector`` and ``sectors`` (of 512 bytes), the flags
    ``fua``, ``sync``, ``meta``, ``ahead``, ``stream`` (0 = unknown), ``pid``, ``process``,
    ``device`` (a number), ``device_name``, ``day``, ``service_ns``. ``pyarrow.parquet`` writes
    such a table as a file that the command line reads. ``reading`` takes the options of :class:`Trace`.
    """
    return Trace(path, **reading).to_arrow(progress=progress)


def stat(
    trace: TraceLike,
    *,
    memory: int = 1 << 30,
    day: float = 86_400,
    size: Optional[int] = None,
    device: Optional[str] = None,
    progress: bool = False,
) -> Stat:
    """Statistics of a trace.

    ``memory``: bytes for data that grow with the trace; beyond it, numbers are estimates with
    their errors. ``day``: seconds of a day, for working sets. ``size``: bytes of the device.
    """
    with showing("reading", progress) as show:
        return Stat._read(_trace(trace)._native.stat(memory, float(day), size, device, show))


def simulate(
    trace: TraceLike,
    disk: Union[str, os.PathLike, Disk],
    policy: Union[str, Sequence[str]] = SIMULATED,
    *,
    device: Optional[str] = None,
    progress: bool = False,
    **options: Any,
) -> Simulation:
    """Policies compared on a trace and a modelled disk: each learns from the first part of the
    trace, and serves the rest.

    ``disk``: a name of :func:`disks`, a :class:`Disk`, or the path of a TOML file. ``device``:
    only this device of the trace. ``options`` are those of ``seekless simulate`` with ``_`` for
    ``-``: ``cache``, ``cluster``, ``read_ahead``, ``optimized`` (bytes, or text as "64KiB"),
    ``train``, ``free``, ``write_buffer`` (0 to 1, or "50%"), ``queue_depth``, ``open_loop``
    (True), ``think``, ``gather`` (text as "5ms"), ``scheduler``, ``spin_down``, ``free_seed``.
    """
    with showing("simulating", progress) as show:
        args = _args(disk, policy, options, device)
        return Simulation._read(_trace(trace)._native.simulate(args, show))


def sweep(
    trace: TraceLike,
    disk: Union[str, os.PathLike, Disk],
    grid: Mapping[str, Sequence[Any]],
    policy: Union[str, Sequence[str]] = SIMULATED,
    *,
    workers: Optional[int] = None,
    device: Optional[str] = None,
    progress: Optional[bool] = None,
    **options: Any,
) -> Sweep:
    """Every combination of a grid of options, in parallel; the trace is read once, into memory.

    ``grid``: for each option of :func:`simulate`, its values: ``dict(cluster=["0", "64KiB"])``.
    ``workers``: combinations at a time; default: one for each processor. ``progress``: a bar;
    default: on a terminal.
    """
    axes = [(key.replace("_", "-"), [_text(v) for v in values]) for key, values in grid.items()]
    settings = [{}]
    for key, values in grid.items():
        settings = [{**before, key: value} for before in settings for value in values]
    shown = sys.stderr.isatty() if progress is None else progress
    with showing("simulating", shown) as show:
        args = _args(disk, policy, options, device)
        texts = _trace(trace)._native.sweep(args, axes, workers, show)
    return Sweep([Cell(s, Simulation._read(text)) for s, text in zip(settings, texts)])


def advise(
    trace: TraceLike,
    disk: Union[str, os.PathLike, Disk],
    policy: Union[str, Sequence[str]] = ADVISED,
    *,
    folds: int = 12,
    instead: Sequence[Union[str, os.PathLike, Disk]] = ("sata-ssd",),
    device: Optional[str] = None,
    progress: bool = False,
    **options: Any,
) -> Advice:
    """Whether seekless helps on this disk, how much, how surely, and what helps instead.

    ``folds``: the most parts that the trace is cut into, 2 to 64. ``instead``: devices that could
    replace the disk. ``options`` are those of :func:`simulate` that describe the present system.
    """
    with showing("simulating", progress) as show:
        args = _args(disk, policy, options, device)
        others = [_disk(other) for other in instead]
        return Advice._read(_trace(trace)._native.advise(args, folds, others, show))


def disks() -> Disks:
    """The catalogue of disks and other devices."""
    return Disks([_of(Disk, json.loads(text)) for text in _native.disks()])
