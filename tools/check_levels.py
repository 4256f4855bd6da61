#!/usr/bin/env python3
"""Fails when the processor has an instruction-set level that the tests did not run.

Reads what the processor can do from /proc/cpuinfo, not from the program, and the XML files that test programs wrote. A
level that the processor has must have passed LevelOfThisProcessor.IsTested/<level>, and no case may have been skipped
for want of it. A level that it lacks is named as not run.

usage: check_levels.py FOLDER_OF_XML [ARCHITECTURE]
ARCHITECTURE: what the tests ran on where that is not this machine: aarch64 under qemu.
"""

import pathlib
import platform
import re
import sys
import xml.etree.ElementTree as ElementTree

from count_tests import cases_of_program

# What each level of src/kernels/isa/isa.h needs: an architecture (None: any), and flags of /proc/cpuinfo.
AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
AVX512_BF16 = AVX512 | {"avx512_bf16", "avx512_vnni", "avx512vbmi"}
LEVELS = {
    "scalar": (None, set()),
    "avx2": ("x86_64", AVX2),
    "avx512": ("x86_64", AVX512),
    "avx512_bf16": ("x86_64", AVX512_BF16),
    "amx": ("x86_64", AVX512_BF16 | {"amx_tile", "amx_bf16"}),
    "neon": ("aarch64", set()),
}
IS_TESTED = re.compile(r"LevelOfThisProcessor\.IsTested/(\w+)$")
LACKS = re.compile(r"this processor lacks (\w+)$")


def missing_for(level, architecture, flags):
    """Why the processor lacks the level, or None when it has it."""
    wanted, needed = LEVELS[level]
    if wanted not in (None, architecture):
        return f"a level of {wanted}"
    lacking = sorted(needed - flags)
    return "this processor has no " + ", ".join(lacking) if lacking else None


def levels_of(name, outcome):
    """The levels that one case is about: by its name's last part, and by its reason to be skipped."""
    last = name.rsplit("/", 1)[-1]
    found = {last} if last in LEVELS else set()
    if isinstance(outcome, tuple):
        lacks = LACKS.search(outcome[1])
        found |= {lacks.group(1)} if lacks else set()
    return found


def check(cases, architecture, flags):
    """(breaches, report lines) of the (name, outcome) pairs that ran on such a processor."""
    cases = list(cases)
    tested = {match.group(1): outcome for name, outcome in cases if (match := IS_TESTED.search(name))}
    breaches = [f"no test says whether {level} was run" for level in LEVELS if level not in tested]
    breaches += [f"{level} is a level, but tools/check_levels.py does not say what it needs" for level in tested
                 if level not in LEVELS]
    report = []
    for level in LEVELS:
        why = missing_for(level, architecture, flags)
        if why is not None:
            report.append(f"not run: {level} ({why})")
            continue
        about = [(name, outcome) for name, outcome in cases if level in levels_of(name, outcome)]
        breaches += [f"{name} was skipped, but this processor has {level}" for name, outcome in about
                     if isinstance(outcome, tuple)]
        breaches += [f"{level} was not run: {name} failed" for name, outcome in about
                     if IS_TESTED.search(name) and outcome == "failed"]
        passed = sum(outcome == "passed" for _, outcome in about)
        report.append(f"run: {level}, {passed} cases of its own, and those that loop over all levels")
    return breaches, report


def flags_of_this_processor():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(found.group(1).split()) if found else set()


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    here = platform.machine()
    architecture = sys.argv[2] if len(sys.argv) == 3 else here
    flags = flags_of_this_processor() if architecture == here else set()
    reports = sorted(pathlib.Path(sys.argv[1]).glob("*.xml"))
    breaches, report = check((case for path in reports for case in cases_of_program(path)), architecture, flags)
    print("\n".join(breaches + report))
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
