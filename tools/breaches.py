"""What the checks of the tree share: a root folder from the command line, a line for each breach, the exit status."""

import pathlib
import sys


def main(check, complaint, summary):
    """check(root) yields breaches; `complaint` follows their number; summary(root) is printed when there is none."""
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    breaches = list(check(root))
    for breach in breaches:
        print(breach)
    if breaches:
        sys.exit(f"{len(breaches)} {complaint}")
    print(summary(root))
