"""A fleet of disks on Spark: each disk's requests are one group, and one task studies a group.

A task holds its group in memory: the rows, and 32 bytes more for each request. Traces in files, one
a disk, need neither this memory nor a shuffle: see :func:`advise_files`. What cannot be studied has
its error in its row, and the others finish. Needs pyspark 4 (`applyInArrow`).
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from . import ADVISED, SIMULATED, SeeklessError, Trace
from . import advise as _advise
from . import simulate as _simulate

COLUMNS = dict(time="time_ns:ns", op="op", offset="sector:sectors", size="sectors:sectors")
"""The columns of the native store; :meth:`seekless.Trace.from_arrow` describes such names."""

_ADVICE = {
    "requests": "long", "verdict": "string", "choice": "string", "saves_busy": "double",
    "saves_busy_low": "double", "saves_busy_high": "double", "saves_energy": "double",
    "saves_usd": "double", "held_out_saves_busy": "double", "busy_s": "double",
    "joules": "double", "instead": "string", "instead_saves_busy": "double", "notes": "string",
    "error": "string",
}
_RUN = {
    "policy": "string", "requests": "long", "device_ios": "long", "busy_s": "double",
    "background_busy_s": "double", "response_ms_mean": "double", "response_ms_p99": "double",
    "energy_j_total": "double", "moved_bytes": "long", "operations": "long",
    "operations_usd": "double", "notes": "string", "error": "string",
}


def advise(
    df: Any,
    disk: str,
    policy: Union[str, Sequence[str]] = ADVISED,
    *,
    by: str = "disk",
    columns: Mapping[str, str] = COLUMNS,
    **options: Any,
):
    """A DataFrame with a row for each value of column ``by``: whether seekless helps there, how
    much (shares of disk time, joules and dollars, 0 to 1), and which device would help instead.

    ``columns`` names the columns as ``Trace.from_arrow`` does. The requests of a disk may come in
    any order: they are sorted by time. ``options`` are those of ``seekless.advise``.
    """

    rows = lambda trace: _advised(trace, disk, policy, options)  # noqa: E731
    return _grouped(df, by, columns, _ADVICE, rows)


def simulate(
    df: Any,
    disk: str,
    policy: Union[str, Sequence[str]] = SIMULATED,
    *,
    by: str = "disk",
    columns: Mapping[str, str] = COLUMNS,
    **options: Any,
):
    """A DataFrame with a row for each value of column ``by`` and each policy: the numbers of
    ``seekless.simulate``, with its ``options``."""

    rows = lambda trace: _simulated(trace, disk, policy, options)  # noqa: E731
    return _grouped(df, by, columns, _RUN, rows)


def advise_files(
    session: Any,
    paths: Sequence[Any],
    disk: str,
    policy: Union[str, Sequence[str]] = ADVISED,
    *,
    tasks: Optional[int] = None,
    **options: Any,
):
    """The same for one trace file a disk, by its path: ``FORMAT:PATH`` too. No rows travel: a task
    reads its files as a stream, in the memory of one study, whatever their length."""
    return _files(session, paths, tasks, _ADVICE, lambda t: _advised(t, disk, policy, options))


def simulate_files(
    session: Any,
    paths: Sequence[Any],
    disk: str,
    policy: Union[str, Sequence[str]] = SIMULATED,
    *,
    tasks: Optional[int] = None,
    **options: Any,
):
    """:func:`simulate` for one trace file a disk; see :func:`advise_files`."""
    rows = lambda trace: _simulated(trace, disk, policy, options)  # noqa: E731
    return _files(session, paths, tasks, _RUN, rows)


def _simulated(trace: Trace, disk: str, policy: Any, options: Mapping[str, Any]):
    result = _simulate(trace, disk, policy, **options)
    rows = []
    for run in result.rows():
        reads, writes = run.get("operations_reads"), run.get("operations_writes")
        billed = {"operations": None if reads is None else reads + writes}
        billed["operations_usd"] = run.get("cost_usd_operations")
        rows.append({**run, **billed, "notes": _noted(result)})
    return rows


def _noted(result):
    return "; ".join(result.notes) or None


def _advised(trace: Trace, disk: str, policy: Any, options: Mapping[str, Any]):
    advice = _advise(trace, disk, policy, **options)
    present, chosen = advice.tried[0], advice.chosen
    devices = [t for t in advice.tried if t.change == "device"]
    best = max(devices, key=lambda t: t.saves_busy["share"], default=None)
    row = {
        "requests": advice.trace["requests"],
        "verdict": advice.verdict,
        "busy_s": present.document["total"]["busy_s"],
        "joules": present.saves_energy and present.document["total"]["joules"],
        "notes": _noted(advice),
    }
    if chosen:
        row["choice"] = chosen.system
        row["saves_busy"] = chosen.saves_busy["share"]
        row["saves_busy_low"] = chosen.saves_busy["low"]
        row["saves_busy_high"] = chosen.saves_busy["high"]
        row["saves_energy"] = chosen.saves_energy and chosen.saves_energy["share"]
        row["saves_usd"] = chosen.saves_usd and chosen.saves_usd["share"]
        row["held_out_saves_busy"] = chosen.held_out_saves_busy
    if best:
        row["instead"] = best.device
        row["instead_saves_busy"] = best.saves_busy["share"]
    return [row]


def _studied(rows, trace):
    """The rows of a study, or one row with its error: nothing that is wrong with one disk may end
    the task, which holds other disks too."""
    try:
        return rows(trace())
    except SeeklessError as error:
        return [{"error": str(error)}]
    except Exception as error:  # noqa: BLE001
        return [{"error": f"{type(error).__name__}: {error}"}]


def _files(session, paths, tasks, fields: Mapping[str, str], rows):
    """The rows of each file, with its path before them."""
    types = {"trace": "string", **fields}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    paths = [str(path) for path in paths]

    def study(batches):
        import pyarrow

        arrow = {"long": pyarrow.int64(), "double": pyarrow.float64(), "string": pyarrow.string()}
        shape = pyarrow.schema([(name, arrow[kind]) for name, kind in types.items()])
        for batch in batches:
            for path in batch.column(0).to_pylist():
                found = _studied(rows, lambda: Trace(path))
                out = [{name: row.get(name) for name in types} | {"trace": path} for row in found]
                yield pyarrow.RecordBatch.from_pylist(out, shape)

    # Many short tasks: a killed one is tried again, and the last ones end together.
    tasks = tasks or max(1, min(len(paths), 20 * session.sparkContext.defaultParallelism))
    parallel = session.sparkContext.parallelize([(path,) for path in paths], tasks)
    return session.createDataFrame(parallel, "trace string").mapInArrow(study, schema)


def _grouped(df, by: str, columns: Mapping[str, str], fields: Mapping[str, str], rows):
    """The rows of each group, with its key before them."""
    key_type = df.schema[by].dataType.simpleString()
    types = {by: key_type, **{name: kind for name, kind in fields.items() if name != by}}
    time = columns.get("time", "")
    schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())

    def study(key, table):
        import pyarrow

        disk = key[0].as_py()
        # A task has no Spark session that could translate the types.
        arrow = {"long": pyarrow.int64(), "double": pyarrow.float64(), "string": pyarrow.string()}
        columns_out = [(name, arrow[kind]) for name, kind in types.items() if name != by]
        columns_out.insert(0, (by, key[0].type))
        column = time if time in table.column_names else time.rsplit(":", 1)[0]

        def trace():
            ordered = table.sort_by(column) if column in table.column_names else table
            return Trace.from_arrow(ordered, name=f"{by} {disk}", **columns)

        found = _studied(rows, trace)
        out = [{name: row.get(name) for name in types} | {by: disk} for row in found]
        return pyarrow.Table.from_pylist(out, pyarrow.schema(columns_out))

    return df.groupBy(by).applyInArrow(study, schema)
