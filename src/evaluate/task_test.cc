#include "evaluate/task.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "evaluate/scripted_generator.h"

namespace haypile {
namespace {

// Solves the last "What is A op B?" of a prompt.
std::string Solve(const std::string& prompt) {
  const std::string question = prompt.substr(prompt.rfind("What is ") + 8);
  char* end = nullptr;
  const long a = std::strtol(question.c_str(), &end, 10);
  const char operation = end[1];
  const long b = std::strtol(end + 2, nullptr, 10);
  const long result = operation == '+' ? a + b : operation == '-' ? a - b : operation == '*' ? a * b : a / b;
  return fmt::format(" {}\n\nQuestion", result);
}

TEST(IntegerAnswer, ReadsTheFirstIntegerOfTheFirstLine) {
  EXPECT_TRUE(IntegerAnswerPasses(" 42\n\nQuestion: 7", 42));
  EXPECT_TRUE(IntegerAnswerPasses("\nThe answer is 42.", 42));
  EXPECT_TRUE(IntegerAnswerPasses("1,234", 1234));
  EXPECT_TRUE(IntegerAnswerPasses("-5", -5));
  EXPECT_FALSE(IntegerAnswerPasses("-5", 5));
  EXPECT_FALSE(IntegerAnswerPasses("421", 42));
  EXPECT_FALSE(IntegerAnswerPasses("42.5", 42));
  EXPECT_FALSE(IntegerAnswerPasses("none\n42", 42));
  EXPECT_FALSE(IntegerAnswerPasses("", 0));
  EXPECT_FALSE(IntegerAnswerPasses("99999999999999999999999", 9));
}

TEST(ToolCall, ComparesNameKeysAndValues) {
  const char* expected = R"({"name":"set_light","arguments":{"room":"hall","level":40}})";
  EXPECT_TRUE(ToolCallPasses(R"( {"name": "set_light", "arguments": {"room": "hall", "level": 40}}
Request: more {)",
                             expected));
  EXPECT_TRUE(ToolCallPasses(R"(```json
{"arguments": {"level": 40.0, "room": "hall"}, "name": "set_light"}```)",
                             expected));
  EXPECT_FALSE(ToolCallPasses(R"({"name": "set_light", "arguments": {"room": "hall", "level": 41}})", expected));
  EXPECT_FALSE(ToolCallPasses(R"({"name": "set_light", "arguments": {"room": "hall", "level": "40"}})", expected));
  EXPECT_FALSE(ToolCallPasses(R"({"name": "set_light", "arguments": {"room": "hall"}})", expected));
  EXPECT_FALSE(
      ToolCallPasses(R"({"name": "set_light", "arguments": {"room": "hall", "level": 40, "x": 1}})", expected));
  EXPECT_FALSE(ToolCallPasses(R"({"name": "set_light", "arguments": ["hall", 40]})", expected));
  EXPECT_FALSE(ToolCallPasses(R"({"name": "set_light", "arguments": {"room": "hall", "level": 40})", expected));
  EXPECT_FALSE(ToolCallPasses("set_light(hall, 40)", expected));
  // A brace within a string does not end the object.
  EXPECT_TRUE(ToolCallPasses(R"({"name":"send","arguments":{"text":"a } \" b"}})",
                             R"({"name":"send","arguments":{"text":"a } \" b"}})"));
}

TEST(Tasks, ASolverPassesAllAndAParrotNone) {
  const TextCodec codec = ByteCodec(true);
  ScriptedGenerator solver(Solve), parrot([](const std::string&) { return " 1000000"; });
  for (TaskForm form : {TaskForm::kCompletion, TaskForm::kChat}) {
    const Task task = ArithmeticTask(form);
    EXPECT_EQ(task.items.size(), 20u);
    EXPECT_EQ(RunTask(solver, codec, task).value(), std::vector<bool>(20, true));
    EXPECT_EQ(RunTask(parrot, codec, task).value(), std::vector<bool>(20, false));
  }
}

TEST(Tasks, EveryToolRequestHoldsItsAnswer) {
  // What the shots show, applied by hand to each kind of request.
  ScriptedGenerator writer([](const std::string& prompt) -> std::string {
    const size_t start = prompt.rfind("Request: ") + 9;
    const std::string request = prompt.substr(start, prompt.find('\n', start) - start);
    const auto between = [&](const std::string& from, const std::string& to) {
      const size_t begin = request.find(from) + from.size();
      return request.substr(begin, to.empty() ? std::string::npos : request.find(to, begin) - begin);
    };
    if (request.starts_with("Set"))
      return R"({"name":"set_light","arguments":{"room":")" + between("in the ", " to") + R"(","level":)" +
             between(" to ", ".") + "}}";
    if (request.starts_with("Start"))
      return R"({"name":"set_timer","arguments":{"minutes":)" + between("of ", " ") + "}}";
    if (request.starts_with("Send"))
      return R"({"name":"send_message","arguments":{"to":")" + between("Send ", " the message") + R"(","text":")" +
             between("message: ", "") + "\"}}";
    return R"({"name":"get_weather","arguments":{"city":")" + between("be in ", " for") + R"(","days":)" +
           between(" for ", " ") + "}}";
  });
  // Bytes are tokens here, so the longest call needs more of them than a real model's.
  for (TaskForm form : {TaskForm::kCompletion, TaskForm::kChat}) {
    Task task = ToolCallTask(form);
    task.max_new_tokens = 200;
    EXPECT_EQ(RunTask(writer, ByteCodec(true), task).value(), std::vector<bool>(12, true));
  }
}

TEST(Tasks, ABaseModelSkipsChatTasksByName) {
  std::vector<SkippedPart> skipped;
  EXPECT_EQ(TasksFor(ByteCodec(true), skipped).size(), 4u);
  EXPECT_TRUE(skipped.empty());
  const std::vector<Task> tasks = TasksFor(ByteCodec(false), skipped);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].name, "arithmetic");
  EXPECT_EQ(tasks[1].name, "tool_call");
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_EQ(skipped[0].what, "arithmetic_chat");
  EXPECT_EQ(skipped[1].what, "tool_call_chat");
}

TEST(Tasks, WhatTellsNothingIsMarked) {
  Task task = ArithmeticTask(TaskForm::kCompletion);
  task.items.resize(3);
  const std::vector<bool> none = {false, false, false}, some = {true, false, true}, all = {true, true, true};
  EXPECT_TRUE(SummarizeTask(task, none, some).tells_nothing);
  EXPECT_TRUE(SummarizeTask(task, all, all).tells_nothing);
  EXPECT_TRUE(SummarizeTask(task, all, all).reason.has_value());
  EXPECT_FALSE(SummarizeTask(task, all, some).tells_nothing);
  const TaskResult result = SummarizeTask(task, some, none);
  EXPECT_FALSE(result.tells_nothing);
  EXPECT_EQ(result.passed, 0);
  EXPECT_EQ(result.baseline_passed, 2);
  EXPECT_EQ(result.name, "arithmetic");
}

TEST(Tasks, PairedCountsSeeBothDirections) {
  const PairedCounts counts = CountPairs({true, true, false, false}, {true, false, true, false});
  EXPECT_EQ(counts.lost, 1);
  EXPECT_EQ(counts.gained, 1);
  EXPECT_EQ(counts.baseline_passed, 2);
  EXPECT_EQ(counts.candidate_passed, 2);
}

TEST(Tasks, AnEnginesErrorNamesTheTask) {
  FailingGenerator failing;
  const auto result = RunTask(failing, ByteCodec(false), ToolCallTask(TaskForm::kCompletion));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("tool_call"), std::string::npos);
}

}  // namespace
}  // namespace haypile
