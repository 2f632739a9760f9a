# SPDX-License-Identifier: Apache-2.0
"""What launches leave in a signature file: of one process, of many at once, of forks, of processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cudabuild.recording import read_signatures
from cudabuild.recording.merge import merge_parts
from cudabuild.recording.parts import PARTS
from cudabuild.recording.read import parse_text

KERNELS = """
import numpy as np
from cudabuild import cuda, device_function, kernel
from cudabuild.errors import CompilationError

N = 3

@kernel
def plain(a, x):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += x * N

@kernel("float32, float32[::1]", fastmath=True)
def declared(x, a):
    a[cuda.grid(1)] = x

@kernel
def wrong(a):
    a[0] = nothing

@cuda.jit
def numba_like(a, n):
    a[cuda.grid(1)] = n

class Box:
    @staticmethod
    @kernel(launch_bounds=(64, 2))
    def boxed(a):
        a[cuda.grid(1)] = 1

def make(n):
    @kernel
    def made(a):
        a[cuda.grid(1)] = n
    return made
"""


def start(folder: Path, code: str, record: str | None = "s.toml", **variables: str) -> subprocess.Popen[str]:
    """A process on the CPU device that has ``import kernels`` and an array ``a`` behind it."""
    if not folder.joinpath("kernels.py").exists():  # another process may be reading it
        folder.joinpath("kernels.py").write_text(KERNELS)
    head = "import os, sys, kernels\nimport numpy as np\na = np.ones(4, np.float32)\n"
    environment = {**os.environ, "CUDABUILD_DEVICE": "cpu", "PYTHONWARNINGS": "ignore", **variables}
    environment.pop("CUDABUILD_RECORD", None)
    if record is not None:
        environment["CUDABUILD_RECORD"] = record
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == status, errors
    return output


def recorded(folder: Path) -> dict[str, list[str]]:
    """Kernel -> signatures, of kernels of one name those with the same captured value ``n``."""
    return {
        kernel.qualname + (f" {kernel.captured['n']}" if kernel.captured else ""): list(kernel.signatures)
        for kernel in read_signatures(folder / "s.toml")
    }


def test_what_one_process_launches(tmp_path: Path) -> None:
    code = """
    kernels.plain[1, 4](a, 2)
    kernels.plain[1, 4](a, 2)
    kernels.plain[1, 4](a.astype("f8"), np.float64(2))
    kernels.declared[1, 4](2, a)
    kernels.numba_like[1, 4](a, 2)
    kernels.Box.boxed[1, 4](a)
    for n in (5, 6, 5):
        kernels.make(n)[1, 4](a)
    try:
        kernels.wrong[1, 4](a)
    except kernels.CompilationError:
        print("wrong")
    """
    assert finish(start(tmp_path, code)) == "wrong\n"
    assert recorded(tmp_path) == {
        "Box.boxed": ["float32[::1]"],
        "declared": ["float32, float32[::1]"],
        "make.<locals>.made 5": ["float32[::1]"],
        "make.<locals>.made 6": ["float32[::1]"],
        "numba_like": ["float32[::1], int64"],
        "plain": ["float32[::1], int", "float64[::1], float64"],
    }
    found = {kernel.qualname: kernel for kernel in read_signatures(tmp_path / "s.toml")}
    assert dict(found["Box.boxed"].options) == {"launch_bounds": (64, 2)}
    assert dict(found["declared"].options) == {"fastmath": True}
    assert (found["numba_like"].dialect, found["plain"].dialect) == ("numba", "cudabuild")
    made = found["make.<locals>.made"]
    lines = KERNELS.splitlines()
    assert lines[made.line - 1 :][:2] == ["    @kernel", "    def made(a):"]
    assert len(made.code) == 16
    # All of it is in the file itself, and nothing is left beside it.
    assert len(parse_text((tmp_path / "s.toml").read_text(), "s")) == 6
    assert sorted(os.listdir(tmp_path / f"s.toml{PARTS}")) == [".gitignore", ".lock"]


def test_nothing_where_it_is_off(tmp_path: Path) -> None:
    code = """
    kernels.plain[1, 4](a, 2)
    print([name for name in sys.modules if name.startswith("cudabuild.recording")])
    """
    assert finish(start(tmp_path, code, record=None)) == "[]\n"
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["kernels.py"]


def test_later_launches_do_not_pass_the_recorder(tmp_path: Path) -> None:
    code = """
    from cudabuild.recording import recorder
    kernels.plain[1, 4](a, 2)
    def refuse(*given):
        raise AssertionError("asked again")
    recorder.find_recorder = recorder.Recorder.add = refuse
    kernels.plain[1, 4](a, 3)
    kernels.plain[2, 2](a, 3)
    print("done")
    """
    assert finish(start(tmp_path, code)) == "done\n"


def test_a_later_run_adds(tmp_path: Path) -> None:
    finish(start(tmp_path, "kernels.plain[1, 4](a, 2)"))
    (tmp_path / "s.toml").write_text("# mine\n" + (tmp_path / "s.toml").read_text())
    finish(start(tmp_path, "kernels.plain[1, 4](a, 2.0); kernels.make(9)[1, 4](a)"))
    assert (tmp_path / "s.toml").read_text().startswith("# mine\n")
    assert recorded(tmp_path) == {
        "plain": ["float32[::1], int", "float32[::1], float"],
        "make.<locals>.made 9": ["float32[::1]"],
    }


MANY = """
for number in range({count}):
    kernels.make({first} + number)[1, 4](a)
