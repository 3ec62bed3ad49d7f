"""The commands in the documents work, and print what the documents say.

In a `console` block a line after "$ " is a command, the lines below are its output, and "..." stands for lines left
out. Numbers and runs of spaces may differ, since times and machines do; words may not. In an `sh` block every line is
a command. Commands that run long (or would run these tests again) are checked by make itself, without being run.
"""
import os
import re
import subprocess

import pytest
from conftest import ROOT, SIXFOLD

LONG = re.compile(r"^(make (test|bench|fuzz|tsan|aarch64|tidy|format|clean)|tools/install\.sh|git clone|cd )")
FENCE = re.compile(r"^```(console|sh)\n(.*?)^```", re.M | re.S)


def documents():
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def commands():
    """(document, line, command, lines of output or None where the block shows none)"""
    for path in documents():
        text = path.read_text()
        for block in FENCE.finditer(text):
            first = text[: block.start(2)].count("\n") + 1
            found = None
            for number, line in enumerate(block[2].splitlines(), first):
                is_command = line.startswith("$ ") if block[1] == "console" else line.strip() and not line.startswith("#")
                if is_command:
                    if found:
                        yield found
                    found = (path, number, line.removeprefix("$ "), [])
                elif found and block[1] == "console":
                    found[3].append(line)
            if found:
                yield found


def normal(line):
    return re.sub(r"\s+", " ", re.sub(r"[0-9]+(\.[0-9]+)?", "#", line)).strip()


def ids(found):
    return [f"{path.name}:{number}" for path, number, _, _ in found]


FOUND = list(commands())


@pytest.mark.parametrize("path,number,command,expected", FOUND, ids=ids(FOUND))
def test_command_works(path, number, command, expected):
    if LONG.match(command):
        if command.startswith("make "):
            assert subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True).returncode == 0
        return
    environment = {**os.environ, "PATH": f"{SIXFOLD.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = iter([normal(line) for line in (done.stdout + done.stderr).splitlines()])
    for line in expected:
        if line.strip() and line.strip() != "...":
            assert normal(line) in printed, f"not printed, or not after the lines above: {line}"


def test_links_between_documents_lead_somewhere():
    for path in documents():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_ops_page_is_what_the_program_prints():
    printed = subprocess.run([SIXFOLD, "ops", "--markdown"], capture_output=True, text=True, check=True).stdout
    page = ROOT / "docs/ops.md"
    assert page.read_text() == printed, "renew it: build/release/sixfold ops --markdown > docs/ops.md"
