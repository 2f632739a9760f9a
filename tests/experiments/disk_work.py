# SPDX-License-Identifier: Apache-2.0
"""Everything that publishes: the state before it, the work, and what a reader must find whatever became of the work.

Images are made-up bytes; nothing is compiled.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import importlib.util
import io
import linecache
import os
import shutil
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from reporting import CHECKOUT

sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

from image_making import make_image  # noqa: E402

from cudabuild.build.execute import BuildResult  # noqa: E402
from cudabuild.build.plan import DIALECT_NAME, Artefacts  # noqa: E402
from cudabuild.build.project import ModuleFile, Project  # noqa: E402
from cudabuild.build.sdist_file import remove_artefacts  # noqa: E402
from cudabuild.build.wheel_file import WheelFile  # noqa: E402
from cudabuild.build.write import write_packages  # noqa: E402
from cudabuild.cache import store, upkeep  # noqa: E402
from cudabuild.cache.batch import Batch  # noqa: E402
from cudabuild.cache.provider import CacheProvider  # noqa: E402
from cudabuild.cache.store import Cache  # noqa: E402
from cudabuild.cache.toolchain import COMPILER_SOURCES, identify_tools  # noqa: E402
from cudabuild.definition import KernelDefinition, Options  # noqa: E402
from cudabuild.errors import CudabuildError  # noqa: E402
from cudabuild.fingerprint import checks, compute_fingerprint, image_key  # noqa: E402
from cudabuild.image.archive import Archive, write_archive  # noqa: E402
from cudabuild.image.image import DeviceInfo, ImageRequest, KernelImage  # noqa: E402
from cudabuild.image.index import INDEX_NAME, build_index, read_index, write_index  # noqa: E402
from cudabuild.importer import binding  # noqa: E402
from cudabuild.importer.binding import ShippedProvider  # noqa: E402
from cudabuild.recording.records import RecordedKernel  # noqa: E402
from cudabuild.recording.write import write_signatures  # noqa: E402
from cudabuild.target import TARGETS  # noqa: E402
from cudabuild.types import float32  # noqa: E402

__all__ = [
    "BINDINGS", "TOLD", "WORKS", "CacheWork", "InPlaceBuild", "Recording", "Work", "age", "copy_state", "image_of",
    "is_right",
]  # fmt: skip

#: So old that what a dead writer left is swept, in seconds.
_OLD = 2 * 3600.0

MERGED = [f"more{number}" for number in range(6)]


def image_of(name: str, target: str = "sm_90") -> KernelImage:
    """An image of some kilobytes that follows from its name."""
    text = f"{name} {target} ".encode()
    return make_image(name, target=target, data=text * (100 + len(name) * 7))


def is_right(image: KernelImage, name: str, target: str = "sm_90") -> bool:
    """Whether an image is the one of its name, to the last byte."""
    made = image_of(name, target)
    fields = ("key", "module", "qualname", "signature", "fingerprint", "symbol", "target", "index_width")
    return bytes(image.data) == made.data and all(getattr(image, field) == getattr(made, field) for field in fields)


def age(folder: str) -> None:
    """Makes all files below a folder look as if they had lain there for hours."""
    then = time.time() - _OLD
    for at, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # a file of a living writer
                os.utime(os.path.join(at, file), (then, then))


class Work:
    """One kind of publishing.

    Attributes:
        name: for people.
        tells_errors: an OSError is the answer to a fault of the disk; otherwise the work goes on without the disk.
        warnings: how many lines it warns with when nothing disturbs it: of a damage that was there before.
        also: folders whose files are watched too.
        is_read_only: the work changes nothing, and the state must stay where it was prepared.
    """

    name = ""
    tells_errors = False
    is_read_only = False
    warnings = 0
    also: tuple[str, ...] = ()

    def prepare(self, folder: str) -> None:
        """Makes the state before the work, in an empty folder."""

    def forget(self) -> None:
        """Forgets what this process remembers of files."""

    def do(self, folder: str) -> Any:
        """The work."""
        raise NotImplementedError

    def check_result(self, result: Any) -> list[str]:
        """What is wrong with what the work gave to its own process."""
        return []

    def check(self, folder: str, is_done: bool) -> list[str]:
        """What is wrong for a reader that comes afterwards; ``is_done``: the work ended, and nothing disturbed it."""
        raise NotImplementedError

    def check_rest(self, folder: str) -> list[str]:
        """What lies about, hours later and after the next work of the kind."""
        return []

    def open_reader(self, folder: str) -> Callable[[], list[str]]:
        """A reader that has read everything before the work begins; called, it reads everything again."""
        return list


class CacheWork(Work):
    """Images into a cache. ``old`` are there before; ``new`` are published."""

    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ("new",)
    #: Of the old ones, those that may be gone: evicted, or damaged on purpose.
    may_go: tuple[str, ...] = ()
    limit: int | None = None
    place = "cache"

    def root(self, folder: str) -> str:
        return os.path.join(folder, self.place)

    def prepare(self, folder: str) -> None:
        root = self.root(folder)
        if self.old:
            Cache(root).publish(*(image_of(name) for name in self.old[:2]))
        for name in self.old[2:]:
            Cache(root).publish(image_of(name))

    def do(self, folder: str) -> Any:
        cache = Cache(self.root(folder), limit=self.limit)
        self.publish(cache)
        return cache

    def publish(self, cache: Cache) -> None:
        cache.publish(*(image_of(name) for name in self.new))

    def check_result(self, result: Cache) -> list[str]:
        return self._look(result, self.new, self.new)

    def check(self, folder: str, is_done: bool) -> list[str]:
        must = {*self.old} - {*self.may_go} | ({*self.new} if is_done else set())
        return self._look(Cache(self.root(folder)), (*self.old, *self.new), must)

    def open_reader(self, folder: str) -> Callable[[], list[str]]:
        cache = Cache(self.root(folder))
        must = {*self.old} - {*self.may_go}
        self._look(cache, self.old, ())
        return lambda: self._look(cache, (*self.old, *self.new), must)

    def check_rest(self, folder: str) -> list[str]:
        root = self.root(folder)
        age(root)
        Cache(root).publish(image_of("later"))
        shelf = Cache(root).shelves("sm_90")[0]
        needed = {f"seg-{segment:016x}.cuar" for segment in shelf._read_index().segments} | {"index.cuix", ".lock"}
        rest = set(os.listdir(os.path.join(root, "sm_90"))) - needed
        with contextlib.suppress(FileNotFoundError):
            rest |= {name for name in os.listdir(os.path.join(root, "notes")) if name.endswith(".tmp")}
        return [f"{name} is left behind" for name in sorted(rest)]

    def _look(self, cache: Cache, names: Iterable[str], must: Iterable[str]) -> list[str]:
        faults = []
        for name in names:
            image = cache.find(image_of(name).key, "sm_90")
            if image is None and name in must:
                faults.append(f"{name} is lost")
            elif image is not None and not is_right(image, name):
                faults.append(f"{name} is a wrong image: {image!r}")
        return faults


class FirstPublishing(CacheWork):
    name = "first publishing of a cache"
    place = "home/.cache/cudabuild"
    new = ("new", "newer")


class Publishing(CacheWork):
    """… over what writers left that were killed hours ago."""

    name = "publishing"
    old = ("a", "b", "c")

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        place = os.path.join(folder, "cache", "sm_90")
        for name in ("seg-0000000000000001.cuar", "index.cuix.1.tmp"):
            with open(os.path.join(place, name), "wb") as stream:
                stream.write(b"half")
        age(folder)


class Merging(CacheWork):
    name = "publishing that merges segments"
    old = ("a", "b", *MERGED)


class Evicting(CacheWork):
    name = "publishing that evicts"
    old = ("a", "b", "c", "d", "e")
    may_go = old
    limit = 9_000


class OverDamagedIndex(CacheWork):
    name = "publishing over a damaged index"
    old = ("a", "b", "c")
    warnings = 1

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        path = os.path.join(folder, "cache", "sm_90", "index.cuix")
        with open(path, "r+b") as stream:
            stream.seek(60)
            stream.write(b"damage")

    def check(self, folder: str, is_done: bool) -> list[str]:
        # Until the index is written anew nothing is found, and nothing is lost: the segments hold it.
        cache = Cache(os.path.join(folder, "cache"))
        if not is_done:
            return self._look(cache, (*self.old, *self.new), ())
        return self._look(cache, (*self.old, *self.new), (*self.old, *self.new))

    def open_reader(self, folder: str) -> Callable[[], list[str]]:
        cache = Cache(os.path.join(folder, "cache"))
        self._look(cache, self.old, ())
        return lambda: self._look(cache, (*self.old, *self.new), ())


class OverDamagedSegment(CacheWork):
    name = "publishing over a damaged segment"
    old = ("a", "b", "c")
    may_go = ("a",)
    warnings = 1

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        shelf = Cache(os.path.join(folder, "cache")).shelves("sm_90")[0]
        (record,) = shelf.find_named("package.module", "a", "float32, float32[::1]")
        with open(record.file, "r+b") as stream:
            stream.seek(stream.read().index(image_of("a").data))
            stream.write(b"damage")

    def publish(self, cache: Cache) -> None:
        cache.find(image_of("a").key, "sm_90")  # notices the damage
        super().publish(cache)

    def check(self, folder: str, is_done: bool) -> list[str]:
        # Whoever has met the damage passes over the whole segment, which holds b too, until it is repaired.
        faults = super().check(folder, is_done)
        return faults if is_done else [fault for fault in faults if fault != "b is lost"]

    def open_reader(self, folder: str) -> Callable[[], list[str]]:
        look = super().open_reader(folder)
        return lambda: [fault for fault in look() if fault != "b is lost"]


class Building(CacheWork):
    name = "compiling at run time"
    old = ("a", "b", "c")
    new = ("new", "newer")

    def publish(self, cache: Cache) -> None:
        for name in self.new:
            image = cache.build_once(image_of(name).key, "sm_90", lambda name=name: image_of(name))  # type: ignore[misc]
            if not is_right(image, name):
                raise AssertionError(f"{name} was compiled and came out as {image!r}")


class Hitting(CacheWork):
    """A hit of a segment that was last used hours ago."""

    name = "a hit that notes its use"
    old = ("a", "b", "c")
    new = ()

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        age(folder)

    def publish(self, cache: Cache) -> None:
        for name in self.old:
            image = cache.build_once(image_of(name).key, "sm_90", lambda name=name: image_of(name))  # type: ignore[misc]
            if not is_right(image, name):
                raise AssertionError(f"{name} came out as {image!r}")


class Batching(CacheWork):
    name = "a build's batch"
    old = ("a", "b", "c")
    new = ("n1", "n2", "n3")

    def publish(self, cache: Cache) -> None:
        batch = Batch(cache)
        for name in self.new:
            batch.claim(image_of(name).key)
            if batch.find(image_of(name).key, "sm_90") is None:
                batch.add(image_of(name))
        batch.flush()


class Noting(CacheWork):
    name = "a note beside the images"
    old = ("a", "b")
    new = ()

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        for number in range(34):  # the oldest go
            Cache(os.path.join(folder, "cache")).write_note(f"build-{number}", b"note")
        Cache(os.path.join(folder, "cache")).write_note("tools-1", b"old" * 50)

    def publish(self, cache: Cache) -> None:
        cache.write_note("tools-1", b"new" * 50)
        cache.write_note("tools-2", b"one more")

    def check(self, folder: str, is_done: bool) -> list[str]:
        note = Cache(os.path.join(folder, "cache")).read_note("tools-1")
        wanted = [b"new" * 50] if is_done else [b"old" * 50, b"new" * 50]
        return [*([] if note in wanted else [f"the note is {note!r}"]), *super().check(folder, is_done)]

    def check_rest(self, folder: str) -> list[str]:
        age(folder)
        Cache(os.path.join(folder, "cache")).write_note("tools-1", b"new" * 50)
        return super().check_rest(folder)


def look_at(root: str) -> upkeep.Layer:
    """A cache as the commands see it."""
    os.environ["CUDABUILD_CACHE_DIR"] = root
    return upkeep.user_layer()


class Clearing(CacheWork):
    name = "clearing a cache"
    old = ("a", "b", "c")
    new = ()
    may_go = old
    tells_errors = True

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        Cache(self.root(folder)).write_note("tools-1", b"note")

    def do(self, folder: str) -> Any:
        return upkeep.clear_cache(look_at(self.root(folder)))

    def check_result(self, result: Any) -> list[str]:
        return []

    def check(self, folder: str, is_done: bool) -> list[str]:
        cache = Cache(self.root(folder))
        left = [name for name in self.old if cache.find(image_of(name).key, "sm_90") is not None]
        return [*super().check(folder, is_done), *(f"{name} is still there" for name in left if is_done)]

    def check_rest(self, folder: str) -> list[str]:
        left = super().check_rest(folder)
        self.do(folder)
        return left


class Pruning(CacheWork):
    name = "pruning a cache"
    old = ("a", "b", "c", "d", "e")
    new = ()
    may_go = old
    tells_errors = True

    def do(self, folder: str) -> Any:
        return upkeep.prune_cache(look_at(self.root(folder)), limit=6_000)

    def check_result(self, result: Any) -> list[str]:
        return []


class Repairing(OverDamagedSegment):
    name = "repairing a cache"
    new = ()
    warnings = 0
    tells_errors = True

    def prepare(self, folder: str) -> None:
        super().prepare(folder)
        place = os.path.join(self.root(folder), "notes")
        os.makedirs(place, mode=0o700)
        with open(os.path.join(place, "tools-1"), "wb") as stream:
            stream.write(b"damage")

    def do(self, folder: str) -> Any:
        layer = look_at(self.root(folder))
        return upkeep.repair_cache(layer, upkeep.verify_layer(layer).faults)

    def check_result(self, result: Any) -> list[str]:
        return []


class Sharing(CacheWork):
    name = "letting others read a cache"
    old = ("a", "b", "c")
    new = ()
    tells_errors = True

    def do(self, folder: str) -> Any:
        return upkeep.share_cache(self.root(folder))

    def check_result(self, result: Any) -> list[str]:
        return []


class VerifyingEmptyIndex(Work):
    """… as another computer sees it that was told of its name and not yet of what is in it."""

    name = "verifying a cache with an empty index"
    is_read_only = True
    tells_errors = True

    def prepare(self, folder: str) -> None:
        root = os.path.join(folder, "cache")
        Cache(root).publish(image_of("a"))
        os.truncate(os.path.join(root, "sm_90", "index.cuix"), 0)

    def do(self, folder: str) -> Any:
        return upkeep.verify_layer(look_at(os.path.join(folder, "cache")))

    def check(self, folder: str, is_done: bool) -> list[str]:
        return [f"{fault.path}: {fault.kind}" for fault in self.do(folder).faults if fault.kind == "unreadable"]


class LookingInVain(Work):
    name = "looking at a cache that is not there"
    is_read_only = True

    def prepare(self, folder: str) -> None:
        os.makedirs(folder)

    def do(self, folder: str) -> Any:
        return look_at(os.path.join(folder, "none", "cache"))

    def check_result(self, result: Any) -> list[str]:
        return [] if result.state in ("absent", "refused") else [f"it is said to be {result.state}"]

    def check(self, folder: str, is_done: bool) -> list[str]:
        found = self.do(folder)
        return [] if found.state == "absent" else [f"it is said to be {found.state}: {found.reason}"]


class InPlaceBuild(Work):
    """Archives and index of a package in the source tree, over those of the build before."""

    name = "archives of an in-place build"
    tells_errors = True
    OLD = {"sm_80": "old", "sm_90": "old"}
    NEW = {"sm_90": "new", "compute_80": "new"}

    def prepare(self, folder: str) -> None:
        for package in ("pkg", "gone"):
            os.makedirs(os.path.join(folder, package))
            open(os.path.join(folder, package, "__init__.py"), "w").close()
        self._build(folder, self.OLD, gone=[make_image("k", module="gone")])

    def do(self, folder: str) -> Any:
        return self._build(folder, self.NEW)

    def _build(self, folder: str, wanted: dict[str, str], gone: Iterable[KernelImage] = ()) -> Any:
        """A build: of another package too, which has no kernels later."""
        files = {name: ModuleFile(name, os.path.join(folder, name, "__init__.py"), True) for name in ("pkg", "gone")}
        images = [self._image(version, target) for target, version in wanted.items()]
        result = BuildResult(images=[*images, *gone])
        place: Callable[[Artefacts], str] = lambda artefacts: artefacts.in_tree  # noqa: E731
        return write_packages(Project(folder, files), result, place, in_tree=True, adopted=["pkg"])

    def _image(self, version: str, target: str) -> KernelImage:
        image = image_of(version, target)
        return make_image("k", module="pkg", target=target, data=image.data, fingerprint=image.fingerprint)

    def check(self, folder: str, is_done: bool) -> list[str]:
        faults = []
        place = os.path.join(folder, "pkg", "_cudabuild")
        for target in sorted({*self.OLD, *self.NEW}):
            path = os.path.join(place, f"{target}.cuar")
            if not os.path.exists(path):
                if target in (self.NEW if is_done else {*self.OLD} & {*self.NEW}):
                    faults.append(f"{target} is lost")
                continue
            (record,) = Archive(path).records()
            version = (self.NEW if is_done else {**self.OLD, **self.NEW}).get(target)
            allowed = {version} if is_done else {self.OLD.get(target), self.NEW.get(target)} - {None}
            data = bytes(record.load_image("shipped").data)
            if not any(data == self._image(str(one), target).data for one in allowed):
                faults.append(f"{target} holds a wrong image")
        index = read_index(os.path.join(place, INDEX_NAME))
        listed = {image["target"] for kernel in index["kernels"] for image in kernel["images"]}
        if listed not in ([{*self.NEW}] if is_done else [{*self.OLD}, {*self.NEW}]):
            faults.append(f"the index lists {sorted(listed)}")
        return faults

    def check_rest(self, folder: str) -> list[str]:
        wanted = {f"{target}.cuar" for target in self.NEW} | {INDEX_NAME, ".gitignore", DIALECT_NAME}
        rest = set(os.listdir(os.path.join(folder, "pkg", "_cudabuild"))) - wanted
        rest |= {name for name in os.listdir(os.path.join(folder, "gone")) if name != "__init__.py"}
        return [f"{name} is left behind" for name in sorted(rest)]


class WheelEditing(Work):
    name = "archives put into a wheel"
    tells_errors = True
    NAME = "p-1-py3-none-any.whl"

    def prepare(self, folder: str) -> None:
        wheel = b"Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files = {
            "pkg/__init__.py": b"",
            "p-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: p\nVersion: 1\n",
            "p-1.dist-info/WHEEL": wheel,
        }
        rows = io.StringIO()
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            csv.writer(rows).writerow((name, f"sha256={digest}", str(len(data))))
        csv.writer(rows).writerow(("p-1.dist-info/RECORD", "", ""))
        with zipfile.ZipFile(os.path.join(folder, self.NAME), "w") as archive:
            for name, data in {**files, "p-1.dist-info/RECORD": rows.getvalue().encode()}.items():
                archive.writestr(zipfile.ZipInfo(name), data)

    def do(self, folder: str) -> Any:
        with WheelFile(os.path.join(folder, self.NAME)) as wheel:
            wheel.set_file("pkg/_cudabuild/sm_90.cuar", image_of("new").data * 20)
            return wheel.save()

    def check(self, folder: str, is_done: bool) -> list[str]:
        with WheelFile(os.path.join(folder, self.NAME)) as wheel:
            names = set(wheel.names)
            shipped = "pkg/_cudabuild/sm_90.cuar" in names
            if not names >= {"pkg/__init__.py", "p-1.dist-info/METADATA", "p-1.dist-info/RECORD"}:
                return [f"the wheel holds {sorted(names)}"]
            if is_done and not shipped:
                return ["the wheel lacks its archive"]
            if shipped and wheel.read("pkg/_cudabuild/sm_90.cuar") != image_of("new").data * 20:
                return ["the wheel holds a wrong archive"]
        return []


class SdistEditing(Work):
    name = "archives taken out of a source distribution"
    tells_errors = True

    def prepare(self, folder: str) -> None:
        with tarfile.open(os.path.join(folder, "p-1.tar.gz"), "w:gz") as archive:
            for name in ("p-1/PKG-INFO", "p-1/pkg/__init__.py", "p-1/pkg/_cudabuild/sm_90.cuar"):
                info = tarfile.TarInfo(name)
                info.size = len(image_of(name).data)
                archive.addfile(info, io.BytesIO(image_of(name).data))

    def do(self, folder: str) -> Any:
        return remove_artefacts(os.path.join(folder, "p-1.tar.gz"))

    def check(self, folder: str, is_done: bool) -> list[str]:
        with tarfile.open(os.path.join(folder, "p-1.tar.gz")) as archive:
            names = set()
            for member in archive.getmembers():
                stream = archive.extractfile(member)
                if stream is not None and stream.read() != image_of(member.name).data:
                    return [f"{member.name} holds wrong bytes"]
                names.add(member.name)
        whole = {"p-1/PKG-INFO", "p-1/pkg/__init__.py"}
        if names != whole and (is_done or names != {*whole, "p-1/pkg/_cudabuild/sm_90.cuar"}):
            return [f"it holds {sorted(names)}"]
        return []


class Recording(Work):
    """The user's own file: what stands in it is never lost."""

    name = "a signature file that is added to"
    tells_errors = True

    def prepare(self, folder: str) -> None:
        write_signatures(os.path.join(folder, "signatures.toml"), [RecordedKernel("pkg", "old", ("float32[::1]",))])
        with open(os.path.join(folder, "signatures.toml"), "a") as stream:
            stream.write("# the user's own line\n")

    def do(self, folder: str) -> Any:
        kernels = [RecordedKernel("pkg", f"new{number}", ("float32[::1]",)) for number in range(3)]
        return write_signatures(os.path.join(folder, "signatures.toml"), kernels)

    def check(self, folder: str, is_done: bool) -> list[str]:
        with open(os.path.join(folder, "signatures.toml")) as stream:
            text = stream.read()
        found = [f"new{number}" in text for number in range(3)]
        faults = [] if "old" in text and "# the user's own line\n" in text else ["lines are lost"]
        if any(found) != all(found) or (is_done and not all(found)):
            faults.append("not all kernels were added")
        return faults


