#!/usr/bin/env python3
"""`haypile bench` on models of tools/make_random_gguf, the benches of the kernels, and tools/bench_peer beside a stand-in for llama-bench.

usage: bench_test.py --haypile PROGRAM --kernels-bench PROGRAM
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import plan_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs/schemas/haypile.bench-1.schema.json"
TIME_LIMIT_SECONDS = 120
PROGRAM = KERNELS_BENCH = ""
# Prints what llama-bench prints for its arguments: 1000 tokens per second of prompt and 10 of generation, half of that
# with a cache of q8_0, and writes down how it was called.
STAND_IN = """#!/usr/bin/env python3
import json, os, pathlib, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
log = pathlib.Path(__file__).with_suffix(".log")
with open(log, "a") as file:
    file.write(json.dumps([given, os.environ.get("OMP_PROC_BIND")]) + "\\n")
if given["-m"].endswith("missing.gguf"):
    print("main: error: failed to load model", file=sys.stderr)
    sys.exit(1)
slow = 0.5 if given["-ctk"] == "q8_0" else 1.0
rows = []
for prompt, generated, speed in ((int(given["-p"]), 0, 1000.0), (0, int(given["-n"]), 10.0)):
    if prompt + generated > 0:
        rows.append({"build_commit": "0123abc", "build_number": 7, "cpu_info": "cpu", "n_prompt": prompt,
                     "n_gen": generated, "n_depth": DEPTH, "type_k": given["-ctk"], "type_v": given["-ctv"],
                     "samples_ts": [slow * speed] * int(given["-r"])})
