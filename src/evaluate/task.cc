#include "evaluate/task.h"

#include "base/check.h"

namespace haypile {

std::vector<Task> TasksFor(const TextCodec& codec, std::vector<SkippedPart>& skipped) {
  std::vector<Task> tasks;
  for (TaskForm form : {TaskForm::kCompletion, TaskForm::kChat}) {
    for (Task (*make)(TaskForm) : {&ArithmeticTask, &ToolCallTask}) {
      Task task = make(form);
      if (form == TaskForm::kChat && !codec.has_chat()) {
        skipped.push_back({task.name, "a base model: it has no chat template"});
      } else {
        tasks.push_back(std::move(task));
      }
    }
  }
  return tasks;
}

Result<std::vector<bool>> RunTask(TextGenerator& generator, const TextCodec& codec, const Task& task) {
  HAYPILE_CHECK(task.form == TaskForm::kCompletion || codec.has_chat());
  std::vector<std::vector<int32_t>> prompts;
  for (const TaskItem& item : task.items) {
    if (task.form == TaskForm::kCompletion) {
      prompts.push_back(codec.encode(item.prompt, true));
    } else {
      HAYPILE_TRY_ASSIGN(std::vector<int32_t> prompt, codec.encode_chat(item.prompt));
      prompts.push_back(std::move(prompt));
    }
  }
  auto outputs = generator.GreedyBatch(prompts, task.max_new_tokens);
  if (!outputs.ok()) return std::move(outputs).error().WithContext("task " + task.name);
  HAYPILE_CHECK_EQ(outputs->size(), task.items.size());
  std::vector<bool> passed;
  for (size_t i = 0; i < task.items.size(); ++i) {
    passed.push_back(task.items[i].passes(codec.decode(outputs.value()[i])));
  }
  return passed;
}

TaskResult SummarizeTask(const Task& task, const std::vector<bool>& baseline, const std::vector<bool>& candidate) {
  const PairedCounts counts = CountPairs(baseline, candidate);
  HAYPILE_CHECK_EQ(static_cast<size_t>(counts.total), task.items.size());
  TaskResult result;
  result.name = task.name;
  result.passed = counts.candidate_passed;
  result.total = counts.total;
  result.baseline_passed = counts.baseline_passed;
  result.reason = WhyTellsNothing(counts);
  result.tells_nothing = result.reason.has_value();
  return result;
}

}  // namespace haypile
