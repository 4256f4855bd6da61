#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <string>

#include "evaluate/task.h"

namespace haypile {
namespace {

struct Question {
  std::string_view text;
  int64_t answer;
};

// From what a model of 135 million parameters mostly gets right to what it mostly gets wrong, so that some lie at the
// edge, where a damaged cache shows.
constexpr Question kQuestions[] = {
    {"3 + 4", 7},     {"8 + 5", 13},     {"12 + 6", 18}, {"20 + 30", 50}, {"17 + 25", 42},
    {"46 + 38", 84},  {"125 + 75", 200}, {"9 - 4", 5},   {"15 - 7", 8},   {"30 - 12", 18},
    {"100 - 45", 55}, {"83 - 57", 26},   {"2 * 6", 12},  {"5 * 7", 35},   {"9 * 8", 72},
    {"12 * 4", 48},   {"10 * 13", 130},  {"36 / 6", 6},  {"81 / 9", 9},   {"144 / 12", 12},
};

constexpr std::string_view kShots =
    "Question: What is 2 + 3?\nAnswer: 5\n\n"
    "Question: What is 14 - 6?\nAnswer: 8\n\n"
    "Question: What is 4 * 5?\nAnswer: 20\n\n"
    "Question: What is 18 / 3?\nAnswer: 6\n\n"
    "Question: What is 24 + 13?\nAnswer: 37\n\n";

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

bool IntegerAnswerPasses(std::string_view output, int64_t expected) {
  const size_t first = output.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const std::string_view line = output.substr(first, output.find('\n', first) - first);
  size_t start = 0;
  while (start < line.size() && !IsDigit(line[start])) ++start;
  if (start == line.size()) return false;
  std::string digits = start > 0 && line[start - 1] == '-' ? "-" : "";
  size_t end = start;
  for (; end < line.size(); ++end) {
    const bool separator = line[end] == ',' && end + 3 < line.size() && IsDigit(line[end + 1]) &&
                           IsDigit(line[end + 2]) && IsDigit(line[end + 3]);
    if (IsDigit(line[end])) {
      digits += line[end];
    } else if (!separator) {
      break;
    }
  }
  if (end + 1 < line.size() && line[end] == '.' && IsDigit(line[end + 1])) return false;
  int64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return parsed.ec == std::errc() && value == expected;
}

Task ArithmeticTask(TaskForm form) {
  const bool chat = form == TaskForm::kChat;
  Task task{chat ? "arithmetic_chat" : "arithmetic", form, chat ? 16 : 8, {}};
  for (const Question& question : kQuestions) {
    std::string prompt = chat ? fmt::format("What is {}? Answer with the number alone.", question.text)
                              : fmt::format("{}Question: What is {}?\nAnswer:", kShots, question.text);
    // A chat model may repeat the sum before its result: then the result is what follows the equals sign.
    task.items.push_back({std::move(prompt), [chat, answer = question.answer](std::string_view output) {
                            const size_t equals = chat ? output.find('=') : std::string_view::npos;
                            return IntegerAnswerPasses(
                                equals == std::string_view::npos ? output : output.substr(equals + 1), answer);
                          }});
  }
  return task;
}

}  // namespace haypile
