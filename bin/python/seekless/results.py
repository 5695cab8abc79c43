"""Results as plain dataclasses.

The fields have the names of the command line's JSON, and their units at the end of the name: ``_s``
seconds, ``_ms`` milliseconds, ``_j`` joules, ``_bytes`` bytes. Times and joules are modelled.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Optional

# Real time differs from run to run: it is no result.
_REAL_TIME = ("wall_s", "requests_per_wall_s")


def _of(cls, document: dict):
    """The dataclass with the fields of a JSON object; fields that it does not know are left out."""
    known = {f.name for f in fields(cls)}
    return cls(**{name: value for name, value in document.items() if name in known})


def _flat(document: dict, group: str = "") -> dict:
    """The fields of a document, without lists; a nested field has its group's name before it."""
    out = {}
    for name, value in document.items():
        if isinstance(value, dict):
            out.update(_flat(value, f"{group}{name}_"))
        elif not isinstance(value, list):
            out[group + name] = value
    return out


def _drawing():
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install seekless[plot]") from error
    return matplotlib.pyplot


class _Table:
    """What every result with rows can do."""

    def rows(self) -> "list[dict[str, Any]]":
        """The rows of the table, as dictionaries."""
        raise NotImplementedError

    def to_arrow(self):
        """The rows as a ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.Table.from_pylist(_aligned(self.rows()))

    def to_pandas(self):
        """The rows as a ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()


def _aligned(rows: "list[dict]") -> "list[dict]":
    """The rows with the same fields each, in order of first appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def _bars(names, values, label: str, ax=None):
    """Horizontal bars, the first on top."""
    if ax is None:
        ax = _drawing().gca()
    ax.barh(list(names), list(values))
    ax.invert_yaxis()
    ax.set_xlabel(label)
    return ax


@dataclass(frozen=True)
class Run:
    """One policy over the measured requests."""

    policy: str
    """As asked, with its settings."""
    requests: int
    """Client requests."""
    device_ios: int
    """I/Os of the disk for clients."""
    busy_s: float
    """Time in which the disk works for clients: seek, rotation, transfer, overhead."""
    background_busy_s: float
    """Time in which the disk moves data."""
    seek_s: float
    rotation_s: float
    transfer_s: float
    overhead_s: float
    response_ms: "dict[str, float]"
    """``mean``, ``p50``, ``p95``, ``p99`` and ``max`` of the response time in milliseconds."""
    energy_j: "dict[str, Optional[float]]"
    """Joules: ``total`` and its parts; None if the power is not known."""
    j_per_op: Optional[float]
    """Joules of each client request; None if the power is not known."""
    moved_bytes: int
    """Bytes that moving data wrote."""
    cache_hits: int
    """Requests that RAM answered, also after a wait for a read in flight."""
    copy_hits: int
    """Reads that a copy answered."""
    optimized_bytes: int
    """Size of the optimized area; 0 without an area."""
    span_s: float
    """Modelled time from the first request to the last completion."""
    document: "dict[str, Any]" = field(repr=False)
    """Every field of the command line's JSON."""

    @property
    def all_busy_s(self) -> float:
        """Busy time for clients and for moving data, in seconds."""
        return self.busy_s + self.background_busy_s

    def row(self) -> "dict[str, Any]":
        """The run as a row: flat, without lists and without real time."""
        flat = _flat(self.document)
        return {name: value for name, value in flat.items() if name not in _REAL_TIME}


@dataclass(frozen=True)
class Simulation(_Table):
    """Policies side by side on one trace and one disk."""

    disk: str
    """Name of the disk."""
    scheduler: str
    replay: str
    """``closed`` or ``open``."""
    queue_depth: Optional[int]
    """Requests in flight of a closed loop."""
    cache_bytes: int
    read_ahead_bytes: int
    cluster_bytes: int
    train: float
    """Share of the trace that the policies learned from, 0 to 1; it is not measured."""
    trace: "dict[str, Any]" = field(repr=False)
    """Facts about the trace."""
    split: "dict[str, Any]" = field(repr=False)
    """The trained part and the measured part."""
    notes: "list[str]"
    runs: "list[Run]"
    """One for each policy, in the order asked."""

    @classmethod
    def _read(cls, text: str) -> "Simulation":
        document = json.loads(text)
        document["runs"] = [_of(Run, {**run, "document": run}) for run in document["runs"]]
        return _of(cls, document)

    def __getitem__(self, policy: str) -> Run:
        """The run of a policy."""
        for run in self.runs:
            if run.policy == policy:
                return run
        names = ", ".join(run.policy for run in self.runs)
        raise KeyError(f"no policy '{policy}'; there are {names}")

    def rows(self):
        return [run.row() for run in self.runs]

    def plot(self, ax=None):
        """Busy time of each policy in seconds, moving data counted. Returns the axes."""
        names = [run.policy for run in self.runs]
        return _bars(names, [run.all_busy_s for run in self.runs], "busy time (s)", ax)


@dataclass(frozen=True)
class Cell:
    """One combination of a sweep."""

    settings: "dict[str, Any]"
    """The values of the grid's options."""
    simulation: Simulation


