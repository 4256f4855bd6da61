#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/generator.h"
#include "evaluate/telling.h"
#include "report/compare_result.h"

namespace haypile {

// Short tasks with answers that a program can check. Each exists as a few-shot completion, which any model can be
// asked, and as a chat message, which only a model with a chat template can.
enum class TaskForm { kCompletion, kChat };

struct TaskItem {
  std::string prompt;  // completion text, or the user's message
  std::function<bool(std::string_view output)> passes;
};

struct Task {
  std::string name;  // "arithmetic", "arithmetic_chat", "tool_call", "tool_call_chat"
  TaskForm form = TaskForm::kCompletion;
  int max_new_tokens = 0;
  std::vector<TaskItem> items;
};

// Twenty sums, differences, products and number series.
Task ArithmeticTask(TaskForm form);
// Twelve requests to be written as one JSON call {"name": ..., "arguments": {...}}; name, keys and values must agree.
Task ToolCallTask(TaskForm form);

// The tasks for this model: all four, or the completions alone, with a line in `skipped` for each chat task left out.
std::vector<Task> TasksFor(const TextCodec& codec, std::vector<SkippedPart>& skipped);

// Which items pass, in the items' order. A chat task needs codec.has_chat().
Result<std::vector<bool>> RunTask(TextGenerator& generator, const TextCodec& codec, const Task& task);

// The result of a candidate beside the baseline's; vectors as RunTask returned them.
TaskResult SummarizeTask(const Task& task, const std::vector<bool>& baseline, const std::vector<bool>& candidate);

// The scorers, for tests and other tasks.
// The first integer in the first line that holds anything but blanks is `expected`; "1,234" is 1234, "7.5" is not 7.
bool IntegerAnswerPasses(std::string_view output, int64_t expected);
// The first balanced {...} of the output parses, and equals the expected call: same name, same keys, same values
// (3 equals 3.0; strings to the letter).
bool ToolCallPasses(std::string_view output, std::string_view expected_json);

}  // namespace haypile
