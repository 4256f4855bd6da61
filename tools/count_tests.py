#!/usr/bin/env python3
"""Counts single test cases: from the XML files that test programs wrote, and for programs that wrote none (or died
before they could) from ctest's own report.

usage: count_tests.py CTEST_JUNIT.xml FOLDER_OF_XML
prints "passed N", "failed N", a line "failure: NAME" for each failure and a line "skipped: N, REASON: NAME ..." for each
reason to skip; exit status 1 when something failed or nothing ran.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

SKIPPED_SHOWN = 5  # names a line


def reason_to_skip(skipped):
    """The last line of what the test said: the first names its source file."""
    lines = (skipped.get("message", "") if skipped is not None else "").splitlines()
    return lines[-1] if len(lines) > 1 else "no reason given"


def cases_of_program(path):
    """(name, outcome) of each case in a test program's XML report; the outcome of a skip is ("skipped", reason)."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            yield name, ("skipped", reason_to_skip(case.find("skipped")))
        elif case.get("status") != "notrun":
            yield name, "passed"


def outcomes(ctest_xml, folder):
    for test in ElementTree.parse(ctest_xml).getroot().iter("testcase"):
        program = test.get("name")
        status = test.get("status")
        report = pathlib.Path(folder) / f"{program}.xml"
        cases = list(cases_of_program(report)) if report.exists() else []
        yield from cases
        skipped = test.find("skipped")
        if status == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
            yield program, ("skipped", "no reason given")
        elif status == "run":
            if not cases:
                yield program, "passed"
        elif not any(outcome == "failed" for _, outcome in cases):
            yield f"{program} (did not run to its end)", "failed"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = list(outcomes(sys.argv[1], sys.argv[2]))
    names = collections.defaultdict(list)
    for name, outcome in found:
        names[outcome].append(name)
    print(f"passed {len(names['passed'])}")
    print(f"failed {len(names['failed'])}")
    for name in names["failed"]:
        print(f"failure: {name}")
    for outcome, skipped in sorted((key, value) for key, value in names.items() if isinstance(key, tuple)):
        shown = skipped if len(skipped) <= SKIPPED_SHOWN else [*skipped[:SKIPPED_SHOWN], "..."]
        print(f"skipped: {len(skipped)}, {outcome[1]}: {' '.join(shown)}")
    sys.exit(1 if names["failed"] or not names["passed"] else 0)


if __name__ == "__main__":
    main()
