# SPDX-License-Identifier: Apache-2.0
"""However a module came to life, its kernels find the images that its package ships."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from package_kit import KERNEL, START, build_archives, run, write_files

from cudabuild.image.index import build_index, write_index
from cudabuild.image.left import LeftToJit

SHIPPED = "shipped cubin sm_90"

#: Another kernel, of another meaning: one that differs in its name only would be found by its fingerprint.
OTHER = KERNEL.replace("scale", "other").replace("* SCALE", "+ SCALE")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package ``pkg``: a kernel in ``pkg.sub`` and one in ``pkg`` itself, archives beside."""
    root = write_files(
        tmp_path_factory.mktemp("site"),
        {
            "pkg/__init__.py": KERNEL + "\nfrom pkg import sub\n",
            "pkg/sub.py": KERNEL,
            "pkg/inner/__init__.py": "",
            "pkg/inner/deep.py": KERNEL,
            "pkg/__main__.py": "from pkg.sub import scale\n",
        },
    )
    build_archives(root, "pkg/_cudabuild", "pkg", "pkg.sub", "pkg.inner.deep")
    return root


class TestNamed:
    """The roads that the architecture names."""

    def test_package_whose_init_is_the_first_importer_of_cudabuild(self, site: Path) -> None:
        code = "assert 'cudabuild' not in sys.modules; import pkg; print(source(pkg.scale), source(pkg.sub.scale))"
        assert run(code, site) == f"{SHIPPED} {SHIPPED}"

    def test_package_imported_after_cudabuild(self, site: Path) -> None:
        code = """
            import cudabuild, pkg
            assert pkg.__spec__.cudabuild_archives.endswith("pkg/_cudabuild")
            print(source(pkg.scale))
        """
        assert run(code, site) == SHIPPED

    def test_import_of_a_submodule_first(self, site: Path) -> None:
        assert run("import pkg.sub; print(source(pkg.sub.scale))", site) == SHIPPED
        assert run("import pkg.inner.deep as deep; print(source(deep.scale))", site) == SHIPPED

    def test_launch_while_the_module_is_still_executing(self, tmp_path: Path) -> None:
        files = {"pkg/__init__.py": KERNEL + "\nimport launcher\nSOURCE = launcher.source(scale)\n"}
        launcher = "def source(kernel): return None\n"
        root = write_files(tmp_path, {**files, "launcher.py": launcher})
        build_archives(root, "pkg/_cudabuild", "pkg")
        code = """
            import types
            launcher = types.ModuleType("launcher")
            launcher.source = source
            sys.modules["launcher"] = launcher
            import pkg
            print(pkg.SOURCE)
        """
        assert run(code, root) == SHIPPED

    def test_reload(self, site: Path) -> None:
        code = """
            import importlib, pkg.sub
            before = pkg.sub.scale
            first = source(before)
            importlib.reload(pkg.sub)
            assert pkg.sub.scale is not before
            print(first, source(pkg.sub.scale), source(before))
            importlib.reload(pkg)
            print(source(pkg.scale))
        """
        assert run(code, site).split("\n") == [f"{SHIPPED} {SHIPPED} {SHIPPED}", SHIPPED]

    def test_runpy(self, site: Path) -> None:
        code = """
            import runpy
            print(source(runpy.run_module("pkg.sub", run_name="__main__")["scale"]))
            print(source(runpy.run_module("pkg.sub")["scale"]))
            print(source(runpy.run_module("pkg.inner.deep", alter_sys=True)["scale"]))
        """
        assert run(code, site).split("\n") == [SHIPPED] * 3

    def test_runpy_path_and_script(self, site: Path) -> None:
        """A file run by its path has no module name: the image is found by the kernel's meaning."""
        code = f"import runpy; print(source(runpy.run_path({str(site / 'pkg' / 'inner' / 'deep.py')!r})['scale']))"
        assert run(code, site) == SHIPPED

    def test_python_m(self, tmp_path: Path) -> None:
        report = "\nimport launcher\nprint(__name__, launcher.source(scale))\n"
        root = write_files(tmp_path, {"pkg/__init__.py": "", "pkg/tool.py": KERNEL, "launcher.py": START})
        build_archives(root, "pkg/_cudabuild", "pkg.tool")
        tool = root / "pkg" / "tool.py"
        tool.write_text(KERNEL + report)  # another text of the file, the same kernel
        assert run("", root, start=["-m", "pkg.tool"]) == f"__main__ {SHIPPED}"
        assert run("", root, start=[str(tool)]) == f"__main__ {SHIPPED}"

    def test_zipimport(self, site: Path, tmp_path: Path) -> None:
        archive = tmp_path / "app.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as stream:
            for path in sorted(site.rglob("*")):
                stream.write(path, path.relative_to(site))
        code = """
            import pkg.sub, pkg.inner.deep
            assert ".zip" in pkg.__file__
            print(source(pkg.scale), source(pkg.sub.scale), source(pkg.inner.deep.scale))
        """
        assert run(code, archive) == f"{SHIPPED} {SHIPPED} {SHIPPED}"

    def test_lazy_loader(self, site: Path) -> None:
        code = """
            import importlib.util, cudabuild
            def lazy(name):
                spec = importlib.util.find_spec(name)
                loader = spec.loader = importlib.util.LazyLoader(spec.loader)
                module = sys.modules[name] = importlib.util.module_from_spec(spec)
                loader.exec_module(module)
                return module
            module = lazy("pkg")
            assert "pkg.sub" not in sys.modules
            print(source(module.scale), source(module.sub.scale))
        """
        assert run(code, site) == f"{SHIPPED} {SHIPPED}"

    def test_two_versions_on_the_path(self, tmp_path: Path) -> None:
        """Each version's kernels take the images beside them, even after the other took its place."""
        roots = []
        for number in (1, 2):
            kernel = KERNEL.replace("SCALE = 3", f"SCALE = {number}")
            root = write_files(tmp_path / f"v{number}", {"pkg/__init__.py": "", "pkg/sub.py": kernel})
            build_archives(root, "pkg/_cudabuild", "pkg.sub")
            roots.append(root)
        code = f"""
            import cudabuild, pkg.sub
            old = pkg.sub
            for name in ("pkg", "pkg.sub"):
                del sys.modules[name]
            sys.path.insert(0, {str(roots[1])!r})
            import pkg.sub as new
            assert (old.SCALE, new.SCALE) == (1, 2)
            print(source(new.scale), source(old.scale))
        """
        assert run(code, roots[0]) == f"{SHIPPED} {SHIPPED}"


