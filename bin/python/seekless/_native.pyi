"""The native part. Its results are JSON; the package makes dataclasses of them."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import pyarrow

__version__: str
OPTIONS: List[str]

_Progress = Optional[Callable[[float], None]]
_Disk = Tuple[str, Optional[str]]

class Trace:
    @staticmethod
    def file(
        path: str, event: str, lenient: bool, columns: Optional[str], header: bool
    ) -> "Trace": ...
    @staticmethod
    def from_stream(name: str, stream: Any) -> "Trace": ...
    def held(self, progress: _Progress) -> "Trace": ...
    def table(self, progress: _Progress) -> pyarrow.Table: ...
    def stat(
        self,
        memory: int,
        day_s: float,
        size: Optional[int],
        device: Optional[str],
        progress: _Progress,
    ) -> str: ...
    def simulate(self, args: dict, progress: _Progress) -> str: ...
    def sweep(
        self,
        args: dict,
        axes_of: Sequence[Tuple[str, Sequence[str]]],
        workers: Optional[int],
        progress: _Progress,
    ) -> List[str]: ...
    def advise(
        self, args: dict, folds: int, others: Sequence[_Disk], progress: _Progress
    ) -> str: ...

def disks() -> List[str]: ...
def disk(name: str, toml: str) -> str: ...
