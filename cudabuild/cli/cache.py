# SPDX-License-Identifier: Apache-2.0
"""Looks into the cache of compiled kernels, verifies it, brings it under a size, or empties it.

All of it is safe while kernels are compiled and run: a program that finds an image gone compiles it anew. Site caches
(CUDABUILD_SITE_CACHE) are read and verified, never changed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cudabuild import config
from cudabuild.cache import upkeep
from cudabuild.cli.output import add_json_argument, count, format_rows, plain, print_json
from cudabuild.errors import CudabuildError
from cudabuild.setting import Setting

__all__ = ["add_arguments", "run"]

#: Action -> what it does.
_ACTIONS = {
    "where": "print the folder of the user cache",
    "info": "what each cache holds, target by target",
    "list": "one line for every image",
    "verify": "read every byte and compare digests; status 1 where something is damaged",
    "prune": "remove the least recently used images until the cache is within its size",
    "clear": "empty the user cache",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.usage = f"%(prog)s [-h] [--schema] {{{','.join(_ACTIONS)}}} [--json] …"
    add_json_argument(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, prog=parser.prog)
    parsers = {}
    for action, text in _ACTIONS.items():
        one = actions.add_parser(action, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, for programs")
        parsers[action] = one
    targets = "only of this target, such as sm_90; may be repeated"
    parsers["list"].add_argument("kernel", nargs="?", default="", help="only kernels whose name holds this text")
    for action in ("list", "clear"):
        parsers[action].add_argument("--target", action="append", default=[], help=targets)
    parsers["verify"].add_argument(
        "--repair", action="store_true", help="take what is damaged out of the user cache, and keep what is whole"
    )
    parsers["prune"].add_argument(
        "--size", metavar="SIZE", help="the most to keep, such as 200MB (default: CUDABUILD_CACHE_SIZE, 1 GiB)"
    )
    parsers["prune"].add_argument(
        "--unused", metavar="DAYS", type=_days, help="remove besides what was not used for so many days"
    )
    parsers["prune"].add_argument("--dry-run", action="store_true", help="tell what would be removed, remove nothing")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days, such as 30")
    return days


def run(options: argparse.Namespace) -> int:
    """Does what is asked; returns the exit status."""
    action = {
        "where": _where, "info": _info, "list": _list, "verify": _verify, "prune": _prune, "clear": _clear,
    }[options.action]  # fmt: skip
    values, lines, status = action(options)
    if options.json:
        print_json("cache", {"action": options.action, **values})
    elif lines:
        print("\n".join(lines))
    return status


_Answer = tuple[dict[str, Any], list[str], int]


def _where(_: argparse.Namespace) -> _Answer:
    layers = upkeep.find_layers()
    user = layers[0]
    if not user.path:
        raise CudabuildError(
            f"there is no place for a cache: {user.reason}\n  do:       set CUDABUILD_CACHE_DIR to a folder"
        )
    return {"layers": [_json_of_layer(layer) for layer in layers]}, [user.path], 0


def _info(_: argparse.Namespace) -> _Answer:
    layers = upkeep.find_layers()
    held = [upkeep.survey_layer(layer) for layer in layers]
    limit = config.get("cache_size")
    values = []
    lines: list[str] = []
    for layer, facts in zip(layers, held, strict=True):
        files, size = upkeep.measure(layer.path) if layer.is_read else (0, 0)
        targets = [
            {
                "target": one.target,
                "images": one.images,
                "segments": one.segments,
                "bytes": one.bytes,
                "last_used": _instant(one.last_used),
                "leftover_files": one.leftover,
            }
            for one in facts
        ]
        values.append(
            {
                **_json_of_layer(layer),
                "limit": limit if layer.kind == "user" else None,
                "files": files,
                "bytes": size,
                "targets": targets,
            }
        )
        lines += ["", *_format_layer(layer, values[-1], facts)]
    return {"layers": values}, lines[1:], 0


def _format_layer(layer: upkeep.Layer, values: Mapping[str, Any], facts: Sequence[upkeep.TargetFacts]) -> list[str]:
    what = "the user's cache" if layer.kind == "user" else "a site cache, only read"
    state = {
        "absent": "not made yet" if layer.kind == "user" else "not there",
        "refused": f"not used: {layer.reason}",
        "read-only": "read-only" if layer.kind == "user" else "",
    }.get(layer.state, "")
    lines = [layer.path or "no folder", f"  {what}{f'; {state}' if state else ''}"]
    if layer.is_read:
        most = f" of at most {_size(values['limit'])}" if values["limit"] is not None else ""
        lines.append(f"  {count(values['files'], 'file')}, {_size(values['bytes'])}{most}")
    rows = [
        [one.target, str(one.images), str(one.segments), _size(one.bytes), _minute(one.last_used) or "never"]
        for one in facts
    ]
    header = ["target", "images", "segments", "size", "last used"]
    return lines + (format_rows([header, *rows], indent="  ", right=(1, 2, 3)) if rows else [])


def _list(options: argparse.Namespace) -> _Answer:
    images = [
        held
        for layer in upkeep.find_layers()
        for held in upkeep.list_images(layer, options.target)
        if options.kernel in f"{held.record.module}.{held.record.qualname}"
    ]
    values = [
        {
            "cache": held.layer.path,
            "module": held.record.module,
            "qualname": held.record.qualname,
            "signature": held.record.signature,
            "kind": held.record.kind,
            "target": held.record.target,
            "index_width": held.record.index_width,
            "bytes": held.record.size,
            "key": held.record.key.hex(),
            "fingerprint": held.record.fingerprint.hex(),
            "options": plain(held.record.options),
            "toolchain": dict(sorted(held.record.read_extra()[0].items())),
            "published": _instant(held.published),
        }
        for held in images
    ]
    lines: list[str] = []
    for path in dict.fromkeys(held.layer.path for held in images):
        rows = [
            [
                f"{one.module}.{one.qualname}({one.signature})",
                one.target,
                f"{one.index_width}-bit indices",
                _size(one.size),
                _minute(held.published),
            ]
            for held in images
            for one in [held.record]
            if held.layer.path == path
        ]
        lines += [path, *format_rows(rows, indent="  ", right=(3,))]
    total = sum(held.record.size for held in images)
    return {"images": values}, [*lines, f"{count(len(images), 'image')}, {_size(total)}"], 0


def _verify(options: argparse.Namespace) -> _Answer:
    layers = upkeep.find_layers()
    verdicts = [upkeep.verify_layer(layer) for layer in layers]
    found = [fault for verdict in verdicts for fault in verdict.faults]
    lines = [f"{one.kind}: {one.path}: {f'{one.image}: ' if one.image else ''}{one.reason}" for one in found]
    left = found
    if options.repair and verdicts[0].faults:
        busy = upkeep.repair_cache(layers[0], verdicts[0].faults)
        lines += _tell_busy(busy)
        verdicts[0] = upkeep.verify_layer(layers[0])
        left = [fault for verdict in verdicts for fault in verdict.faults]
    images = sum(verdict.images for verdict in verdicts)
    size = sum(verdict.bytes for verdict in verdicts)
    lines.append(f"{count(images, 'image')} whole, {_size(size)}; {count(len(left), 'fault')}")
    if options.repair:
        lines[-1] += f" left of {len(found)}"
    elif any(fault.kind not in ("refused", "unreadable") for fault in verdicts[0].faults):
        lines.append("  do:       cudabuild cache verify --repair; or nothing: what is damaged is compiled anew")
    values = {
        "images": images,
        "bytes": size,
        "faults": [
            {"path": one.path, "kind": one.kind, "image": one.image, "reason": one.reason, "repaired": one not in left}
            for one in found
        ],
    }
    return values, lines, 1 if left else 0


def _prune(options: argparse.Namespace) -> _Answer:
    limit = _parse_size(options.size) if options.size is not None else None
    layer = upkeep.user_layer()
    removed = upkeep.prune_cache(layer, limit=limit, unused_days=options.unused, dry_run=options.dry_run)
    return _answer_removed(layer, removed, "would be removed" if options.dry_run else "removed", options.dry_run)


def _parse_size(text: str) -> int:
    size: int = Setting("size", "size", 0, "").check(text, "--size")
    return size


def _clear(options: argparse.Namespace) -> _Answer:
    layer = upkeep.user_layer()
    return _answer_removed(layer, upkeep.clear_cache(layer, options.target), "removed", False)


def _answer_removed(layer: upkeep.Layer, removed: upkeep.Removed, verb: str, dry_run: bool) -> _Answer:
    files, left = upkeep.measure(layer.path)
    values = {
        "cache": layer.path,
        "removed": {"images": removed.images, "files": removed.files, "bytes": removed.bytes},
        "left": {"files": files, "bytes": left},
        "busy": removed.busy,
        "dry_run": dry_run,
    }
    lines = [
        *_tell_busy(removed.busy),
        f"{layer.path}: {count(removed.images, 'image')} in {count(removed.files, 'file')} {verb}, "
        f"{_size(removed.bytes)}; {_size(left)} {'there' if dry_run else 'left'}",
    ]
    return values, lines, 1 if removed.busy else 0


def _tell_busy(targets: Sequence[str]) -> list[str]:
    return [f"busy: {target}: other processes write to it all the time; try again" for target in targets]


def _json_of_layer(layer: upkeep.Layer) -> dict[str, Any]:
    return {"path": layer.path or None, "kind": layer.kind, "state": layer.state, "reason": layer.reason}


def _size(number: int) -> str:
    """``"12 bytes"``, ``"3.4 kB"``, ``"1.1 GB"``."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return count(number, "byte")


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)) if seconds else ""


def _instant(seconds: float) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None
