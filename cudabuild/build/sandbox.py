# SPDX-License-Identifier: Apache-2.0
"""Runs the statements of a slice, module by module, in program order, without importing the package.

While a :class:`Sandbox` is open, the project's modules come from a finder that runs only the chosen statements of each.
They see an ``__import__`` that refuses what may not be there, or may differ, when a wheel is built. A statement that
fails is remembered with its line, and what depends on it does not run: a value is right, or it is missing.
"""

from __future__ import annotations
import __future__ as future_features

import ast
import builtins
import copy
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType, TracebackType
from typing import Any, NoReturn

from cudabuild import early
from cudabuild.build.effects import Leaf, Step
from cudabuild.build.machine import hide_devices
from cudabuild.build.names import chain_of
from cudabuild.build.project import Project, SourceModule, resolve_relative
from cudabuild.build.resolve import Cell
from cudabuild.build.slice import Slice, Slicer
from cudabuild.errors import SourceError
from cudabuild.numba.tree import NumbaTree, is_numba

__all__ = ["DENIED_MODULES", "Failure", "Sandbox"]

#: Modules of the standard library that talk to the outside: what they give is not the same at build and at run time.
DENIED_MODULES = frozenset(
    {
        "asyncio", "concurrent", "ctypes", "ensurepip", "ftplib", "http", "imaplib", "importlib", "multiprocessing",
        "nntplib", "pip", "poplib", "pty", "runpy", "selectors", "signal", "smtplib", "socket", "socketserver", "ssl",
        "subprocess", "telnetlib", "tkinter", "urllib", "venv", "webbrowser", "xmlrpc",
    }
)  # fmt: skip

#: What ``numba`` means in a slice: this package's names, and nothing of numba's CPU side but plain functions.
_NUMBA = NumbaTree(takes_real=False)


@dataclass(frozen=True)
class Failure:
    """Why a statement could not be run: where, relative to the project, and what went wrong.

    Attributes:
        file, line, reason: the place, and what is wrong there.
        kind: a key of :data:`cudabuild.image.left.KINDS`.
        about: the module that the reason is about, or "".
    """

    file: str
    line: int
    reason: str
    kind: str = "fails"
    about: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"

    @classmethod
    def parse(cls, text: str) -> Failure:
        """That a file cannot be parsed: what ``file:line: reason`` tells; the file, being relative, has no colon."""
        file, _, rest = text.partition(":")
        line, _, reason = rest.partition(":")
        if not line.isdigit():
            line, reason = "1", rest
        return cls(file, int(line), reason.strip(), "unreadable")


class _Refused(BaseException):
    """Something that a slice may not do. Not an Exception: ``except ImportError`` must not turn it into a value."""


class _Unreadable(SourceError):
    """A module of the project that cannot be parsed; says where."""


class _Builtins(dict[str, Any]):
    """The builtins of a sliced module: asked for a name that is neither there nor in the module."""

    def __init__(self, names: dict[str, Any], check_missing: Callable[[str], None]) -> None:
        super().__init__(names)
        self._check_missing = check_missing

    def __missing__(self, name: str) -> NoReturn:
        self._check_missing(name)
        raise KeyError(name)


