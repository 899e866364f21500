"""Processes: a signal interrupts as Ctrl-C does, a child does not outlive its parent, and exit codes say what ended."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from analysis.core.processes import Terminated, interrupt_on_signals, run_child

STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
TIDY = (
    "import signal, sys, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\ntry:\n"
    "    print('up', flush=True); time.sleep(60)\nexcept KeyboardInterrupt:\n    sys.exit(5)"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_and_the_handler_is_restored(number):
    outside = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP, and what is ignored stays so
    try:
        with pytest.raises(Terminated) as ended, interrupt_on_signals():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, outside)
    assert ended.value.number == number
    assert isinstance(ended.value, KeyboardInterrupt)


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    try:
        with interrupt_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_beside_the_main_thread_nothing_is_changed():
    failures = []

    def enter():
        try:
            with interrupt_on_signals():
                pass
        except ValueError as error:
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not failures


@pytest.mark.parametrize(("program", "grace", "status"), [(STUBBORN, 0.1, -signal.SIGKILL), (TIDY, 10.0, 5)])
def test_a_child_ends_with_its_parent(program, grace, status, monkeypatch):
    children = []

    def communicate(child):
        children.append(child)
        assert child.stdout.readline() == "up\n"
        raise Terminated(signal.SIGTERM)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    with pytest.raises(Terminated):
        run_child([sys.executable, "-c", program], grace, stdout=subprocess.PIPE)
    assert children[0].returncode == status


def test_a_child_that_ends_by_itself_gives_its_output():
    done = run_child([sys.executable, "-c", "print('out'); import sys; sys.exit(3)"], stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (3, "out\n")


def write_command(folder: Path, statement: str) -> Path:
    """Write a program of one command, without torch, which takes two seconds to import; return its path."""
    (folder / "commands").mkdir()
    (folder / "commands" / "__init__.py").touch()
    (folder / "commands" / "one.py").write_text(f'''"""One command."""


def add_arguments(parser):
    pass


def run(arguments):
    {statement}
''')
    (folder / "program.py").write_text("""
import sys
from types import SimpleNamespace
sys.modules["torch"] = SimpleNamespace(device=str, cuda=SimpleNamespace(is_available=lambda: False))
import commands
from analysis import cli
sys.exit(cli.main(commands, "", "", ["one"]))
""")
    return folder / "program.py"


def test_sigterm_ends_a_command_with_143(tmp_path):
    waits = "import time; print('up', flush=True); [time.sleep(0.05) for _ in range(1200)]"  # a long wait may miss it
    program = write_command(tmp_path, waits)
    with subprocess.Popen(
        [sys.executable, program],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    ) as process:
        assert process.stdout.readline() == "up\n"
        began = time.monotonic()
        process.terminate()
        _, errors = process.communicate()
    assert (process.returncode, errors) == (143, "ended by SIGTERM\n")
    assert time.monotonic() - began < 30


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("ending", "status", "errors"),
    [("> /dev/full", 2, "error: standard output: No space left on device\n"), (">&-", 0, ""), ("| true", 0, "")],
)
def test_an_output_that_is_full_or_closed_ends_in_a_line(ending, status, errors, tmp_path):
    printing = write_command(tmp_path, "print('much')")
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} {printing} {ending}"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.getcwd(), "PYTHONUNBUFFERED": ""},
    )
    assert (done.returncode, done.stderr) == (status, errors)