# Reading what was published


#: A module, and what it was edited to: the same free values, other code.
_TEXT = "N = 4\n\n\ndef k(x):\n    x[0] = N\n"
_EDITED = "N = 4\n\n\ndef k(x):\n    x[1] = N\n"
_SIGNATURE = (float32[::1],)
_TOOLS = {"llvm": "22.1", "nvjitlink": "12.9"}


class Binding(Work):
    """A kernel's first launch finds the image that its package ships."""

    name = "binding a shipped image"
    is_read_only = True
    edited = False
    _modules: ClassVar[dict[str, Any]] = {}

    def prepare(self, folder: str) -> None:
        package = f"disk_{type(self).__name__.lower()}"
        place = os.path.join(folder, package)
        os.makedirs(os.path.join(place, "_cudabuild"))
        path = os.path.join(place, "__init__.py")
        module = self._load(package, path, _TEXT)
        fingerprint = compute_fingerprint(KernelDefinition(module.k), _SIGNATURE)
        image = make_image(
            "k", module=package, signature="float32[::1]", fingerprint=fingerprint.digest, toolchain=_TOOLS
        ).stamp(fingerprint)
        image.key = image_key(fingerprint, TARGETS["sm_90"], 32, Options({}), _TOOLS)
        self.keep(folder, place, image)
        self._module = self._load(package, path, _EDITED) if self.edited else module
        self._folder = folder
        self.forget()

    def keep(self, folder: str, place: str, image: KernelImage) -> None:
        """Puts the image where it will be found."""
        write_archive(os.path.join(place, "_cudabuild", "sm_90.cuar"), [image], "sm_90")
        write_index(os.path.join(place, "_cudabuild", INDEX_NAME), build_index(image.module, [image], {}))

    def _load(self, name: str, path: str, text: str) -> Any:
        with open(path, "w") as stream:
            stream.write(text)
        os.utime(path, (1e9 + len(self._modules), 1e9))
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[os.path.dirname(path)])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = before
        self._modules[f"{name} {len(self._modules)}"] = sys.modules[name] = module
        return module

    def forget(self) -> None:
        binding._folders.clear()
        binding._left.clear()
        checks._known_files.clear()
        linecache.clearcache()

    def do(self, folder: str) -> Any:
        definition = KernelDefinition(self._module.k)

        def fingerprint() -> bytes:
            return compute_fingerprint(definition, _SIGNATURE).digest

        request = ImageRequest(definition, _SIGNATURE, DeviceInfo((9, 0), 13000), 32, fingerprint)
        return self.find(folder, request), request.notes

    def find(self, folder: str, request: ImageRequest) -> KernelImage | None:
        provider = ShippedProvider("cubin")
        found = provider.find(request)
        if found is None:
            provider.find_left(request)
        return found

    def check_result(self, result: Any) -> list[str]:
        image, notes = result
        if image is None and not notes:
            return ["a miss without a reason"]
        if image is None and not self.edited and self.do(self._folder)[0] is None:
            return ["its next launch finds no image either"]
        if image is None:
            return []
        if self.edited:
            return [f"an edited kernel got the image from before: {image!r}"]
        return [] if bytes(image.data) == make_image("k").data else [f"a wrong image: {image!r}"]

    def check(self, folder: str, is_done: bool) -> list[str]:
        self.forget()
        image, notes = self.do(folder)
        if image is None and not self.edited:
            return [f"nothing is found: {notes}"]
        return self.check_result((image, notes))