class TestPlaces:
    def test_namespace_package(self, tmp_path: Path) -> None:
        root = write_files(tmp_path, {"space/pkg/__init__.py": "", "space/pkg/sub.py": KERNEL})
        build_archives(root, "space/pkg/_cudabuild", "space.pkg.sub")
        assert run("import space.pkg.sub as sub; print(source(sub.scale))", root) == SHIPPED

    def test_module_of_a_namespace_package(self, tmp_path: Path) -> None:
        root = write_files(tmp_path, {"space/single.py": KERNEL})
        build_archives(root, "space/_cudabuild_single", "space.single")
        assert run("import space.single as sub; print(source(sub.scale))", root) == SHIPPED

    def test_single_module(self, tmp_path: Path) -> None:
        root = write_files(tmp_path, {"single.py": KERNEL})
        build_archives(root, "_cudabuild_single", "single")
        assert run("import single; print(source(single.scale))", root) == SHIPPED

    def test_path_that_leads_elsewhere(self, tmp_path: Path) -> None:
        extra = tmp_path / "extra"
        files = {"pkg/__init__.py": f"__path__.append({str(extra)!r})\n", "extra/sub.py": KERNEL}
        root = write_files(tmp_path, files)
        build_archives(root, "pkg/_cudabuild", "pkg.sub")
        assert run("import pkg.sub; print(source(pkg.sub.scale))", root) == SHIPPED

    def test_without_source(self, site: Path, tmp_path: Path) -> None:
        import py_compile

        shutil.copytree(site / "pkg", tmp_path / "pkg")
        for path in (tmp_path / "pkg").rglob("*.py"):
            py_compile.compile(str(path), cfile=str(path.with_suffix(".pyc")), dfile="gone.py", doraise=True)
            path.unlink()
        code = "import pkg.sub; assert pkg.__file__.endswith('.pyc'); print(source(pkg.sub.scale))"
        assert run(code, tmp_path) == SHIPPED

    def test_no_archives(self, tmp_path: Path) -> None:
        root = write_files(tmp_path, {"pkg/__init__.py": KERNEL})
        assert run("import pkg; print(*source(pkg.scale))", root) == (
            "shipped: pkg ships no images ptx: pkg ships no images"
        )


