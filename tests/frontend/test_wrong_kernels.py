# SPDX-License-Identifier: Apache-2.0
"""What a mistake in a kernel looks like to its writer: file and line, the line, a caret under the wrong expression,
what was found, what was expected and what to do; and that doing so helps."""

from __future__ import annotations

import ast
import importlib.util
import pickle
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import wrong_kernels
from golden_files import Golden

import cudabuild
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError, SignatureError, TargetError
from cudabuild.frontend import build_ir
from cudabuild.target import parse_target
from cudabuild.types import parse_signature

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
MESSAGES = ("wrong_calls", "wrong_kernels", "wrong_signatures")

POINT = "Record(height: float32 at 0, count: int32 at 4; 8)"

#: function -> the signature it is compiled for
WRONG = {
    "unknown_name": "float32, float32[::1]",
    "misspelt_index_name": "float32[::1]",
    "unsupported_statement": "float32[::1]",
    "list_instead_of_array": "float32[::1]",
    "whole_array_arithmetic": "float32[::1], float32[::1]",
    "too_many_indices": "float32[::1]",
    "array_into_an_element": "float32[::1], float32[:, ::1]",
    "more_axes_than_the_target": "float32[:, ::1], float32[::1]",
    "grid_of_any_dimensions": "float32[::1], int",
    "alignment_of_three": "float32[::1]",
    "alignment_at_run_time": "float32[::1], int",
    "unknown_field": f"{POINT}[::1]",
    "text_into_a_number": f"{POINT}[::1]",
    "text_as_an_index": "float32[::1]",
    "number_into_a_record": f"{POINT}[::1]",
    "number_into_a_text": "U8[::1]",
    "writes_a_read_only_field": f"const {POINT}[::1]",
    "reshapes_columns": "float32[::1, :]",
    "adds_two_dates": "datetime64[D][::1]",
    "months_beside_days": "timedelta64[M][::1], timedelta64[D][::1]",
    "returns_a_value": "float32[::1]",
    "float_index": "float32[::1]",
    "float_range": "float32[::1], float32",
    "used_before_assigned": "float32[::1]",
    "changes_type": "float32[::1], bool",
    "calls_unsupported_math": "float32[::1]",
    "shape_at_run_time": "float32[::1], int",
    "atomic_without_value": "int32[::1]",
    "atomic_on_bytes": "int8[::1]",
    "identity_of_number": "float32[::1], int",
    "wrong_unpacking": "float32[:, ::1]",
    "writes_read_only": "const float32[::1]",
    "prints": "float32[::1]",
    "double_starred": "float32[::1]",
    "bitwise_on_float": "int32[::1], float32[::1]",
    "complex_into_a_real_array": "float32[::1], complex64[::1]",
    "math_of_a_complex_number": "float32[::1], complex64[::1]",
    "order_of_complex_numbers": "float32[::1], complex64[::1]",
    "floor_of_a_complex_number": "float32[::1], complex64[::1]",
    "atomic_on_complex_numbers": "float32[::1], complex64[::1]",
    "captured_text_array": "float64[::1]",
    "writes_captured_array": "float64[::1]",
    "mistake_in_helper": "float32[::1]",
    "several_mistakes": "float32[::1], int",
    "recursive_barrier": "int64[::1]",
    "wrong_keyword": "float32[::1]",
    "shuffles_bytes": "int8[::1]",
    "matches_flags": "int32[::1]",
    "mask_of_floats": "float32[::1]",
    "counts_bits_of_float": "float32[::1]",
    "atomic_inc_of_signed": "int32[::1]",
    "atomic_bits_of_float": "float32[::1]",
    "atomic_cas_without_index": "int32[::1]",
    "constant_of_argument": "float32[::1]",
    "captures_a_large_array": "float64[::1]",
    "keyword_only": "float32[::1]",
    "integers_out_of_bounds": "int8[::1], int32[::1], uint32[::1]",
    "smallest_of_bytes": "int8[::1], int32[::1]",
    "result_out_of_bounds": "int16[::1], int64[::1]",
}

#: function -> (what the message tells to do, the text it is about, the text it proposes)
FIXES = {
    "unknown_name": ("did you mean 'data'?", "dat[i]", "data[i]"),
    "misspelt_index_name": ("did you mean 'threadIdx'?", "thredIdx", "threadIdx"),
    "identity_of_number": ("write '=='", "n is TILE", "n == TILE"),
    "float_range": ("convert it: range(int(x))", "range(width)", "range(int(width))"),
    "float_index": ("convert it: int(x)", "x[i / 2]", "x[int(i / 2)]"),
    "whole_array_arithmetic": ("index the arrays", "x + 1.0", "x[i] + 1.0"),
    "list_instead_of_array": ("use a tuple", "[0.0, 0.0, 0.0]", "(0.0, 0.0, 0.0)"),
    "too_many_indices": ("index with 1 number", "x[i, j]", "x[i]"),
    "bitwise_on_float": ("convert it first: int(x)", "y[i] & 1", "int(y[i]) & 1"),
    "returns_a_value": ("store the result in an element", "return x[i]", "x[0] = x[i]"),
    "counts_bits_of_float": ("convert it: int(x)", "popc(x[i])", "popc(int(x[i]))"),
    "wrong_keyword": ("did you mean 'dtype'?", "dtpe", "dtype"),
    "smallest_of_bytes": ("int32(1000)", "best = 1000", "best = np.int32(1000)"),
}