print(json.dumps(rows))
"""


def run(command, folder):
    return subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=TIME_LIMIT_SECONDS)


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="haypile_bench_")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def make(self, shape, *more):
        done = run([ROOT / "tools/make_random_gguf", shape, f"{shape}.gguf", "--layers", 1, "--vocabulary", 300, *more],
                   self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return f"{shape}.gguf"


class RandomModels(Folder):
    def test_every_shape_loads_and_is_timed(self):
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
        for shape in ("qwen3-0.6b", "smollm2-135m"):
            model = self.make(shape, "--context", 300)
            done = run([PROGRAM, "bench", model, "--kv-cache-dtype", "fp8,bf16", "--depth", "33,0", "--prompt-tokens",
                        20, "--decode-tokens", 3, "--repeats", 2, "--threads", 1, "--json", "-q"], self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            result = json.loads(done.stdout)
            checker = plan_test.Checker(schema)
            checker.check(schema, result)
            self.assertEqual(checker.breaches, [])
            self.assertEqual([run["kv_cache_dtype"] for run in result["runs"]], ["fp8_e4m3", "bf16"])
            for found in result["runs"]:
                self.assertEqual([point["depth"] for point in found["depths"]], [0, 33])
                for point in found["depths"]:
                    for phase in ("prefill", "decode"):
                        self.assertEqual(len(point[phase]["samples"]), 2)
                        self.assertGreater(point[phase]["tokens_per_s"], 0)

    def test_same_seed_same_bytes(self):
        first = (self.folder / self.make("smollm2-135m")).read_bytes()
        self.assertEqual(first, (self.folder / self.make("smollm2-135m")).read_bytes())
        self.assertNotEqual(first, (self.folder / self.make("smollm2-135m", "--seed", 1)).read_bytes())

    def test_text_says_what_json_says_and_leaves_out_what_is_not_timed(self):
        model = self.make("smollm2-135m")
        done = run([PROGRAM, "bench", model, "--kv-cache-dtype", "nvfp4", "--prompt-tokens", 0, "--decode-tokens", 2],
                   self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^bench: .*nvfp4: the first pass\n(bench: .*\n)*bench: done in ")
        self.assertRegex(done.stdout, r"nvfp4 +0 +- +[0-9.]+ \+- [0-9.]+")


class Kernels(Folder):
    def bench(self, *flags):
        return run([KERNELS_BENCH, "--benchmark_filter=decode/(fp8_e4m3/|q8_0[+])", "--benchmark_min_time=0.01",
                    "--benchmark_format=json", "--context=70", "--threads=1", *flags], self.folder)

    def test_json_tells_machine_options_and_rates(self):
        for flags, suffix, tokens, heads in (
            (["--head_dim=64", "--kv_heads=3", "--pages=ordered"], "/D64/heads3/group3/70", 71, 3),
            (["--head_dim=32,64", "--kv_heads=2", "--group=1", "--sequences=3", "--queries=4"],
             "/D64/heads2/group1/70x3/rows4", 3 * 74, 2),
        ):
            done = self.bench(*flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual(result["context"]["options"], " ".join(["--context=70", "--threads=1", *flags]))
            self.assertIn(result["context"]["isa"], ("scalar", "avx2", "avx512", "avx512_bf16", "amx", "neon"))
            self.assertTrue(result["context"]["cpu"])
            self.assertIn("commit", result["context"])
            found = {row["name"].removesuffix("/real_time"): row for row in result["benchmarks"]}
            self.assertEqual(len(found), 2 * len(flags[0].split(",")))
            row = found["decode/fp8_e4m3" + suffix]
            # FP8 has one byte an element, and only whole tiles of 16 tokens differ.
            self.assertAlmostEqual(row["Gelements/s"] / row["GB/s"], 1.0, places=6)
            self.assertAlmostEqual(row["share"] * row["read_GB/s"] / row["GB/s"], 1.0, places=6)
            seconds = row["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[row["time_unit"]]
            self.assertAlmostEqual(row["Gelements/s"] * seconds * 1e9 / (2 * heads * 64 * tokens), 1.0, delta=0.01)

    def test_wrong_flags_are_named(self):
        for flag in ("--kv_heads=0", "--head_dim=64,48", "--pages=random", "--context=-1", "--threads=many", "--head=1"):
            done = self.bench(flag)
            self.assertEqual((done.returncode, done.stdout), (2, ""), flag)
            self.assertIn(flag, done.stderr)


class Binding(Folder):
    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_openmp_does_not_bind_all_threads_to_one_core(self):
        model = self.make("smollm2-135m")
        cores = sorted(os.sched_getaffinity(0))[:2]
        environment = dict(os.environ, OMP_PROC_BIND="true", OMP_PLACES=",".join(f"{{{core}}}" for core in cores))
        command = [PROGRAM, "bench", model, "--depth", "0", "--decode-tokens", "200", "--repeats", "1000", "--threads", "2"]
        running = subprocess.Popen([str(part) for part in command], cwd=self.folder, env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            until = time.monotonic() + TIME_LIMIT_SECONDS
            threads = []
            while len(threads) < 2 and time.monotonic() < until and running.poll() is None:
                threads = [int(task) for task in os.listdir(f"/proc/{running.pid}/task")]
                time.sleep(0.05)
            self.assertGreaterEqual(len(threads), 2)
            for thread in threads:
                self.assertEqual(sorted(os.sched_getaffinity(thread)), cores)
        finally:
            running.kill()
            running.wait()


class Peer(Folder):
    def peer(self, model, *more, depth="int(given['-d'])"):
        stand_in = self.folder / "llama-bench"
        stand_in.write_text(STAND_IN.replace("DEPTH", depth), encoding="utf-8")
        stand_in.chmod(0o755)
        return run([ROOT / "tools/bench_peer", model, "--llama-bench", stand_in, "--haypile", PROGRAM,
                    "--prompt-tokens", 8, "--decode-tokens", 2, "--threads", 1, *more], self.folder)

    def test_ratios_of_both_at_every_depth(self):
        model = self.make("smollm2-135m")
        done = self.peer(model, "--depth", "0,16", "--pairs", "fp8=q8_0,fp8=f16", "--rounds", 2, "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assertEqual(result["peer"], {"build_commit": "0123abc", "build_number": 7, "cpu_info": "cpu"})
        self.assertEqual([(row["depth"], row["haypile_dtype"], row["peer_dtype"], row["phase"]) for row in
                          result["rows"]], [(depth, "fp8", peer, phase) for depth in (0, 16)
                                            for peer in ("q8_0", "f16") for phase in ("prefill", "decode")])
        for row in result["rows"]:
            expected = (1000 if row["phase"] == "prefill" else 10) * (0.5 if row["peer_dtype"] == "q8_0" else 1)
            self.assertEqual(row["peer"]["samples"], [expected] * 2)
            self.assertEqual(len(row["haypile"]["samples"]), 2)
            self.assertAlmostEqual(row["ratio"], row["haypile"]["tokens_per_s"] / expected)
            self.assertIn(f"{row['ratio']:.2f}", done.stdout)
        calls = [json.loads(line) for line in (self.folder / "llama-bench.log").read_text().splitlines()]
        # Every dtype once a round and depth, in turn.
        self.assertEqual([(given["-d"], given["-ctk"]) for given, _ in calls],
                         [(depth, dtype) for depth in ("0", "16") for _ in range(2) for dtype in ("q8_0", "f16")])
        self.assertEqual({(given["-t"], given["-fa"], bound) for given, bound in calls}, {("1", "1", "true")})

    def failure(self, done, *parts):
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_what_fails_is_named(self):
        self.make("smollm2-135m")
        self.failure(self.peer("missing.gguf", "--rounds", 1), "bench_peer: error: ", "missing.gguf", "left with")
        self.failure(run([ROOT / "tools/bench_peer", "smollm2-135m.gguf", "--llama-bench", "/nowhere/llama-bench",
                          "--haypile", PROGRAM, "--prompt-tokens", 0, "--decode-tokens", 1, "--rounds", 1],
                         self.folder), "cannot run '/nowhere/llama-bench'")
        self.failure(self.peer("smollm2-135m.gguf", "--depth", 16, "--rounds", 1, depth="0"), "-d is needed")


def main():
    global PROGRAM, KERNELS_BENCH
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--haypile", required=True)
    parser.add_argument("--kernels-bench", required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAM, KERNELS_BENCH = (str(pathlib.Path(path).resolve()) for path in (arguments.haypile, arguments.kernels_bench))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