class TestChoice:
    """Which image, and why not."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return write_files(tmp_path, {"pkg/__init__.py": KERNEL, "pkg/other.py": OTHER})

    def test_nearest_lower_minor_would_do_but_not_another_major(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg", archs="sm_80 sm_120")
        lines = run("import pkg; print(*source(pkg.scale), sep='\\n')", root).split("\n")
        assert lines[0] == f"shipped: {root}/pkg/_cudabuild ships sm_80, sm_120"
        assert lines[1].startswith("shipped: sm_80 runs on 8.0 and newer of major 8 only; the device is 9.0")

    def test_ptx_where_no_cubin_fits(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg", archs="sm_80 compute_75")
        assert run("import pkg; print(source(pkg.scale))", root) == "shipped ptx compute_75"

    def test_settings(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg")
        code = "import pkg; print(source(pkg.scale))"
        assert run(code, root, CUDABUILD_IMAGES="ptx") == "shipped ptx compute_75"
        assert "CUDABUILD_IMAGES=none" in run(code, root, CUDABUILD_IMAGES="none")

    def test_kernel_that_was_not_built(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg")
        lines = run("import pkg.other; print(*source(pkg.other.other), sep='\\n')", root).split("\n")
        assert "shipped: sm_90 holds no other(int32, float32[::1])" in lines

    def test_changed_value_is_told(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg")
        lines = run("import pkg; pkg.SCALE = 4; print(*source(pkg.scale), sep='\\n')", root).split("\n")
        assert "shipped: sm_90 SCALE was 3 when built and is 4 now" in lines

    def test_edit_of_another_kernel_changes_nothing(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg", "pkg.other")
        path = root / "pkg" / "__init__.py"
        path.write_text("# a new first line\n" + path.read_text() + "\ndef unrelated(): pass\n")
        assert run("import pkg; print(source(pkg.scale))", root) == SHIPPED
        path.write_text(path.read_text().replace("x[i] * SCALE", "x[i] * SCALE + 1"))
        code = "import pkg, pkg.other; print(len(source(pkg.scale)), source(pkg.other.other))"
        assert run(code, root).endswith(SHIPPED)

    def test_damaged_archive_is_skipped_with_a_warning(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg")
        path = root / "pkg" / "_cudabuild" / "sm_90.cuar"
        path.write_bytes(path.read_bytes()[:-1])
        code = "sys.stderr = sys.stdout; import pkg; print(source(pkg.scale))"
        warning, found = run(code, root).split("\n")
        assert warning.startswith(f"cudabuild: {path}: ")
        assert warning.endswith("; its images are not used")
        assert found == "shipped ptx compute_75"

    def test_damaged_image_is_skipped_with_a_warning(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg")
        path = root / "pkg" / "_cudabuild" / "sm_90.cuar"
        data = path.read_bytes()
        assert data.count(b"code") == 2  # one for each index width
        path.write_bytes(data.replace(b"code", b"c0de"))
        code = "sys.stderr = sys.stdout; import pkg; print(source(pkg.scale))"
        warning, found = run(code, root).split("\n")
        assert "damaged" in warning
        assert found == "shipped ptx compute_75"

    def test_options_of_the_build_hold_for_compiling_too(self, root: Path) -> None:
        """What only the build settings said is recorded with the image; compiling at run time goes by it."""
        build_archives(root, "pkg/_cudabuild", "pkg")
        code = """
            import pkg
            from cudabuild.image.archive import Archive, write_archive
            from cudabuild.image.image import DeviceInfo, ImageRequest
            from cudabuild.importer.binding import find_recorded_options
            path = pkg.__path__[0] + "/_cudabuild/sm_90.cuar"
            images = [record.load_image("shipped", True) for record in Archive(path).records()]
            for image in images:
                image.options = {"fastmath": True, "opt": 2}
                image.data = bytes(image.data)
            write_archive(path, images, "sm_90")
            for written in ({}, {"fastmath": False}):
                definition = pkg.scale.definition
                definition.options = definition.options.replace(**written)
                request = ImageRequest(definition, definition.signatures[0], DeviceInfo((9, 0), 13000), 32, bytes)
                options = find_recorded_options(request)
                print(options["fastmath"], options["opt"])
        """
        assert run(code, root).split("\n") == ["True 2", "False 2"]

    @pytest.mark.parametrize("zipped", [False, True])
    def test_what_the_build_left_to_jit_is_told(self, root: Path, zipped: bool) -> None:
        left = LeftToJit(
            "pkg", "scale", "import", "pkg/__init__.py", 4, "import x", "SCALE", "imports 'x'", ["do this"]
        )
        (root / "pkg" / "_cudabuild").mkdir()
        write_index(root / "pkg" / "_cudabuild" / "index.json", build_index("pkg", [], {}, [left]))
        path = root
        if zipped:
            path = root / "all.zip"
            with zipfile.ZipFile(path, "w") as archive:
                for file in sorted((root / "pkg").rglob("*.*")):
                    archive.write(file, file.relative_to(root))
        code = """
            import pkg
            from cudabuild.errors import NoImageError
            use_gpu()
            assert "cudabuild.image.index" not in sys.modules
            try:
                pkg.scale[1, 32](4, Array())
            except NoImageError as error:
                print(error)
        """
        assert "its build left it to JIT: pkg/__init__.py:4: imports 'x' (needed for SCALE)" in run(code, path)

    def test_a_damaged_index_only_leaves_the_reason_out(self, root: Path) -> None:
        (root / "pkg" / "_cudabuild").mkdir()
        (root / "pkg" / "_cudabuild" / "index.json").write_bytes(b"\xff{")
        found = run("import pkg; print(*source(pkg.scale))", root)
        assert found == "shipped: pkg ships no images ptx: pkg ships no images"

    def test_a_zip_file_ships_what_is_in_it(self, root: Path) -> None:
        build_archives(root, "pkg/_cudabuild", "pkg", archs="sm_80 sm_120")
        path = root / "all.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted((root / "pkg").rglob("*.*")):
                archive.write(file, file.relative_to(root))
        lines = run("import pkg; print(*source(pkg.scale), sep='\\n')", path).split("\n")
        assert lines[0] == f"shipped: {path}/pkg/_cudabuild ships sm_80, sm_120"
        assert [line.split()[:2] for line in lines[1:3]] == [["shipped:", "sm_80"], ["shipped:", "sm_120"]]
        assert lines[3:] == [f"ptx: {path}/pkg/_cudabuild ships no ptx"]


class TestWhatWasImported:
    """What counts is the kernel that lives, not what stands on the disk now."""

    def test_an_upgrade_under_a_running_program(self, tmp_path: Path) -> None:
        """Module imported, version 2 installed over it, first launch: version 2's image is not version 1's kernel."""
        files = {"pkg/__init__.py": KERNEL, "new/pkg/__init__.py": KERNEL.replace("x[i] * SCALE", "x[i] - SCALE")}
        root = write_files(tmp_path, files)
        for at in (root, root / "new"):
            build_archives(at, "pkg/_cudabuild", "pkg")
        code = f"""
            import os, shutil, pkg
            os.utime({str(root / "new" / "pkg" / "__init__.py")!r}, (1, 1))  # as pip unpacks some wheels
            shutil.copytree({str(root / "new" / "pkg")!r}, {str(root / "pkg")!r}, dirs_exist_ok=True)
            print(*source(pkg.scale), sep="\\n")
            import importlib
            importlib.reload(pkg)
            print(source(pkg.scale))
        """
        lines = run(code, root).split("\n")
        told = f"sm_90 the source of pkg has changed since it was imported ({root}/pkg/__init__.py)"
        assert f"shipped: {told}" in lines
        assert lines[-1] == SHIPPED

    @pytest.mark.parametrize("named", ["helper.py", "other/helper.py"])
    def test_a_helper_of_another_distribution(self, tmp_path: Path, named: str) -> None:
        """An edited helper is another kernel, an upgrade of its package that leaves it alone is not."""
        helper = "def twice(a):\n    return a + a\n"
        module = named.removesuffix(".py").replace("/", ".")
        kernel = f"from {module} import twice\n" + KERNEL.replace("x[i] * SCALE", "twice(x[i]) * SCALE")
        root = write_files(tmp_path, {"pkg/__init__.py": kernel, f"dist/{named}": helper})
        if "/" in named:
            write_files(tmp_path, {"dist/other/__init__.py": ""})
        build_archives(root, "pkg/_cudabuild", "pkg", paths=[root / "dist"])
        code = "import pkg; print(source(pkg.scale))"
        assert run(code, root, root / "dist") == SHIPPED
        (root / "dist" / named).write_text("# version 2\n" + helper + "def more(a):\n    return a\n")
        assert run(code, root, root / "dist") == SHIPPED
        (root / "dist" / named).write_text(helper.replace("a + a", "a - a"))
        told = "shipped: sm_90 the code of twice differs from what was built"
        assert told in run("import pkg; print(*source(pkg.scale), sep='\\n')", root, root / "dist").split("\n")
        assert told in run(f"import {module} as h; h.N = 1; import pkg; print(*source(pkg.scale), sep='\\n')", root,
                           root / "dist").split("\n")  # fmt: skip

    @pytest.mark.parametrize("zipped", [False, True])
    def test_bytecode_alone_whose_source_file_means_something_else_here(self, tmp_path: Path, zipped: bool) -> None:
        """A ``.pyc`` names the file that it was made of; on this machine that may be another version."""
        import py_compile

        root = write_files(tmp_path, {"src/pkg/__init__.py": KERNEL, "app/empty": ""})
        build_archives(root / "src", "pkg/_cudabuild", "pkg")
        path = root / "src" / "pkg" / "__init__.py"
        target = root / "app" / "pkg"
        shutil.copytree(root / "src" / "pkg" / "_cudabuild", target / "_cudabuild")
        py_compile.compile(str(path), cfile=str(target / "__init__.pyc"), doraise=True)
        path.write_text(KERNEL.replace("x[i] * SCALE", "x[i] - SCALE"))
        found = root / "app"
        if zipped:
            found = root / "app.zip"
            with zipfile.ZipFile(found, "w") as archive:
                for file in sorted((root / "app").rglob("*.*")):
                    archive.write(file, file.relative_to(root / "app"))
        code = f"""
            import pkg
            assert pkg.scale.py_func.__code__.co_filename == {str(path)!r}
            print(source(pkg.scale))
            from cudabuild.errors import SourceError
            from cudabuild.source import get_source
            try:
                get_source(pkg.scale.py_func)
            except SourceError as error:
                print("the text has changed since scale was made" in str(error))
        """
        assert run(code, found).split("\n") == [SHIPPED, "True"]
        assert "SCALE was 3 when built and is 4 now" in run(
            "import pkg; pkg.SCALE = 4; print(source(pkg.scale))", found
        )

    def test_a_frozen_application_in_a_folder_with_another_version_of_its_source(self, tmp_path: Path) -> None:
        """PyInstaller's bytecode names files without their folder, and its loader has the path where they would be."""
        root = write_files(tmp_path, {"src/pkg/__init__.py": KERNEL})
        build_archives(root / "src", "pkg/_cudabuild", "pkg")
        shutil.copytree(root / "src" / "pkg" / "_cudabuild", root / "app" / "pkg" / "_cudabuild")
        (root / "src" / "pkg" / "__init__.py").write_text(KERNEL.replace("x[i] * SCALE", "x[i] - SCALE"))
        code = f"""
            import importlib.machinery, importlib.util, os
            class Loader:
                name, path = "pkg", {str(root / "app" / "pkg" / "__init__.py")!r}
                def create_module(self, spec): return None
                def exec_module(self, module):
                    exec(compile({KERNEL!r}, "pkg/__init__.py", "exec"), module.__dict__)
                def get_data(self, path):
                    with open(path, "rb") as stream:
                        return stream.read()
            spec = importlib.machinery.ModuleSpec("pkg", Loader(), origin=Loader.path, is_package=True)
            spec.has_location = True
            spec.submodule_search_locations.append(os.path.dirname(Loader.path))
            pkg = sys.modules["pkg"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(pkg)
            os.chdir({str(root / "src")!r})
            print(source(pkg.scale))
            from cudabuild.errors import SourceError
            from cudabuild.source import get_source
            try:
                get_source(pkg.scale.py_func)
            except SourceError as error:
                print("the text has changed since scale was made" in str(error))
        """
        assert run(code).split("\n") == [SHIPPED, "True"]


