#!/usr/bin/env python3
"""Holds `haypile calibrate` to its promises as a process: Ctrl-C keeps what is done, the same command goes on and gives
the same bytes, and its JSON is what the published schema says.

usage: calibrate_run_test.py --haypile PROGRAM
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import breach_tests
import plan_test
import tiny_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs/schemas/haypile.calibrate-1.schema.json"
TIME_LIMIT_SECONDS = 120
EXIT_INTERRUPTED = 130
# Some hundred sequences, so that a signal comes in the middle.
LONG_RUN = ["--tokens", "30000", "--max-model-len", "64", "--method", "mse", "--quiet"]
SCHEMA_RUNS = [
    ["--tokens", "200"],
    ["--tokens", "200", "--method", "percentile", "--percentile", "99.5", "--strategy", "head"],
    ["--tokens", "200", "--method", "pow2", "--output-tokens", "40"],
    ["--tokens", "200", "--format", "nvfp4", "--output-tokens", "40", "--output-whole-only"],
]


class Bench:
    """A folder with a tiny model and a cache for each name."""

    def __init__(self, program, folder):
        self.program = str(pathlib.Path(program).resolve())
        self.folder = pathlib.Path(folder)
        tiny_model.write_folder(self.folder / "model", {})

    def start(self, cache, arguments):
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAYPILE_")}
        env["HAYPILE_CACHE"] = str(self.folder / cache)
        return subprocess.Popen([self.program, "calibrate", "model", *arguments], cwd=self.folder, env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, cache, arguments):
        process = self.start(cache, arguments)
        out, err = process.communicate(timeout=TIME_LIMIT_SECONDS)
        return process.returncode, out, err

    def outputs(self, name):
        return ["--json", f"{name}.json", "-o", f"{name}-scales.json"]

    def read(self, name):
        return [(self.folder / file).read_bytes() for file in (f"{name}.json", f"{name}-scales.json")]

    def states(self, cache):
        return sorted((self.folder / cache).glob("calibrate/*.json"))


def wait_for_state(bench, cache, process):
    """True once a sequence is finished while the process still runs."""
    end = time.monotonic() + TIME_LIMIT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if bench.states(cache):
            return True
        time.sleep(0.002)
    return False


def sequences_done(state):
    """The number that the state file says are finished, wherever it keeps it."""
    if isinstance(state, dict):
        if isinstance(state.get("segments"), int):
            return state["segments"]
        return max([sequences_done(value) for value in state.values()], default=0)
    return 0


def test_stop_and_resume(bench):
    whole = bench.run("cache-whole", LONG_RUN + bench.outputs("whole"))
    if whole[0] != 0:
        yield f"the whole run leaves with {whole[0]}: {whole[2].strip()}"
        return
    total = json.loads((bench.folder / "whole.json").read_text(encoding="utf-8"))["sequences"]
    process = bench.start("cache", LONG_RUN + bench.outputs("resumed"))
    if not wait_for_state(bench, "cache", process):
        process.kill()
        yield "no state was written while the command ran"
        return
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIME_LIMIT_SECONDS)
    if process.returncode != EXIT_INTERRUPTED:
        yield f"after SIGINT it leaves with {process.returncode}, not {EXIT_INTERRUPTED}"
    if "the same command resumes" not in err or err.count("\n") != 1 or out:
        yield f"after SIGINT it says '{err.strip()}' and prints '{out.strip()}'"
    if (bench.folder / "resumed.json").exists():
        yield "a stopped run wrote its result"
    done = [sequences_done(json.loads(path.read_text(encoding="utf-8"))) for path in bench.states("cache")]
    if len(done) != 1 or not 0 < done[0] < total:
        yield f"the state holds {done} of {total} sequences"
    resumed = bench.run("cache", LONG_RUN + bench.outputs("resumed"))
    if resumed[0] != 0:
        yield f"the resumed run leaves with {resumed[0]}: {resumed[2].strip()}"
        return
    if bench.read("resumed") != bench.read("whole"):
        yield "the resumed run's files differ from those of the whole run"
    if bench.states("cache"):
        yield "a finished run left its state"


def breaches_of(document, schema):
    checker = plan_test.Checker(schema)
    checker.check(schema, document)
    return checker.breaches


def test_schema(bench):
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for i, arguments in enumerate(SCHEMA_RUNS):
        status, _, err = bench.run("cache-schema", arguments + ["--quiet", "--json", f"{i}.json"])
        if status != 0:
            yield f"{arguments}: exit status {status}: {err.strip()}"
            continue
        document = json.loads((bench.folder / f"{i}.json").read_text(encoding="utf-8"))
        for breach in breaches_of(document, schema):
            yield f"{arguments}: {breach}"
        document["unknown"] = document.pop("tokens")
        if len(list(breaches_of(document, schema))) != 2:
            yield f"{arguments}: a missing and an unknown field pass the schema"


if __name__ == "__main__":
    sys.exit(breach_tests.main(__doc__, Bench, (test_stop_and_resume, test_schema)))
