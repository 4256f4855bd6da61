#!/usr/bin/env python3
"""Holds the documentation to the program: runs the commands that pages show, and checks their links.

usage: docs_test.py --haypile PROGRAM
Every line "haypile ..." in a block fenced as "```sh haypile-test" in README.md and docs/ is run in the root of the
repository and must leave with 0, print something, and print nothing on standard error. Lines are split as a shell
would, but there is no shell; a comment may follow " #". Commands that name a known model are skipped, with a note, when
the cache does not hold it.
"""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

TIME_LIMIT_SECONDS = 120
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_links  # noqa: E402  (found only by the path above)


def commands_of(page):
    """(line number, arguments) of the commands to be run."""
    marked = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            marked = line[3:].split() == ["sh", "haypile-test"]
        elif marked and line.strip():
            yield number, shlex.split(line, comments=True)


def known_models(program):
    """Name -> whether it is in the cache, from `haypile model list`."""
    listed = subprocess.run([program, "model", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: line.rstrip().endswith("[fetched]") for line in listed.splitlines() if line.strip()}


def run_command(program, arguments):
    """What is wrong, in words; None when all is well."""
    if arguments[:1] != ["haypile"]:
        return "a line of a haypile-test block must begin with 'haypile'"
    try:
        done = subprocess.run([program] + arguments[1:], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=TIME_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"took longer than {TIME_LIMIT_SECONDS} s"
    if done.returncode != 0 or done.stderr:
        return f"exit status {done.returncode}; standard error: {done.stderr.strip() or '(nothing)'}"
    return None if done.stdout.strip() else "printed nothing"


def test_pages(program):
    """(name, outcome, message) of each command."""
    models = known_models(program)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, arguments in commands_of(page):
            name = f"{page.relative_to(ROOT)}:{number} {shlex.join(arguments)}"
            missing = [model for model in models if model in arguments and not models[model]]
            if missing:
                yield name, "skipped", f"{missing[0]} is not in the cache: haypile model get {missing[0]}"
                continue
            problem = run_command(program, arguments)
            yield name, "failed" if problem else "ok", problem


def test_links():
    _, problems = check_links.check(ROOT)
    yield "links", "failed" if problems else "ok", "\n".join(problems)


def test_broken_links_are_found():
    """The check of links itself: a page with one good link and one of each kind of broken one."""
    page = "# Some `head`-ing\n[a](b.md) [b](#some-head-ing) `[c](code.md)` [d](https://example.org)\n"
    broken = "[e](missing.md)\n[f](b.md#nothing)\n[g](../out.md)\n[h]: gone.md\n"
    with tempfile.TemporaryDirectory(prefix="haypile_docs_") as folder:
        root = pathlib.Path(folder).resolve()
        (root / "b.md").write_text("text\n", encoding="utf-8")
        (root / "a.md").write_text(page + broken, encoding="utf-8")
        _, problems = check_links.check(root)
    lines = [int(re.match(r"a\.md:(\d+):", problem).group(1)) for problem in problems]
    right = lines == [3, 4, 5, 6]
    yield "broken links are found", "ok" if right else "failed", "" if right else f"found {problems}"


def write_xml(target, results):
    """The report that test programs write for GTEST_OUTPUT=xml:FOLDER/."""
    suite = ElementTree.Element("testsuite", name="docs_test")
    for name, outcome, message in results:
        node = ElementTree.SubElement(suite, "testcase", classname="docs", name=name, status="run")
        if outcome != "ok":
            ElementTree.SubElement(node, "failure" if outcome == "failed" else "skipped", message=message)
    ElementTree.ElementTree(suite).write(target, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haypile", required=True)
    program = str(pathlib.Path(parser.parse_args().haypile).resolve())
    commands = list(test_pages(program))
    if not commands:
        commands = [("commands", "failed", "no page shows a command that can be tested")]
    results = commands + list(test_links()) + list(test_broken_links_are_found())
    for name, outcome, message in results:
        print(f"{outcome:<8}{name}" + (f"\n    {message}" if message else ""))
    target = os.environ.get("GTEST_OUTPUT", "")
    if target.startswith("xml:") and target.endswith("/"):
        write_xml(target[len("xml:") :] + "docs_test.xml", results)
    counts = [sum(1 for _, outcome, _ in results if outcome == kind) for kind in ("ok", "failed", "skipped")]
    print("{} passed, {} failed, {} skipped".format(*counts))
    sys.exit(1 if counts[1] else 0)


if __name__ == "__main__":
    main()
