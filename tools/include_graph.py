#!/usr/bin/env python3
"""Print which folder of sixfold/ includes which, with the number of includes; tests are left out.

    python3 tools/include_graph.py
"""
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^#include "sixfold/(\w+)/', re.M)


def edges():
    """(folder, included folder) -> count"""
    found = collections.Counter()
    for path in sorted(ROOT.glob("sixfold/**/*")):
        name = path.name
        if path.suffix not in (".h", ".cpp") or name.startswith("test") or name.endswith(("_test.cpp", "_test.h")):
            continue
        folder = path.relative_to(ROOT / "sixfold").parts[0]
        found.update((folder, included) for included in INCLUDE.findall(path.read_text()) if included != folder)
    return found


def main():
    by_folder = collections.defaultdict(list)
    for (folder, included), count in sorted(edges().items()):
        by_folder[folder].append(f"{included} {count}")
    for folder, included in sorted(by_folder.items(), key=lambda row: len(row[1])):
        print(f"{folder:8} -> {', '.join(included)}")


if __name__ == "__main__":
    main()
