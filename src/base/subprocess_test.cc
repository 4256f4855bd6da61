#include "base/subprocess.h"

#include <gtest/gtest.h>

#include <chrono>

namespace haypile {
namespace {

SubprocessSpec Shell(const std::string& script) {
  SubprocessSpec spec;
  spec.argv = {"sh", "-c", script};
  return spec;
}

TEST(Subprocess, CapturesBothStreamsAndTheExitStatus) {
  const auto result = RunSubprocess(Shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->exit_status, 7);
  EXPECT_EQ(result->output, "out\n");
  EXPECT_EQ(result->error_output, "err\n");
}

TEST(Subprocess, ArgumentsAreNotTouchedByAShell) {
  SubprocessSpec spec;
  spec.argv = {"printf", "%s|", "$HOME", "a b", "", "'; exit 1 #"};
  EXPECT_EQ(RunSubprocess(spec)->output, "$HOME|a b||'; exit 1 #|");
}

TEST(Subprocess, EnvironmentIsAddedAndInputIsEmpty) {
  SubprocessSpec spec = Shell("cat; echo \"$HAYPILE_SUBPROCESS_TEST:${PATH:+path}\"");
  spec.environment = {{"HAYPILE_SUBPROCESS_TEST", "x=y"}};
  EXPECT_EQ(RunSubprocess(spec)->output, "x=y:path\n");
}

TEST(Subprocess, LargeOutputOnBothStreamsKeepsTheLastBytes) {
  SubprocessSpec spec = Shell("i=0; while [ $i -lt 20000 ]; do echo line$i; echo err$i >&2; i=$((i+1)); done");
  spec.capture_limit_bytes = 1000;
  const auto result = RunSubprocess(spec);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output.size(), 1000u);
  EXPECT_TRUE(result->output.ends_with("line19999\n"));
  EXPECT_TRUE(result->error_output.ends_with("err19999\n"));
}

TEST(Subprocess, ASignalIsAnExitStatus) { EXPECT_EQ(RunSubprocess(Shell("kill -9 $$"))->exit_status, 137); }

TEST(Subprocess, MissingProgramIsNotFound) {
  SubprocessSpec spec;
  spec.argv = {"haypile-no-such-program"};
  EXPECT_EQ(RunSubprocess(spec).error().code(), ErrorCode::kNotFound);
}

TEST(Subprocess, TimeLimitEndsTheWholeGroup) {
  const auto start = std::chrono::steady_clock::now();
  SubprocessSpec spec = Shell("sleep 60 & sleep 60");
  spec.time_limit_seconds = 0.3;
  const auto result = RunSubprocess(spec);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kIo);
  EXPECT_NE(result.error().message().find("longer than"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Subprocess, AGrandchildThatKeepsThePipeIsNotWaitedFor) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = RunSubprocess(Shell("sleep 30 & echo done"));
  EXPECT_EQ(result->output, "done\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(LastLines, SkipsBlankLines) {
  EXPECT_EQ(LastLines("a\nb\n\nc\n \n", 2), "b\nc");
  EXPECT_EQ(LastLines("a", 5), "a");
  EXPECT_EQ(LastLines("\n\n", 5), "");
}

}  // namespace
}  // namespace haypile
