#!/usr/bin/env python3
"""Tests of the checks in tools/: each finds the breach it is for in a tiny tree, and nothing in a good one."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True

import check_layers
import check_levels
import check_sizes
import count_tests
import run_cases


class Tree(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def module(self, name, *deps):
        deps_text = " DEPS " + " ".join(deps) if deps else ""
        self.write(f"src/{name}/CMakeLists.txt", f"haypile_module({name}{deps_text} LIBS fmt::fmt)\n")


class Layers(Tree):
    def check(self):
        return list(check_layers.check(self.root))

    def test_good_tree(self):
        self.module("base")
        self.module("spec", "base")
        self.write("src/spec/a.h", '#include "base/b.h"\n#include "spec/c.h"\n#include <vector>\n')
        self.write("apps/haypile/main.cc", '#include "spec/a.h"\n')
        self.assertEqual(self.check(), [])

    def test_undeclared_edge_names_file_and_line(self):
        self.module("base")
        self.module("spec", "base")
        self.write("src/base/up.cc", '// up\n#include "spec/a.h"\n')
        self.assertEqual(self.check(), ["src/base/up.cc:2: base includes spec, which is not in its DEPS"])

    def test_cycle(self):
        self.module("a", "b")
        self.module("b", "c")
        self.module("c", "a")
        self.assertEqual(self.check(), ["cycle: a -> b -> c -> a"])

    def test_include_without_module_and_unknown_dep(self):
        self.module("a", "nothing")
        self.write("src/a/x.cc", '#include "x.h"\n#include "../b/y.h"\n')
        found = "\n".join(self.check())
        self.assertIn("DEPS names nothing", found)
        self.assertIn('x.cc:1: "x.h" does not start with a module', found)
        self.assertIn('x.cc:2: "../b/y.h" does not start with a module', found)


class Sizes(Tree):
    def check(self):
        return list(check_sizes.check(self.root))

    @staticmethod
    def function(lines, head="int F(int x)"):
        return head + " {\n" + "  x = (x > 0) ? x : 0;\n" * (lines - 2) + "}\n"

    def test_limits(self):
        self.write("src/a/good.cc", "namespace a {\n" + self.function(79) + "}\n")
        self.write("src/kernels/good.cc", self.function(119))
        self.assertEqual(self.check(), [])
        self.write("src/a/bad.cc", "\nnamespace a {\n" + self.function(80) + "}\n")
        self.write("src/kernels/bad.cc", self.function(120))
        self.write("src/a/long.cc", "// x\n" * 800)
        self.assertEqual(
            self.check(),
            [
                "src/a/bad.cc:3: F has 80 lines; functions here stay under 80",
                "src/a/long.cc: 800 lines; files stay under 800",
                "src/kernels/bad.cc:1: F has 120 lines; functions here stay under 120",
            ],
        )

    def test_braces_in_text_and_members(self):
        text = 'class A : public B {\n public:\n  A() : x_{1} {}\n  std::string F() const { return "}{("; }\n'
        text += '  // } {\n  char c = \'{\';\n};\nconstexpr int kTable[] = {\n1, // )\n2};\nTEST(A, B) {\n  if (x) {\n  }\n}\n'
        text += "template <typename T>\nauto G(T t) -> int {\n  return [&] { return 1; }();\n}\n"
        found = {name: count for name, _, count in check_sizes.cpp_functions(text)}
        self.assertEqual(found, {"A": 1, "F": 1, "TEST": 4, "G": 4})


class WeakSymbols(Tree):
    def check(self, source):
        path = self.write("kernel_avx2.cc", source)
        subprocess.run(["g++", "-O0", "-c", path, "-o", self.root / "kernel_avx2.cc.o"], check=True)
        return subprocess.run([ROOT / "tools/check_weak_symbols", self.root], capture_output=True, text=True)

    def test_static_function_passes_and_inline_function_fails(self):
        self.assertEqual(self.check("static int F() { return 1; }\nint G() { return F(); }\n").returncode, 0)
        found = self.check("inline int Shared() { return 1; }\nint G() { return Shared(); }\n")
        self.assertEqual(found.returncode, 1)
        self.assertIn("weak function Shared()", found.stdout)


class CountTests(Tree):
    def test_cases_programs_and_crashes(self):
        self.write(
            "one_test.xml",
            '<testsuites><testsuite><testcase classname="A" name="a" status="run"/>'
            '<testcase classname="A" name="b" status="run"><failure message="x"/></testcase>'
            '<testcase classname="A" name="c" status="run" result="skipped"><skipped/></testcase>'
            '<testcase classname="A" name="e" status="run" result="skipped">'
            '<skipped message="/a_test.cc:1&#x0A;lacks avx512"/></testcase>'
            '<testcase classname="A" name="d" status="notrun"/></testsuite></testsuites>',
        )
        ctest = self.write(
            "ctest.xml",
            '<testsuite><testcase name="one_test" status="fail"><failure message=""/></testcase>'
            '<testcase name="script" status="run"/><testcase name="crash_test" status="fail"/>'
            '<testcase name="unbuilt_test" status="notrun"><skipped message="Unable to find executable"/></testcase>'
            '<testcase name="not_here" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase></testsuite>',
        )
        found = list(count_tests.outcomes(ctest, self.root))
        expected = [("A.a", "passed"), ("A.b", "failed"), ("A.c", ("skipped", "no reason given"))]
        expected += [("A.e", ("skipped", "lacks avx512"))]
        expected += [("script", "passed"), ("crash_test (did not run to its end)", "failed")]
        expected += [("unbuilt_test (did not run to its end)", "failed"), ("not_here", ("skipped", "no reason given"))]
        self.assertEqual(found, expected)


class CheckLevels(unittest.TestCase):
    AVX2 = {"avx2", "fma", "f16c", "sse2"}

    @staticmethod
    def cases(**outcomes):
        """Of each level by default: passed for scalar and avx2, skipped for the others."""
        for level in check_levels.LEVELS:
            lacks = ("skipped", f"this processor lacks {level}")
            outcome = outcomes.get(level, "passed" if level in ("scalar", "avx2") else lacks)
            yield f"Isa/LevelOfThisProcessor.IsTested/{level}", outcome
            yield f"EveryLevel/Rope.Turns/{level}", outcome

    def check(self, cases, flags=AVX2, architecture="x86_64"):
        return check_levels.check(cases, architecture, flags)

    def test_what_the_processor_lacks_is_named(self):
        breaches, report = self.check(self.cases())
        self.assertEqual(breaches, [])
        self.assertIn("run: avx2, 2 cases of its own, and those that loop over all levels", report)
        self.assertIn("not run: avx512 (this processor has no avx512bw, avx512dq, avx512f, avx512vl)", report)
        self.assertIn("not run: neon (a level of aarch64)", report)

    def test_a_level_that_the_processor_has_must_not_be_skipped(self):
        breaches, _ = self.check(self.cases(avx2=("skipped", "this processor lacks avx2")))
        self.assertIn("EveryLevel/Rope.Turns/avx2 was skipped, but this processor has avx2", breaches)
        loop = [("A.loop", ("skipped", "this processor lacks avx2"))]
        self.assertEqual(self.check([*self.cases(), *loop])[0], ["A.loop was skipped, but this processor has avx2"])
        breaches, _ = self.check(self.cases(neon="passed", avx2=("skipped", "")), set(), "aarch64")
        self.assertEqual(breaches, [])
        self.assertIn("was skipped", self.check(self.cases(), set(), "aarch64")[0][0])

    def test_a_level_that_failed_or_is_unknown_on_either_side(self):
        self.assertIn("was not run", self.check(self.cases(scalar="failed"))[0][0])
        self.assertEqual(len(self.check([])[0]), len(check_levels.LEVELS))
        breaches, _ = self.check([*self.cases(), ("Isa/LevelOfThisProcessor.IsTested/sve", "passed")])
        self.assertEqual(breaches, ["sve is a level, but tools/check_levels.py does not say what it needs"])


class RunCases(Tree):
    def run_case(self, case, program="echo out; echo err >&2; exit 3"):
        script = self.write("program", f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
        return run_cases.run_case(self.write("x.case", case), str(script), updating=False)

    def test_expectations(self):
        quiet = "echo err >&2; exit 3"
        self.assertEqual(self.run_case("run: haypile\nexit: 3\nstderr:\n| err\n", quiet), [])
        self.assertEqual(self.run_case("run: haypile\nexit: 3\nstderr has: er\n", quiet), [])
        self.assertIn("exit status 3", self.run_case("run: haypile\nexit: 2\n", quiet)[0])
        self.assertIn("stderr lacks", self.run_case("run: haypile\nexit: 3\nstderr has: other\n", quiet)[0])
        self.assertIn("expected", self.run_case("run: haypile\nexit: 3\nstderr:\n| eRR\n", quiet)[0])

    def test_a_failure_prints_one_line_and_nothing_else(self):
        self.assertIn("standard output", self.run_case("run: haypile\nexit: 3\n")[0])
        self.assertIn("one line", self.run_case("run: haypile\nexit: 3\n", "echo a >&2; echo b >&2; exit 3")[0])
        self.assertIn("died", self.run_case("run: haypile\nexit: 134\n", "echo a >&2; exit 134")[0])

    def test_files_and_arguments_reach_the_program(self):
        case = "file: a/b.txt\n| x y\nenv: HAYPILE_T=1\nrun: haypile 'a/b.txt'\nexit: 0\nstdout:\n| x y\n| 1\n"
        self.assertEqual(self.run_case(case, 'cat "$1"; echo $HAYPILE_T'), [])

    def test_update_writes_what_was_seen(self):
        script = self.write("program", "#!/bin/sh\necho seen >&2; exit 4\n")
        script.chmod(0o755)
        path = self.write("x.case", "# why\nrun: haypile\nexit: 0\n")
        self.assertEqual(run_cases.run_case(path, str(script), updating=True), [])
        self.assertEqual(path.read_text(), "# why\nrun: haypile\nexit: 4\nstderr:\n| seen\n")


if __name__ == "__main__":
    unittest.main()