class EditedBinding(Binding):
    name = "binding where the source was edited"
    edited = True


class ScriptBinding(Binding):
    name = "binding a script's image"

    def _load(self, name: str, path: str, text: str) -> Any:
        module = super()._load(name, path, text)
        module.__spec__ = None
        return module


class CachedBinding(Binding):
    """… where the tools that would make it are looked at: some of this package's own files stand for them all."""

    name = "binding a cached image"
    also = (os.path.dirname(store.__file__),)

    def keep(self, folder: str, place: str, image: KernelImage) -> None:
        Cache(os.path.join(folder, "cache")).publish(image)

    def find(self, folder: str, request: ImageRequest) -> KernelImage | None:
        return CacheProvider(Cache(os.path.join(folder, "cache")), lambda target: _TOOLS).find(request)


class EditedCachedBinding(CachedBinding):
    name = "binding a cached image where the source was edited"
    edited = True


class Identifying(Work):
    """What would make code here: of the tools' files only a folder, of this package's own a few."""

    name = "telling the tools apart"
    is_read_only = True
    also = (
        os.path.dirname(store.__file__), str(CHECKOUT / "pyproject.toml"),
        *(str(CHECKOUT / "cudabuild" / name) for name in COMPILER_SOURCES if name.endswith(".py")),
    )  # fmt: skip

    def prepare(self, folder: str) -> None:
        os.makedirs(os.path.join(folder, "llvmlite"))
        sys.path.append(folder)

    def do(self, folder: str) -> Any:
        return [identify_tools(13000, whole) for whole in (False, True)]

    def check_result(self, result: Any) -> list[str]:
        # Another identity than without a fault is right: then the tools themselves are asked.
        return [] if len({*result}) == 2 else ["the same identity of all and of the compiler alone"]

    def check(self, folder: str, is_done: bool) -> list[str]:
        return self.check_result(self.do(folder))


BINDINGS: tuple[Work, ...] = (
    Binding(), ScriptBinding(), EditedBinding(), CachedBinding(), EditedCachedBinding(), Identifying(),
    LookingInVain(), VerifyingEmptyIndex(),
)  # fmt: skip


#: Errors by which a work says what is wrong.
TOLD = (OSError, CudabuildError, tarfile.TarError)

WORKS: tuple[Work, ...] = (
    FirstPublishing(), Publishing(), Merging(), Evicting(), OverDamagedIndex(), OverDamagedSegment(), Building(),
    Hitting(), Batching(), Noting(), Clearing(), Pruning(), Repairing(), Sharing(), InPlaceBuild(), WheelEditing(),
    SdistEditing(), Recording(),
)  # fmt: skip


def copy_state(base: str, folder: str) -> str:
    """A fresh copy of a prepared state."""
    shutil.rmtree(folder, ignore_errors=True)
    return str(shutil.copytree(base, folder))
