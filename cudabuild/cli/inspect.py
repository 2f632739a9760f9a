# SPDX-License-Identifier: Apache-2.0
"""Shows everything that is recorded with each image of a package, wheel or archive, and what was left to JIT."""

from __future__ import annotations

import argparse
from typing import Any

from cudabuild.cli.output import add_json_argument, plain, print_json
from cudabuild.image.archive import Archive, Record
from cudabuild.importer.listing import Shipped, find_shipped, format_details

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="an installed package, which is not imported, a wheel, an archive or a folder of archives",
    )
    parser.add_argument("kernel", nargs="?", default="", help="only kernels whose name holds this text")
    add_json_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints a block per image."""
    shipped = find_shipped(options.what)
    if options.json:
        print_json("inspect", _json_of_shipped(shipped, options.kernel))
    else:
        print(format_details(shipped, options.kernel))
    return 0


def _json_of_shipped(shipped: Shipped, kernel: str) -> dict[str, Any]:
    return {
        "images": [
            _json_of_record(archive, record)
            for archive in shipped.archives
            for record in archive.records()
            if kernel in f"{record.module}.{record.qualname}"
        ],
        "left_to_jit": [left.as_entry() for left in shipped.left if kernel in f"{left.module}.{left.qualname}"],
    }


def _json_of_record(archive: Archive, record: Record) -> dict[str, Any]:
    toolchain, parts = record.read_extra()
    free = {label: text for label, text in parts if not label.rpartition("/")[2].startswith("(")}
    return {
        "archive": archive.name,
        "module": record.module,
        "qualname": record.qualname,
        "signature": record.signature,
        "kind": record.kind,
        "target": archive.target,
        "index_width": record.index_width,
        "bytes": record.size,
        "symbol": record.symbol,
        "fingerprint": record.fingerprint.hex(),
        "launch_abi": record.launch_abi,
        "minimum_driver": record.minimum_driver,
        "options": plain(record.options),
        "attributes": plain(record.attributes),
        "toolchain": dict(sorted(toolchain.items())),
        "free_values": dict(sorted(free.items())),
    }