def compile_error(module: ModuleType, name: str) -> CompilationError:
    definition = KernelDefinition(getattr(module, name))
    with pytest.raises(CompilationError) as caught:
        build_ir(definition, parse_signature(WRONG[name]))
    return caught.value


@pytest.mark.parametrize("name", sorted(WRONG))
def test_message(name: str, golden: Golden) -> None:
    error = compile_error(wrong_kernels, name)
    folder = str(Path(wrong_kernels.__file__).parent)
    text = str(error).replace(folder + "/", "")
    for late in ("cbrt", "exp2", "fma", "sumprod"):  # of newer Pythons
        text = text.replace(f" {late},", "")
    golden.check(f"wrong_kernels/{name}.txt", text)
    for diagnostic in error.diagnostics:
        assert diagnostic.text
        assert diagnostic.found
        assert diagnostic.expected
        assert diagnostic.do
        where = diagnostic.location
        assert 0 <= where.column < len(diagnostic.text)


@pytest.mark.parametrize("name", sorted(FIXES))
def test_proposed_fix_compiles(name: str, tmp_path: Path) -> None:
    told, old, new = FIXES[name]
    assert told in str(compile_error(wrong_kernels, name))
    text = Path(wrong_kernels.__file__).read_text(encoding="utf-8")
    start = text.index(f"def {name}(")
    end = text.find("\n\n\n", start)
    body = text[start:end]
    assert body.count(old) == 1
    path = tmp_path / f"fixed_{name}.py"
    path.write_text(text[:start] + body.replace(old, new) + text[end:], encoding="utf-8")
    fixed = load(path)
    build_ir(KernelDefinition(getattr(fixed, name)), parse_signature(WRONG[name]))


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_errors_of_a_kernel_come_together() -> None:
    error = compile_error(wrong_kernels, "several_mistakes")
    assert [d.title for d in error.diagnostics] == [
        "name 'undefined_one' is not defined",
        "too many indices",
        "wrong arguments for int32",
    ]


def test_messages_speak_of_the_kernel_alone() -> None:
    """No message shows a frame, a path or a name from inside the compiler."""
    texts = {path: path.read_text("utf-8") for folder in MESSAGES for path in (GOLDEN / folder).iterdir()}
    assert len([path for path in texts if path.parent.name == "wrong_kernels"]) >= 40
    ours = inner_names()
    assert {"HirInstr", "TupleOperand", "DiagnosticSink"} <= ours
    for path, text in texts.items():
        assert not re.search(r"Traceback|File \"|site-packages|\.pyc?\", line|0x[0-9a-f]{9,}", text), path
        assert not re.search(r"(?<![\w.])/\w+/\w+", text), path  # an absolute path
        assert not re.search(r"cudabuild\.(?!cuda\b|types\b)\w+", text), path
        assert not ours & set(re.findall(r"[A-Za-z_]\w+", text)), path


def inner_names() -> set[str]:
    """The classes of the compiler's rooms and their private functions, but for names that are plain words."""
    found = set()
    for room in ("frontend", "ir", "backend"):
        for path in (Path(cudabuild.__file__).parent / room).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            found |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return {name for name in found if re.search(r"[a-z][A-Z]", name) or name.startswith("_")}


def test_errors_survive_pickling() -> None:
    error = compile_error(wrong_kernels, "unknown_name")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("unknown_type", "float31, float32[::1]"),
        ("unclosed_array", "float32, float32[::1"),
        ("bad_dimension", "float32[:, 1]"),
        ("contiguous_in_the_middle", "float32[:, ::1, :]"),
        ("result_type", "float32(float32, float32)"),
        ("trailing", "float32, float32 float32"),
    ],
)
def test_signature_message(name: str, text: str, golden: Golden) -> None:
    with pytest.raises(SignatureError) as caught:
        parse_signature(text)
    golden.check(f"wrong_signatures/{name}.txt", str(caught.value))


def test_signature_of_another_length(golden: Golden) -> None:
    definition = KernelDefinition(wrong_kernels.unknown_name, "float32[::1]")
    for _ in range(2):  # asking again does not make it right
        with pytest.raises(SignatureError) as caught:
            definition.signatures  # noqa: B018
        golden.check("wrong_signatures/arity.txt", str(caught.value))


def test_unsupported_target(golden: Golden) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target("sm_91")
    golden.check("wrong_signatures/target.txt", str(caught.value))


@pytest.mark.parametrize(
    ("name", "error"),
    [("alignment_of_three", ValueError), ("returns_a_value", TypeError), ("unknown_name", CompilationError)],
)
def test_errors_that_python_has_too(name: str, error: type[Exception]) -> None:
    definition = KernelDefinition(getattr(wrong_kernels, name))
    with pytest.raises(error) as raised:
        build_ir(definition, parse_signature(WRONG[name]))
    assert isinstance(raised.value, CompilationError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy)) == (type(raised.value), str(raised.value))