class Sandbox:
    """Runs slices; a context manager, because it stands in ``sys.meta_path`` and ``sys.modules`` while it is open."""

    def __init__(self, project: Project, slicer: Slicer, allow_imports: Iterable[str] = ()) -> None:
        self.project = project
        self.slicer = slicer
        self.allowed = frozenset(allow_imports)
        slicer.allowed = frozenset(name.partition(".")[0] for name in self.allowed)
        self.done: set[Leaf] = set()
        self.skipped: set[Leaf] = set()
        self.failures: dict[Leaf, Failure] = {}
        self._module_failures: dict[str, Failure] = {}
        self._chosen: set[Leaf] = set()
        self._refusals: list[Failure] = []
        self._running: Leaf | None = None
        self._replaced: dict[str, ModuleType] = {}
        self._files = {file.path for file in project.files.values()}
        self._open = ExitStack()

    def __enter__(self) -> Sandbox:
        self._open.enter_context(early.suspended())  # the mistakes of all kernels are told together
        self._open.enter_context(hide_devices(self._refuse))
        self._replaced = {name: sys.modules.pop(name) for name in list(sys.modules) if self.project.claims(name)}
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)
        for name in [name for name in sys.modules if self.project.claims(name)]:
            del sys.modules[name]
        sys.modules.update(self._replaced)
        self._open.close()

    def run(self, chosen: Slice, modules: Iterable[str]) -> None:
        """Runs the statements of a slice by importing ``modules`` and all modules that it reaches."""
        self._chosen = {*chosen.leaves, *chosen.optional}
        for name in [*modules, *sorted(chosen.modules)]:
            self._import_module(name)

    def _import_module(self, name: str) -> None:
        try:
            importlib.import_module(name)
        except _Unreadable as error:
            self._module_failures[name] = Failure.parse(str(error))
        except ImportError as error:
            file = self.project.files[name].path if name in self.project.files else self.project.root
            self._module_failures[name] = Failure(self.project.relative(file), 1, str(error))

    def find_failure(self, cells: Iterable[Cell]) -> Failure | None:
        """Why the values of ``cells`` cannot be trusted, or None if all that they need has run."""
        cells = list(cells)
        needed = self.slicer.slice_cells(cells, enter=lambda leaf: leaf not in self.skipped)
        found = self._first_failure(needed.leaves)
        if found is None:
            modules = {module for module, _ in cells} | needed.modules
            broken = [self._module_failures[name] for name in sorted(modules) if name in self._module_failures]
            found = broken[0] if broken else None
        if found is None:
            missed = {leaf for leaf in needed.leaves.keys() - self.done - self.skipped if leaf.module in sys.modules}
            for leaf in sorted(missed, key=lambda leaf: (leaf.module, leaf.index)):
                return Failure(self._file(leaf), leaf.line, "this statement was not run: its module was not imported")
        return found

    def _first_failure(self, leaves: Iterable[Leaf]) -> Failure | None:
        """The failure that is nearest to what needs the statements."""
        return next((self.failures[leaf] for leaf in leaves if leaf in self.failures), None)

    def _file(self, leaf: Leaf) -> str:
        return self.project.relative(self.project.files[leaf.module].path)

    # The finder and loader of the project's modules

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """The project's own module, sliced; ``importlib`` calls this."""
        if self.project.owns(name):
            file = self.project.files.get(name)
            if file is None:
                return ModuleSpec(name, None, is_package=True)
            spec = ModuleSpec(name, self, origin=file.path, is_package=file.is_package)  # type: ignore[arg-type]
            spec.has_location = True
            return spec
        if self.project.claims(name):
            raise ModuleNotFoundError(f"the project has no Python source of {name}", name=name)
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """``importlib`` makes an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs the chosen statements of a module."""
        try:
            source = self.project.find_module(module.__name__)
        except SourceError as error:
            raise _Unreadable(str(error)) from None
        assert source is not None
        namespace = module.__dict__
        own = {**vars(builtins), "__import__": self._import}
        namespace["__builtins__"] = _Builtins(own, lambda name: self._check_missing(source, name))
        self._run_steps(source, source.steps, namespace)
        names = namespace.get("__all__")
        if isinstance(names, list | tuple):  # the names that were left out must not break a star import
            namespace["__all__"] = [name for name in names if name in namespace]

    # Running statements

    def _run_steps(self, source: SourceModule, steps: Sequence[Step], namespace: dict[str, Any]) -> None:
        for step in steps:
            leaf = step.leaf
            if leaf not in self._chosen:
                # Modules run in the order in which an import would run them, whatever it takes from them.
                for name in source.imported_by(leaf):
                    if self.slicer.is_considered(name):
                        self._import_module(name)
                continue
            if leaf in self.done:
                continue
            value = self._run_leaf(source, leaf, namespace)
            if isinstance(leaf.node, ast.stmt):
                continue
            failure = self.failures.get(leaf)
            if failure is not None:
                for inner in _leaves_of([*step.body, *step.orelse]):
                    self.failures[inner] = failure
                continue
            taken, left = (step.body, step.orelse) if value else (step.orelse, step.body)
            self.skipped.update(_leaves_of(left))
            self._run_steps(source, taken, namespace)

    def _run_leaf(self, source: SourceModule, leaf: Leaf, namespace: dict[str, Any]) -> bool:
        """Runs one statement, or evaluates a test and tells its truth."""
        blocker = self._find_blocker(leaf)
        if blocker is not None:
            self.failures[leaf] = blocker
            return False
        refusals = len(self._refusals)
        value = False
        outer, self._running = self._running, leaf
        try:
            value = self._execute(source, leaf, namespace)
        except _Refused:
            pass  # recorded where it was raised
        except _Unreadable as error:
            self.failures[leaf] = Failure.parse(str(error))
        except (Exception, SystemExit) as error:
            where = self._place(source, leaf, error.__traceback__)
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            fault = Failure(*where, f"this statement fails: {text}")
            self.failures[leaf] = self._find_blocker(leaf, deep=True) or fault
        finally:
            self._running = outer
        if len(self._refusals) > refusals:
            self.failures[leaf] = self._refusals[refusals]
        if leaf not in self.failures:
            self.done.add(leaf)
        return value

    def _find_blocker(self, leaf: Leaf, deep: bool = False) -> Failure | None:
        """The failure of a statement that ran before and that ``leaf`` needs.

        A statement that needs one that failed has failed, so it is enough to look at what ``leaf`` itself needs. What
        a function that ran well is going to need when it is called can only be seen by looking ``deep``; without it
        the statement may run in vain, which :meth:`find_failure` finds out.
        """
        if not self.failures:
            return None
        enter = (lambda other: other in self.done or other in self.failures) if deep else (lambda other: False)
        return self._first_failure(self.slicer.slice_leaf(leaf, enter).leaves)

    def _execute(self, source: SourceModule, leaf: Leaf, namespace: dict[str, Any]) -> bool:
        node = leaf.node
        flags, file = source.future_flags, source.file.path
        if isinstance(node, ast.expr):
            test = compile(ast.Expression(node), file, "eval", flags=flags, dont_inherit=True)
            return bool(eval(test, namespace))
        if leaf.annotations and not flags & future_features.annotations.compiler_flag:
            node = _AnnotationFilter(lambda expression: self._is_usable(source, expression, namespace)).copy(node)
        exec(compile(ast.Module([node], []), file, "exec", flags=flags, dont_inherit=True), namespace)
        return True

    def _is_usable(self, source: SourceModule, expression: ast.expr, namespace: dict[str, Any]) -> bool:
        """True if an annotation can be evaluated: all its names are there."""
        for part in ast.walk(expression):
            chain = chain_of(part) if isinstance(part, ast.Name | ast.Attribute) else None
            if chain is None:
                continue
            if chain[0] not in namespace and not hasattr(builtins, chain[0]):
                return False
            cells = self.slicer.resolver.resolve(source.name, chain).path
            if self._first_failure(self.slicer.slice_cells(cells).leaves) is not None:
                return False
        return True

    def _place(self, source: SourceModule, leaf: Leaf, traceback: TracebackType | None) -> tuple[str, int]:
        """The innermost line of the leaf's own file that an exception passed through."""
        line = leaf.line
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == source.file.path:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return self._file(leaf), line

    # What a slice may do

    def _refuse(self, reason: str, kind: str = "device", about: str = "") -> NoReturn:
        """Notes the line of the project's own that asked for something."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename not in self._files:
            frame = frame.f_back
        file, line = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else (self.project.root, 1)
        failure = Failure(self.project.relative(file), line, reason, kind, about)
        self._refusals.append(failure)
        raise _Refused(str(failure))

    def _check_missing(self, source: SourceModule, name: str) -> None:
        """Refuses the look-up of a name that is missing in a slice, and not in the module."""
        for leaf in source.bound.get(name, []):
            running = self._running
            later = running is not None and running.module == leaf.module and leaf.index >= running.index
            if not later and leaf not in self.done and leaf not in self.skipped:
                failure = self.failures.get(leaf)
                if failure is None:
                    self._refuse(f"needs {name}, which stands in a statement that was not run", "fails")
                self._refusals.append(failure)
                raise _Refused(str(failure))

    def _import(
        self,
        name: str,
        globals: dict[str, Any] | None = None,
        locals: dict[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        absolute = name
        if level and globals is not None:
            is_package = "__path__" in globals
            absolute = resolve_relative(globals["__name__"], is_package, name, level)
        if is_numba(absolute):
            found, refusal = self._import_numba(absolute, fromlist or ())
            if not refusal:
                return found
        else:
            refusal = self.find_refusal(absolute)
        if refusal:
            self._refuse(refusal[1], refusal[0], absolute.partition(".")[0])
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _import_numba(self, name: str, names: Sequence[str]) -> tuple[Any, tuple[str, str] | None]:
        """What an import from numba gives: cudabuild's names, whether numba is installed or not; or why it may not be.

        What is none of a kernel's names may be imported, not used; a statement that would notice (``try``) is refused.
        """
        try:
            return _NUMBA.import_name(name, names), None
        except ImportError as error:
            if self._running is not None and isinstance(self._running.node, ast.Import | ast.ImportFrom):
                return _NUMBA.import_absent(name, names), None
            return None, ("fails", str(error))

    def find_refusal(self, module: str) -> tuple[str, str] | None:
        """The kind of reason and the reason why a module may not be imported, or None if it may."""
        top = module.partition(".")[0]
        if self.project.claims(module):
            if self.project.owns(module):
                return None
            return "no-source", f"imports {module!r}, which has no Python source in this project"
        if top in ("cudabuild", "numpy", "__future__") or top in self.allowed or module in self.allowed:
            return None
        if top in DENIED_MODULES:
            text = f"imports {module!r}, which talks to the outside: its results may differ where the kernel runs"
            return "outside", text
        if top in sys.stdlib_module_names:
            return None
        return "import", f"imports {module!r}, which need not be there when a wheel is built"


def _leaves_of(steps: Sequence[Step]) -> list[Leaf]:
    found = []
    for step in steps:
        found.append(step.leaf)
        found += _leaves_of([*step.body, *step.orelse])
    return found


class _AnnotationFilter(ast.NodeTransformer):
    """A copy of a statement without the annotations that cannot be evaluated: they mean nothing to a compiler."""

    def __init__(self, is_usable: Any) -> None:
        self.is_usable = is_usable

    def copy(self, node: ast.stmt) -> ast.stmt:
        return self.visit(copy.deepcopy(node))  # type: ignore[no-any-return]

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if node.annotation is not None and not self.is_usable(node.annotation):
            node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if node.returns is not None and not self.is_usable(node.returns):
            node.returns = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if not self.is_usable(node.annotation):
            node.annotation = ast.copy_location(ast.Constant(None), node.annotation)
        self.generic_visit(node)
        return node
