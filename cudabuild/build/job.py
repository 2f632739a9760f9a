# SPDX-License-Identifier: Apache-2.0
"""One build, from a project and its settings to files: for setuptools, wheels and the command line alike."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from cudabuild.build.execute import BuildResult, run_build
from cudabuild.build.plan import Artefacts, find_artefacts
from cudabuild.build.project import Project
from cudabuild.build.report import Meter, format_errors, format_left, format_summary
from cudabuild.build.settings import BuildSettings
from cudabuild.build.stamp import Stamp
from cudabuild.build.write import Written, write_packages
from cudabuild.errors import BuildError

__all__ = ["Outcome", "run_job"]


@dataclass
class Outcome:
    """What became of a build.

    Attributes:
        settings: what was to be built.
        result: what was made of it.
        written: the files, by package; none where the result has errors.
        seconds: how long it took.
    """

    settings: BuildSettings
    result: BuildResult
    written: Written = field(default_factory=dict)
    seconds: float = 0.0

    def check(self) -> Outcome:
        """This, if nothing is wrong.

        Raises:
            BuildError: kernels are wrong; with everything that is.
        """
        if self.result.errors:
            raise BuildError(format_errors(self.result))
        return self

    def summary(self, *, everything: bool = False) -> list[str]:
        """Lines for people; with ``everything``, a row for each kernel and target."""
        return format_summary(self.result, self.written, self.settings, self.seconds, everything=everything)

    def reminder(self) -> list[str]:
        """Lines for people, for a later build that finds nothing changed."""
        places = [
            f"{owner}: nothing has changed since {folder} was written" for owner, (folder, *_) in self.written.items()
        ]
        return [*(places or ["no kernels found"]), *format_left(self.result)]


def run_job(
    project: Project,
    settings: BuildSettings,
    place: Callable[[Artefacts], str],
    *,
    in_tree: bool,
    stamp: Stamp | None = None,
    quiet: bool = False,
    executor: Executor | None = None,
) -> Outcome:
    """Builds and, unless something is wrong, writes.

    Args:
        project: the project.
        settings: what to build.
        place: the folder for the archives of a package.
        in_tree: the folders are in the source tree.
        stamp: keeps what decided this build, for the next one.
        quiet: shows no progress.
        executor: where to compile, see :func:`cudabuild.build.execute.run_build`.

    Raises:
        ToolError: nothing can be compiled here.
        OSError: a file cannot be written.
    """
    meter = Meter(quiet=quiet)
    if stamp is not None:
        stamp.watch(project)
    outcome = Outcome(settings, run_build(project, settings, meter, executor))
    if not outcome.result.errors:
        adopted = {module for module in project.files if settings.takes(module, "numba")}
        outcome.written = write_packages(project, outcome.result, place, in_tree=in_tree, adopted=adopted)
    outcome.seconds = meter.seconds
    if stamp is not None and not outcome.result.errors:
        folders = {place(find_artefacts(project, module)) for module in project.files}
        stamp.write(project, settings, outcome.result, folders, outcome.reminder())
    return outcome
