"""Runs tests of the program as a process: each is a generator of breaches, given a bench in a folder of its own."""

import argparse
import tempfile


def main(description, make_bench, tests):
    """The exit status. `make_bench` takes the program under --haypile and the folder."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haypile", required=True)
    program = parser.parse_args().haypile
    failed = 0
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="haypile_process_") as folder:
            breaches = list(test(make_bench(program, folder)))
        print(("FAILED " if breaches else "ok     ") + test.__name__)
        for breach in breaches:
            print("    " + breach)
        failed += bool(breaches)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0
