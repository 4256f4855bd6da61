#!/usr/bin/env python3
"""Runs the program on cases that are kept as data.

usage: run_cases.py --haypile PROGRAM [--update] [CASE or FOLDER ...]     (default: tests/cases)

A case is a file *.case of lines:
  # why this case is here
  make: gguf PATH [edit=value ...]     a tiny model, whole or broken (tests/tiny_model.py); `make: folder ...` likewise
  make: tensors PATH NAME=SPEC ...     a safetensors file of named tensors (tests/tiny_checkpoint.py)
  file: PATH                           the lines after it that start with "| " are its content
  env: NAME=VALUE
  run: haypile ARGUMENT ...            split as a shell would, but there is no shell
  exit: STATUS
  stdout has: TEXT / stderr has: TEXT  a part that must be there
  stdout: / stderr:                    the lines after it that start with "| " are all of it
A case runs in an empty folder of its own, with an empty model cache. A case that fails as it should (exit not 0) must
print exactly one line on standard error and nothing on standard output. --update rewrites exit status and the
"stdout:" and "stderr:" blocks (a case without either gets its standard error written); review the change before you
commit it.
"""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import tiny_checkpoint
import tiny_model

TIME_LIMIT_SECONDS = 120
MAKERS = {**tiny_model.MAKERS, "tensors": tiny_checkpoint.write_tensors}
BLOCKS = ("stdout", "stderr")


class CaseError(Exception):
    """A mistake in the case file itself."""


class Case:
    def __init__(self, path):
        self.path = path
        self.entries = []  # [key, value, block lines]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("| ") or line == "|":
                if not self.entries:
                    raise CaseError(f"{path}:{number}: a block line without a heading")
                self.entries[-1][2].append(line[2:])
            elif line.startswith("#") or not line.strip():
                self.entries.append(["#", line, []])
            else:
                key, colon, value = line.partition(":")
                if not colon:
                    raise CaseError(f"{path}:{number}: expected 'key: value'")
                self.entries.append([key.strip(), value.strip(), []])

    def all(self, key):
        return [(value, block) for k, value, block in self.entries if k == key]

    def one(self, key):
        found = self.all(key)
        if len(found) != 1:
            raise CaseError(f"{self.path}: expected one '{key}:', found {len(found)}")
        return found[0][0]

    def block(self, key):
        found = self.all(key)
        return "".join(line + "\n" for line in found[0][1]) if found else None

    def set(self, key, value, block=()):
        for entry in self.entries:
            if entry[0] == key:
                entry[1], entry[2] = value, list(block)
                return
        self.entries.append([key, value, list(block)])

    def write(self):
        lines = []
        for key, value, block in self.entries:
            lines.append(value if key == "#" else f"{key}: {value}".rstrip())
            lines.extend(f"| {line}".rstrip() for line in block)
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(case, folder):
    for value, _ in case.all("make"):
        kind, path, *edits = shlex.split(value)
        MAKERS[kind](folder / path, dict(edit.split("=", 1) for edit in edits))
    for path, block in case.all("file"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("".join(line + "\n" for line in block), encoding="utf-8")


def execute(case, program, folder):
    argv = shlex.split(case.one("run"))
    if argv[:1] != ["haypile"]:
        raise CaseError(f"{case.path}: 'run:' must begin with haypile")
    env = {k: v for k, v in os.environ.items() if not k.startswith("HAYPILE_")}
    env["HAYPILE_CACHE"] = "cache"
    env.update(value.split("=", 1) for value, _ in case.all("env"))
    done = subprocess.run(
        [program] + argv[1:], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME_LIMIT_SECONDS
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def breaches(case, status, outputs):
    """What differs from the case's expectations, in words."""
    expected = int(case.one("exit"))
    if status != expected:
        yield f"exit status {status}, expected {expected}"
    for name in BLOCKS:
        block = case.block(name)
        if block is not None and outputs[name] != block:
            yield f"{name} is\n{outputs[name]}expected\n{block}"
        for text, _ in case.all(name + " has"):
            if text not in outputs[name]:
                yield f"{name} lacks '{text}'; it is\n{outputs[name]}"
    yield from broken_rules(status, outputs)


def broken_rules(status, outputs):
    """The rules that hold for every command: one clear line for a failure, and no abort ever."""
    if status == 0:
        return
    if status < 0 or status == 134:
        yield f"the program died (status {status})"
    if outputs["stdout"]:
        yield f"a failing command printed on standard output:\n{outputs['stdout']}"
    if outputs["stderr"].count("\n") != 1 or not outputs["stderr"].strip():
        yield f"a failing command must print one line on standard error, not\n{outputs['stderr']}"


def update(case, status, outputs):
    case.set("exit", str(status))
    for name in BLOCKS:
        if case.block(name) is not None:
            case.set(name, "", outputs[name].splitlines())
    if not any(key.startswith(BLOCKS) for key, _, _ in case.entries):
        case.set("stderr", "", outputs["stderr"].splitlines())
    case.write()


def run_case(path, program, updating):
    """A list of breaches; empty when the case passes."""
    try:
        case = Case(path)
        with tempfile.TemporaryDirectory(prefix="haypile_case_") as folder:
            prepare(case, pathlib.Path(folder))
            status, stdout, stderr = execute(case, program, folder)
        outputs = {"stdout": stdout, "stderr": stderr}
        if updating:
            update(case, status, outputs)
            return list(broken_rules(status, outputs))
        return list(breaches(case, status, outputs))
    except subprocess.TimeoutExpired:
        return [f"took longer than {TIME_LIMIT_SECONDS} s"]
    except CaseError as error:
        return [str(error)]


def write_xml(target, results):
    """The report that test programs write for GTEST_OUTPUT=xml:FOLDER/."""
    suite = ElementTree.Element("testsuite", name="cases")
    for name, problems in results:
        node = ElementTree.SubElement(suite, "testcase", classname="cases", name=name, status="run")
        if problems:
            ElementTree.SubElement(node, "failure", message="\n".join(problems))
    ElementTree.ElementTree(suite).write(target, encoding="utf-8")


def find_cases(arguments):
    root = pathlib.Path(__file__).resolve().parent / "cases"
    for argument in [pathlib.Path(a) for a in arguments] or [root]:
        yield from sorted(argument.rglob("*.case")) if argument.is_dir() else [argument]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haypile", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.haypile).resolve())
    results, start = [], time.monotonic()
    for path in find_cases(arguments.cases):
        name = f"{path.parent.name}/{path.stem}"
        problems = run_case(path, program, arguments.update)
        results.append((name, problems))
        print(("FAILED " if problems else "ok     ") + name)
        for problem in problems:
            print("    " + problem.rstrip().replace("\n", "\n    "))
    target = os.environ.get("GTEST_OUTPUT", "")
    if target.startswith("xml:") and target.endswith("/"):
        write_xml(target[len("xml:") :] + "cases.xml", results)
    failed = sum(1 for _, problems in results if problems)
    print(f"{len(results) - failed} passed, {failed} failed in {time.monotonic() - start:.1f} s")
    sys.exit(1 if failed or not results else 0)


if __name__ == "__main__":
    main()
