#!/usr/bin/env python3
"""Holds `haypile plan --json` to its published schema, and the plans to what engines printed (tools/plan_score).

usage: plan_test.py --haypile PROGRAM
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs/schemas/haypile.plan-1.schema.json"
TIME_LIMIT_SECONDS = 300
TYPES = {"string": str, "integer": int, "number": (int, float), "object": dict, "array": list, "null": type(None),
         "boolean": bool}
SILENT = {"$schema", "$id", "$defs", "title", "description", "additionalProperties"}

# Every engine, every kind of answer: with and without a device, refused, solved, with a drafter.
RUNS = [
    "qwen3-32b --gpu H200 --gpu-memory-utilization 0.92 --overhead 6g --max-model-len 32768",
    "qwen3-8b --kv-cache-memory-bytes 8G --kv-cache-dtype auto,fp8,nvfp4",
    "qwen3.5-27b --kv-cache-memory-bytes 8.5g --max-model-len 98304 --speculative mtp::1",
    "qwen3-32b --kv-cache-memory-bytes 1g --max-model-len 32768 --kv-cache-dtype auto",
    "deepseek-v3 --gpu H200 --gpu-count 8 --weights-dtype fp8",
    "llama-3.1-8b --gpu H100 --sequence-length 4000 --solve --load 500",
    "qwen3.5-27b --engine sglang --gpu RTX-PRO-6000 --gpu-count 2",
    "llama-3.1-8b --engine trtllm --gpu B200",
    "llama-3.1-8b --engine llamacpp -c 16384 -np 4 -ctk q8_0 -ctv q4_0",
    "smollm2-135m --engine haypile --kv-cache-memory-bytes 256MiB",
    "smollm2-135m --device cpu --kv-cache-memory-bytes 268435456",
]


class Checker:
    """The part of JSON Schema that the project's schemas use; any other keyword is a breach."""

    def __init__(self, root):
        self.root = root
        self.breaches = []

    def check(self, schema, value, path="$"):
        for keyword, rule in schema.items():
            if keyword == "type":
                self.check_type(rule, value, path)
            elif keyword == "enum":
                self.expect(value in rule, path, f"is not one of {rule}")
            elif keyword == "properties":
                self.check_properties(schema, value, path)
            elif keyword == "required":
                for name in rule:
                    self.expect(not isinstance(value, dict) or name in value, path, f"lacks {name}")
            elif keyword == "items":
                for i, item in enumerate(value if isinstance(value, list) else []):
                    self.check(rule, item, f"{path}[{i}]")
            elif keyword == "minimum":
                self.expect(not isinstance(value, (int, float)) or value >= rule, path, f"is below {rule}")
            elif keyword == "$ref":
                self.check(self.root["$defs"][rule.rsplit("/", 1)[1]], value, path)
            else:
                self.expect(keyword in SILENT, path, f"keyword {keyword} is not known to this check")

    def check_type(self, rule, value, path):
        names = rule if isinstance(rule, list) else [rule]
        fits = any(isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name != "boolean") for name in names)
        self.expect(fits, path, f"is not of type {rule}: {value!r:.60}")

    def check_properties(self, schema, value, path):
        for name, member in value.items() if isinstance(value, dict) else ():
            if name in schema["properties"]:
                self.check(schema["properties"][name], member, f"{path}.{name}")
            else:
                self.expect(schema.get("additionalProperties") is not False, path, f"has the unknown field {name}")

    def expect(self, holds, path, what):
        if not holds:
            self.breaches.append(f"{path}: {what}")


def breaches_of_document(document, schema):
    checker = Checker(schema)
    checker.check(schema, document)
    yield from checker.breaches
    if document["memory"]:
        total = sum(term["bytes"] for term in document["memory"]["terms"])
        if total != document["memory"]["pool_bytes"]:
            yield f"the terms add up to {total}, not {document['memory']['pool_bytes']}"
    for plan in document["plans"]:
        shares = sum(share["bytes"] for share in plan["shares"])
        if plan["shares"] and plan["refused"] is None and shares != plan["pool_bytes"]:
            yield f"{plan['kv_cache_dtype']}: the shares add up to {shares}, not {plan['pool_bytes']}"


def test_schema(program):
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for run in RUNS:
        done = subprocess.run([program, "plan", *run.split(), "--json"], cwd=ROOT, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
        if done.returncode != 0:
            yield f"schema: {run}", [f"exit status {done.returncode}: {done.stderr.strip()}"]
        else:
            yield f"schema: {run}", list(breaches_of_document(json.loads(done.stdout), schema))


def test_checker_finds_breaches():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    checker = Checker(schema)
    checker.check(schema, {"schema": "haypile.plan/2", "plans": [{"engine": 1}], "more": True})
    found = "\n".join(checker.breaches)
    wanted = ["$.schema: is not one of", "$.plans[0].engine: is not of type", "$.plans[0]: lacks pool_tokens",
              "has the unknown field more"]
    yield "the check finds breaches", [f"did not find '{want}'" for want in wanted if want not in found]


def test_standard_input(program):
    config = (ROOT / "src/planner/testdata/configs/vllm-pools/llama-8b.json").read_text(encoding="utf-8")
    done = subprocess.run([program, "plan", "-", "--kv-cache-memory-bytes", "4294967296", "--max-model-len", "8192",
                           "--kv-cache-dtype", "auto", "--json"], input=config, capture_output=True, text=True,
                          timeout=TIME_LIMIT_SECONDS)
    tokens = json.loads(done.stdout)["plans"][0]["pool_tokens"] if done.returncode == 0 else done.stderr
    yield "config.json on standard input", [] if tokens == 32768 else [f"{tokens}, expected 32768"]


def test_score(program):
    for table in ("vllm", "llamacpp", "logs"):
        done = subprocess.run([sys.executable, "-B", str(ROOT / "tools/plan_score"), "--haypile", program, table],
                              capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
        yield f"score: {table}", [] if done.returncode == 0 else [done.stdout + done.stderr]


def write_xml(target, results):
    """The report that test programs write for GTEST_OUTPUT=xml:FOLDER/."""
    suite = ElementTree.Element("testsuite", name="plan_test")
    for name, problems in results:
        node = ElementTree.SubElement(suite, "testcase", classname="plan", name=name, status="run")
        if problems:
            ElementTree.SubElement(node, "failure", message="\n".join(problems))
    ElementTree.ElementTree(suite).write(target, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haypile", required=True)
    program = str(pathlib.Path(parser.parse_args().haypile).resolve())
    results = [*test_schema(program), *test_checker_finds_breaches(), *test_standard_input(program), *test_score(program)]
    for name, problems in results:
        print(("FAILED " if problems else "ok     ") + name)
        for problem in problems:
            print("    " + problem.rstrip().replace("\n", "\n    "))
    target = os.environ.get("GTEST_OUTPUT", "")
    if target.startswith("xml:") and target.endswith("/"):
        write_xml(target[len("xml:") :] + "plan_test.xml", results)
    failed = sum(1 for _, problems in results if problems)
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
