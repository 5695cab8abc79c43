"""The stubs of the native part name what it has, and the README's example runs."""

import ast
import re
from pathlib import Path

import pytest

import seekless
from seekless import _native

HERE = Path(__file__).resolve().parent.parent


def test_stubs_and_native_part_agree():
    tree = ast.parse((Path(seekless.__file__).parent / "_native.pyi").read_text())
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    trace = next(n for n in tree.body if isinstance(n, ast.ClassDef))
    methods = {n.name for n in trace.body if isinstance(n, ast.FunctionDef)}
    public = {name for name in dir(_native) if not name.startswith("_")}
    assert public == functions | {"Trace", "OPTIONS"}
    assert {name for name in dir(_native.Trace) if not name.startswith("_")} == methods
    assert (Path(seekless.__file__).parent / "py.typed").is_file()


def test_everything_public_is_described():
    for name in seekless.__all__:
        if name != "__version__":
            assert getattr(seekless, name).__doc__, name


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    code = re.search(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.S)[1]
    sample = HERE.parent.parent / "sample" / "desktop.trace.zst"
    monkeypatch.chdir(tmp_path)
    exec(code.replace("sample/desktop.trace.zst", str(sample)), {})
    assert (tmp_path / "sweep.png").stat().st_size > 1000