"""


def test_many_processes_at_once(tmp_path: Path) -> None:
    processes = [start(tmp_path, MANY.format(first=100 * number, count=4)) for number in range(4)]
    for process in processes:
        finish(process)
    wanted = {f"make.<locals>.made {100 * number + n}" for number in range(4) for n in range(4)}
    assert set(recorded(tmp_path)) == wanted
    assert len(parse_text((tmp_path / "s.toml").read_text(), "s")) == len(wanted)


def test_merging_while_others_write(tmp_path: Path) -> None:
    """Whoever merges takes parts away from under those who write them."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    code = """
    import threading
    from cudabuild.recording.recorder import Recorder
    recorder = Recorder("s.toml")
    for n in range(300):
        recorder.add(kernels.make({first} + n).definition, kernels.declared.signatures[0][1:], "cudabuild")
    print("written")
    """
    processes = [start(tmp_path, code.format(first=1000 * number)) for number in range(3)]
    merges = 0
    while any(process.poll() is None for process in processes):
        merges += merge_parts(str(tmp_path / "s.toml"))
        time.sleep(0.001)
    for process in processes:
        assert finish(process) == "written\n"
    assert merges > 3
    wanted = {f"make.<locals>.made {1000 * number + n}" for number in range(3) for n in range(300)}
    assert set(recorded(tmp_path)) == wanted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_have_parts_of_their_own(tmp_path: Path) -> None:
    code = """
    kernels.make(1)[1, 4](a)
    children = []
    for number in (10, 20):
        child = os.fork()
        if not child:
            kernels.make(number)[1, 4](a)
            os._exit(0)  # as multiprocessing ends its processes: nothing runs at exit
        children.append(child)
    for child in children:
        print(os.waitpid(child, 0)[1])
    kernels.make(2)[1, 4](a)
    """
    assert finish(start(tmp_path, code)) == "0\n0\n"
    assert set(recorded(tmp_path)) == {f"make.<locals>.made {n}" for n in (1, 2, 10, 20)}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_process_loses_nothing_that_it_launched(tmp_path: Path) -> None:
    code = """
    for n in range(100000):
        kernels.make(n)[1, 4](a)
        print(n, flush=True)
    """
    process = start(tmp_path, code)
    assert process.stdout is not None
    launched = [int(process.stdout.readline()) for _ in range(4)]
    process.send_signal(signal.SIGKILL)
    launched += [int(line) for line in finish(process, -signal.SIGKILL).split()]
    assert not (tmp_path / "s.toml").exists()
    names = {f"make.<locals>.made {n}" for n in launched}
    assert names <= set(recorded(tmp_path)) <= names | {f"make.<locals>.made {max(launched) + 1}"}
    finish(start(tmp_path, "kernels.plain[1, 4](a, 2)"))  # the next that ends merges what it left
    assert names | {"plain"} <= {
        kernel.qualname + (f" {kernel.captured['n']}" if kernel.captured else "")
        for kernel in parse_text((tmp_path / "s.toml").read_text(), "s")
    }


def test_a_file_that_cannot_be_read_stays_and_so_does_what_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[[kernel]\n")
    process = start(tmp_path, "kernels.plain[1, 4](a, 2)")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "what was recorded stays in" in errors
    assert "s.toml is not TOML" in errors
    assert (tmp_path / "s.toml").read_text() == "[[kernel]\n"
    (tmp_path / "s.toml").unlink()
    assert recorded(tmp_path) == {"plain": ["float32[::1], int"]}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    tmp_path.joinpath("kernels.py").write_text(KERNELS)
    locked = tmp_path / "locked"
    locked.mkdir(0o500)
    process = start(tmp_path, "kernels.plain[1, 4](a, 2); kernels.plain[1, 4](a, 2.0)", record="locked/s.toml")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert errors.count("kernels:plain was not recorded in") == 1


def test_on_a_gpu_what_has_found_an_image(tmp_path: Path) -> None:
    code = """
    sys.path.insert(0, os.environ["FAKE_DRIVER"])
    import fake_driver
    from cudabuild.runtime.driver import use_driver
    driver = fake_driver.FakeDriver()
    driver.takes_any_code = True
    use_driver(driver)
    kernels.plain[1, 4](a, 2)
    kernels.plain[1, 4](a, 3)
    for kernel, setting in ((kernels.wrong, "auto"), (kernels.numba_like, "never")):
        os.environ["CUDABUILD_JIT"] = setting
        try:
            kernel[1, 4](a, *([2] if kernel is kernels.numba_like else []))
        except Exception as error:
            print(type(error).__name__)
    """
    fake = str(Path(__file__).resolve().parents[1] / "runtime")
    output = finish(start(tmp_path, code, CUDABUILD_DEVICE="gpu", FAKE_DRIVER=fake))
    assert output == "CompilationError\nNoImageError\n"
    assert recorded(tmp_path) == {"plain": ["float32[::1], int"]}


def test_a_script_is_known_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(KERNELS + "\nmake(3)[1, 4](np.ones(4, np.float32))\n")
    environment = {**os.environ, "CUDABUILD_DEVICE": "cpu", "CUDABUILD_RECORD": str(tmp_path / "s.toml")}
    subprocess.run([sys.executable, tmp_path / "tool.py"], env=environment, check=True)
    assert [kernel.name for kernel in read_signatures(tmp_path / "s.toml")] == ["tool:make.<locals>.made"]


def test_what_has_no_name_spoils_nothing(tmp_path: Path) -> None:
    code = """
    import cudabuild
    text = "from cudabuild import cuda, kernel\\ndef k(a):\\n    a[cuda.grid(1)] = 1\\n"
    namespace = {}
    exec(text, namespace)
    cudabuild.kernel(source=text)(namespace["k"])[1, 4](a)
    kernels.plain[1, 4](a, 2)
    """
    process = start(tmp_path, code)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "k was not recorded" in errors
    assert recorded(tmp_path) == {"plain": ["float32[::1], int"]}


def test_objects_that_raise_end_no_program(tmp_path: Path) -> None:
    code = """
    class Hostile:
        def __getattribute__(self, name):
            raise RuntimeError("never")
    from cudabuild.recording.recorder import find_recorder
    find_recorder().add(kernels.make(Hostile()).definition, kernels.declared.signatures[0][1:], "cudabuild")
    kernels.plain[1, 4](a, 2)
    """
    process = start(tmp_path, code)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert recorded(tmp_path) == {"plain": ["float32[::1], int"]}
    assert "kernels:make.<locals>.made was not recorded in" in errors
    assert "RuntimeError: never" in errors


def test_kernels_of_cudabuild_itself_are_left_out(tmp_path: Path) -> None:
    code = """
    from cudabuild import cuda
    print(int(cuda.reduce(lambda x, y: x + y)(a)))
    kernels.plain[1, 4](a, 2)
    """
    assert finish(start(tmp_path, code)) == "4\n"
    assert recorded(tmp_path) == {"plain": ["float32[::1], int"]}


class TestCommand:
    """``cudabuild record``."""

    def record(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        folder.joinpath("kernels.py").write_text(KERNELS)
        command = [sys.executable, "-m", "cudabuild", "record", *arguments]
        environment = {**os.environ, "CUDABUILD_DEVICE": "cpu"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def test_records_and_counts(self, tmp_path: Path) -> None:
        code = "import kernels, numpy as np; kernels.plain[1, 4](np.ones(4), 2); raise SystemExit(7)"
        done = self.record(tmp_path, "--", sys.executable, "-c", code)
        assert (done.returncode, done.stderr) == (7, "cudabuild-signatures.toml: 1 kernel and 1 signature new\n")
        done = self.record(tmp_path, "--out", "cudabuild-signatures.toml", "--", sys.executable, "-c", code)
        assert done.stderr == "cudabuild-signatures.toml: 0 kernels and 0 signatures new\n"
        (kernel,) = read_signatures(tmp_path / "cudabuild-signatures.toml")
        assert kernel.signatures == ("float64[::1], int",)

    def test_a_wrong_file_is_told_before_anything_runs(self, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text("[[kernel]]\nname = 3\nsignatures = []\n")
        done = self.record(tmp_path, "--out", "s.toml", "--", sys.executable, "-c", "print('ran')")
        assert (done.returncode, done.stdout) == (1, "")
        assert "s.toml:2: bad name\n  found:    3" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "error: no command to record\n  expected: cudabuild record [--out FILE] -- COMMAND …\n"),
            (("--", "no-such-command"), "error: no-such-command cannot be started: No such file or directory\n"),
            (("--out", ".", "--", "true"), "error: bad --out\n  found:    "),
        ],
    )
    def test_wrong_usage(self, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
        done = self.record(tmp_path, *arguments)
        assert done.returncode == 1
        assert done.stderr.startswith(message)