@dataclass(frozen=True)
class Sweep(_Table):
    """Every combination of a grid, in order; the last option changes fastest."""

    cells: "list[Cell]"

    def rows(self):
        return [
            {**cell.settings, **run.row()} for cell in self.cells for run in cell.simulation.runs
        ]

    def plot(self, x: Optional[str] = None, ax=None):
        """Busy time in seconds over the option ``x`` (default: the last), a line for each policy
        and each combination of the other options. Returns the axes."""
        if ax is None:
            ax = _drawing().gca()
        x = x or list(self.cells[0].settings)[-1]
        lines: dict = {}
        for cell in self.cells:
            rest = ", ".join(f"{k}={v}" for k, v in cell.settings.items() if k != x)
            for run in cell.simulation.runs:
                label = f"{run.policy} {rest}".strip()
                point = (str(cell.settings[x]), run.all_busy_s)
                lines.setdefault(label, []).append(point)
        for label, points in lines.items():
            ax.plot(*zip(*points), marker="o", label=label)
        ax.set_xlabel(x)
        ax.set_ylabel("busy time (s)")
        ax.legend()
        return ax


@dataclass(frozen=True)
class Tried:
    """A system that ``advise`` tried."""

    system: str
    change: str
    """``none``, ``layout``, ``foresight``, ``setting``, ``layout_and_ram``,
    ``device`` or ``device_layout``."""
    device: str
    saves_busy: "dict[str, float]"
    """``share`` of disk time saved, moving data counted; ``low`` and ``high`` bound 90 %."""
    saves_energy: "Optional[dict[str, float]]"
    """The same for joules; None unless the power of both devices is known."""
    held_out_saves_busy: float
    """Share of disk time saved over the folds that no choice has seen."""
    held_out_saves_energy: Optional[float]
    document: "dict[str, Any]" = field(repr=False)
    """Every field of the command line's JSON."""
    saves_usd: "Optional[dict[str, float]]" = None
    """``saves_busy`` for the price of operations; None unless both devices bill operations."""
    held_out_saves_usd: Optional[float] = None


@dataclass(frozen=True)
class Advice(_Table):
    """Whether a learned policy pays on this disk, how surely, and what else would help."""

    verdict: str
    """``worth``, ``unsure`` or ``no_gain``."""
    choice: Optional[int]
    """Index of the chosen policy in ``tried``; None if none saves anything."""
    ranked_by: str
    """``time``, or ``money`` where the disk bills operations: ``choice`` saves most of this."""
    sentences: "list[str]"
    disk: str
    positioning_share: float
    """Share of disk time in seeks and rotational waits."""
    foresight_share: float
    """Share that a clairvoyant policy saves."""
    held_out_folds: int
    fold_requests: "list[int]"
    trace: "dict[str, Any]" = field(repr=False)
    notes: "list[str]"
    tried: "list[Tried]" = field(repr=False)
    """All systems; the first is the present one."""

    @classmethod
    def _read(cls, text: str) -> "Advice":
        document = json.loads(text)
        document["tried"] = [_of(Tried, {**t, "document": t}) for t in document["tried"]]
        return _of(cls, document)

    @property
    def chosen(self) -> Optional[Tried]:
        """The chosen policy."""
        return None if self.choice is None else self.tried[self.choice]

    def rows(self):
        return [_flat(t.document) for t in self.tried]

    def plot(self, ax=None):
        """Share of disk time that each system saves, in per cent. Returns the axes."""
        names = [t.system for t in self.tried[1:]]
        shares = [t.saves_busy["share"] * 100 for t in self.tried[1:]]
        return _bars(names, shares, "disk time saved (%)", ax)


@dataclass(frozen=True)
class Stat(_Table):
    """Statistics of a trace. docs/using/stat.md defines every number."""

    trace: "dict[str, Any]"
    """Facts about the trace: requests, span in seconds, counts of skipped records."""
    table1: "dict[str, Any]"
    """BORG's Table 1: bytes read and written, unique bytes, shares."""
    mix: "list[dict[str, Any]]"
    """Requests and bytes by operation."""
    notes: "list[str]"
    document: "dict[str, Any]" = field(repr=False)
    """Every number."""

    @classmethod
    def _read(cls, text: str) -> "Stat":
        document = json.loads(text)
        return _of(cls, {**document, "document": document})

    def rows(self):
        return [_flat(row) for row in self.mix]

    def plot(self, ax=None):
        """Accesses of the pages by rank, most accessed first, both logarithmic. Returns the
        axes."""
        if ax is None:
            ax = _drawing().gca()
        points = self.document["rank_frequency"]["all"]
        ax.loglog([p["rank"]["value"] for p in points], [p["accesses"] for p in points])
        ax.set_xlabel("page, by rank")
        ax.set_ylabel("accesses")
        return ax


@dataclass(frozen=True)
class Disk:
    """A disk or another device: from the catalogue, or from a TOML file."""

    name: str
    title: str
    kind: str
    capacity_bytes: int
    toml: Optional[str] = field(default=None, repr=False)
    """The description; None for a device of the catalogue."""

    @classmethod
    def from_toml(cls, path) -> "Disk":
        """The disk of a TOML file. docs/believing/disk-models.md lists the fields."""
        from . import _native
        from .errors import SeeklessError

        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise SeeklessError(f"{path}: cannot be read: {error}", str(path)) from error
        return _of(cls, json.loads(_native.disk(str(path), text)))

    def to_dict(self) -> "dict[str, Any]":
        return asdict(self)


@dataclass(frozen=True)
class Disks(_Table):
    """The catalogue."""

    disks: "list[Disk]"

    def __iter__(self):
        return iter(self.disks)

    def __len__(self):
        return len(self.disks)

    def rows(self):
        return [
            {name: value for name, value in d.to_dict().items() if name != "toml"}
            for d in self.disks
        ]
