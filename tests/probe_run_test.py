#!/usr/bin/env python3
"""Holds `haypile doctor --probe` to its promises as a process, against a server on this machine: what is sent, text and
JSON against the published schema, the key from the environment, Ctrl-C while the server thinks.

usage: probe_run_test.py --haypile PROGRAM
"""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import breach_tests
import plan_test
import tiny_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs/schemas/haypile.doctor-1.schema.json"
TIME_LIMIT_SECONDS = 120
EXIT_NETWORK, EXIT_INTERRUPTED = 8, 130
KEY = "a-key"
# What a model without a clue of 257 tokens says of each: no run of a real model is like it.
LOG_PROB = -5.549
LOG = (
    "(EngineCore pid=1) INFO 11-29 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.32.0) with config: model='m', "
    "dtype=torch.bfloat16, max_seq_len=256, tensor_parallel_size=1, quantization=None, kv_cache_dtype=fp8_e5m2\n"
)


class Server:
    """Serves one model as vLLM does; with `hangs` it takes the question and never answers."""

    def __init__(self, hangs=False):
        outer = self
        self.asked, self.done = [], threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                if self.headers.get("Authorization") != "Bearer " + KEY:
                    self.answer(401, {"error": "Unauthorized"})
                else:
                    self.answer(200, {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 256}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, body))
                if hangs:
                    outer.done.wait(TIME_LIMIT_SECONDS)
                    return
                ids = body["prompt"] + [3]
                lists = {"token_logprobs": [None] + [LOG_PROB] * (len(ids) - 1),
                         "tokens": [f"token_id:{token}" for token in ids]}
                self.answer(200, {"choices": [{"logprobs": lists}], "usage": {"prompt_tokens": len(ids) - 1}})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.set()
        self.server.shutdown()


class Bench:
    def __init__(self, program, folder):
        self.program = str(pathlib.Path(program).resolve())
        self.folder = pathlib.Path(folder)
        tiny_model.write_folder(self.folder / "model", {"kv_scales": "0.37"})

    def start(self, url, *arguments, key=KEY):
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAYPILE_")}
        if key:
            env["HAYPILE_API_KEY"] = key
        return subprocess.Popen([self.program, "doctor", "--probe", url, "--checkpoint", "model", *arguments],
                                cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, url, *arguments, key=KEY):
        process = self.start(url, *arguments, key=key)
        out, err = process.communicate(timeout=TIME_LIMIT_SECONDS)
        return process.returncode, out, err


class DoctorChecker(plan_test.Checker):
    """Knows two more keywords, which the doctor's schema uses."""

    def check(self, schema, value, path="$"):
        known = dict(schema)
        if "const" in known:
            self.expect(value == known.pop("const"), path, "is not the constant")
        least = known.pop("minLength", 0)
        self.expect(not isinstance(value, str) or len(value) >= least, path, "is too short")
        super().check(known, value, path)


def test_json_and_text(bench):
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    with Server() as server:
        status, out, err = bench.run(server.url, "--json", "-q")
        if status != 0 or err:
            yield f"--json: exit status {status}: {err.strip()}"
            return
        document = json.loads(out)
        checker = DoctorChecker(schema)
        checker.check(schema, document)
        yield from checker.breaches
        probe = document["probe"]
        if (probe["verdict"], probe["doubt"], probe["tokens"]) != ("cannot_tell", "other_model", 255):
            yield f"verdict {probe['verdict']}, doubt {probe['doubt']}, {probe['tokens']} tokens"
        caches = [run["cache"] for run in probe["runs"]]
        if abs(probe["server_nll"] + LOG_PROB) > 1e-9 or caches != ["bf16", "file", "one", "file_cut", "one_cut"]:
            yield f"the figures are not those that were sent: {probe['server_nll']}, {probe['runs']}"
        path, body = server.asked[0]
        if path != "/v1/completions" or len(body["prompt"]) != 255 or body["echo"] is not True:
            yield f"asked {path} with {len(body['prompt'])} tokens"
        status, out, err = bench.run(server.url + "/v1")
        for words in ("probe: " + server.url + ", vllm, model m; 255 tokens", "[unknown] probe.cannot_tell",
                      "fp8_e4m3 at the file's scales", "--checkpoint model"):
            if words not in " ".join(out.split()):
                yield f"the text lacks '{words}'"
        if status != 0 or "probe:" not in err:
            yield f"exit status {status}, progress '{err.strip()}'"


def test_log_names_the_dtype_and_the_checklist_the_verdict(bench):
    (bench.folder / "start.log").write_text(LOG, encoding="utf-8")
    with Server() as server:
        status, out, err = bench.run(server.url, "--log", "start.log", "--json", "-q")
    if status != 0:
        yield f"exit status {status}: {err.strip()}"
        return
    document = json.loads(out)
    dtype = document["probe"]["kv_cache_dtype"]
    if (dtype["compared"], dtype["source"]) != ("fp8_e5m2", "log"):
        yield f"dtype {dtype}"
    if document["findings"][0]["id"] != "probe.cannot_tell" or not document["checklist"]:
        yield "the probe's finding is not the first, or the checklist is missing"


def test_key(bench):
    with Server() as server:
        status, out, err = bench.run(server.url, key=None)
        if status != EXIT_NETWORK or out or "HAYPILE_API_KEY" not in err:
            yield f"without a key: exit status {status}: {err.strip()}"
        status, _, err = bench.run(server.url, "-q", "--api-key", KEY, key=None)
        if status != 0:
            yield f"--api-key: exit status {status}: {err.strip()}"


def test_interrupted_while_the_server_thinks(bench):
    with Server(hangs=True) as server:
        process = bench.start(server.url, "-q")
        end = time.monotonic() + TIME_LIMIT_SECONDS
        while time.monotonic() < end and process.poll() is None and not server.asked:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIME_LIMIT_SECONDS)
    if process.returncode != EXIT_INTERRUPTED or out or len(err.splitlines()) != 1:
        yield f"exit status {process.returncode}, output '{out}', message '{err}'"


if __name__ == "__main__":
    sys.exit(breach_tests.main(__doc__, Bench, (
        test_json_and_text, test_log_names_the_dtype_and_the_checklist_the_verdict, test_key,
        test_interrupted_while_the_server_thinks)))
