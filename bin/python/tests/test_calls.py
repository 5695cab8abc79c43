"""Errors, Ctrl-C, threads, tables and pictures of results."""

import pickle
import signal
import threading
import time

import pytest

import seekless
from conftest import disksim, requests


def test_an_error_carries_what_and_where(tmp_path):
    path = tmp_path / "bad.trace"
    path.write_text("0.0 0 0 8 1\n1.0 0 100 8 1\nnot a request\n")
    with pytest.raises(seekless.TraceError) as caught:
        seekless.read_trace(path)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.path, error.place) == (str(path), "line 3")
    assert "not a request" in str(error)
    assert len(seekless.read_trace(path, lenient=True)) == 2
    with pytest.raises(seekless.TraceError) as caught:
        seekless.stat(tmp_path / "absent")
    assert caught.value.path.endswith("absent") and caught.value.place is None


def test_wrong_options_are_refused_with_what_to_do(trace):
    for call, words in [
        (lambda: seekless.simulate(trace, "wd800jb", cashe=1), "Did you mean 'cache'?"),
        (lambda: seekless.simulate(trace, "wd800jb", cache="1QB"), "cache: '1QB'"),
        (
            lambda: seekless.simulate(trace, "wd800jb", open_loop=True, queue_depth=8),
            "'open-loop' and 'queue-depth' are two ways of replay",
        ),
        (
            lambda: seekless.sweep(trace, "wd800jb", dict(think=["1ms"]), open_loop=True),
            "'open-loop' and 'think' are two ways of replay",
        ),
        (lambda: seekless.simulate(trace, "wd801jb"), "no disk 'wd801jb'"),
        (lambda: seekless.simulate(trace, "wd800jb", "brog"), "brog"),
        (lambda: seekless.sweep(trace, "wd800jb", dict(cachee=[1])), "Did you mean 'cache'?"),
        (lambda: seekless.sweep(trace, "wd800jb", dict(cache=[])), "no values"),
        (lambda: seekless.sweep(trace, "wd800jb", dict(cache=[1]), workers=0), "workers"),
        (lambda: seekless.advise(trace, "wd800jb", train=0.5), "'train'"),
        (lambda: seekless.advise(trace, "wd800jb", folds=1), "folds is 1"),
        (lambda: seekless.Trace(trace, event="X"), "event is 'X'"),
        (lambda: seekless.Trace(trace, columns="offset=1"), "size is missing"),
    ]:
        with pytest.raises(seekless.OptionError) as caught:
            call()
        assert words in str(caught.value)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(seekless.SeeklessError, match="with disk=rz55: .*Choose a larger disk"):
        seekless.sweep(trace, "wd800jb", dict(disk=["rz55"]))


def test_ctrl_c_ends_a_call(tmp_path):
    path = disksim(tmp_path / "t.trace", requests(200_000))
    trace = seekless.Trace(path)
    began = time.monotonic()
    # A shell starts its background jobs with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(20):
                seekless.simulate(trace, "wd800jb", ["vanilla", "adaptive", "borg"])
    finally:
        signal.signal(signal.SIGINT, before)
    timer.join()
    assert time.monotonic() - began < 30
    # The trace itself is not stopped.
    assert len(trace.to_arrow()) == 200_000


def test_other_threads_run_meanwhile(tmp_path):
    path = disksim(tmp_path / "t.trace", requests(100_000))
    worker = threading.Thread(target=seekless.simulate, args=(path, "wd800jb", "vanilla"))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
    worker.join()
    # With the GIL held, this thread would get no turn before the end.
    assert turns > 1000


def test_progress_is_told_and_its_exception_ends_the_work(trace):
    class Enough(Exception):
        pass

    def stop(share):
        assert 0.0 <= share <= 1.0
        raise Enough

    native = seekless.Trace(trace)._native
    args = {"disk": ("wd800jb", None), "policies": ["vanilla"] * 40, "options": [], "device": None}
    with pytest.raises(Enough):
        for _ in range(1000):
            native.simulate(args, stop)


def test_results_become_tables_and_pictures(trace):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    simulation = seekless.simulate(trace, "wd800jb")
    sweep = seekless.sweep(trace, "wd800jb", dict(cache=["64KiB", "1MiB"]), ["vanilla", "borg"])
    advice = seekless.advise(trace, "wd800jb")
    results = [simulation, sweep, advice, seekless.stat(trace), seekless.disks()]
    for result in results:
        table, frame = result.to_arrow(), result.to_pandas()
        assert len(table) == len(frame) == len(result.rows()) > 0
        assert isinstance(frame, pandas.DataFrame)
    for result in results[:4]:
        pyplot.figure()
        assert result.plot().get_xlabel()
        pyplot.close("all")
    assert list(sweep.to_pandas()["cache"]) == ["64KiB", "64KiB", "1MiB", "1MiB"]
    assert advice.verdict in ("worth", "unsure", "no_gain")
    with pytest.raises(KeyError, match="vanilla, adaptive"):
        simulation["brog"]