@pytest.mark.parametrize("call", ["os.listdir", "builtins.open"])
def test_archives_that_cannot_be_read_for_a_moment(site: Path, call: str) -> None:
    """No damage, and no package without archives: the launch says why, and the next one finds them."""
    code = f"""
        import builtins, errno, os, pkg
        real = {call}
        def fail(path, *args, **kwargs):
            if "_cudabuild" in str(path):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
            return real(path, *args, **kwargs)
        warned = []
        from cudabuild import config
        config._write = warned.append
        {call} = fail
        told = source(pkg.scale)
        {call} = real
        assert len(warned) == 1 and warned[0].endswith("(Too many open files); its images are not used now"), warned
        if {call!r} == "os.listdir":
            assert told[0].startswith("shipped:") and told[0].endswith("cannot be read (Too many open files)"), told
        print(source(pkg.scale))
    """
    assert run(code, site) == SHIPPED


@pytest.mark.parametrize("what", ["sm_90.cuar", "compute_75.cuar", "index.json"])
def test_damaged_members_of_a_zip_file_are_told_and_passed_over(site: Path, tmp_path: Path, what: str) -> None:
    """Whatever the loader of zip files makes of them."""
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as stream:
        for path in sorted(site.rglob("*")):
            stream.write(path, path.relative_to(site))
    with zipfile.ZipFile(whole) as stream:
        member = stream.getinfo(f"pkg/_cudabuild/{what}")
    data = whole.read_bytes()
    start = member.header_offset + 30 + len(member.filename)
    code = """
        from cudabuild import config
        import pkg.inner.deep as deep
        told = []
        config._write = told.append
        found = source(deep.scale)
        print(found if isinstance(found, str) else "none", len(told) <= 1)
    """
    expected = {"sm_90.cuar": "shipped ptx compute_75", "compute_75.cuar": SHIPPED, "index.json": "none"}
    for name, at, wrong in (
        ("header", member.header_offset, b"\0\0\0\0"),
        ("first", start, b"\xff" * 8),
        ("middle", start + member.compress_size // 2, b"\xff" * 8),
        ("last", start + member.compress_size - 4, b"\xff" * 4),
    ):
        damaged = tmp_path / f"{name}.zip"
        damaged.write_bytes(data[:at] + wrong + data[at + len(wrong) :])
        told = run(code, damaged)
        assert told.endswith(" True")
        assert told.removesuffix(" True") in {expected[what], SHIPPED}, f"{name}: {told}"
