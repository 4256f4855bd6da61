#include <fmt/format.h>

#include <string>

#include "base/json.h"
#include "evaluate/task.h"

namespace haypile {
namespace {

constexpr std::string_view kTools =
    "Write each request as one JSON call of one of these tools:\n"
    "set_light(room, level): set the light of a room, level 0 to 100\n"
    "set_timer(minutes): start a timer\n"
    "send_message(to, text): send a message\n"
    "get_weather(city, days): look up the weather of the next days\n\n";

constexpr std::string_view kCallShots =
    "Request: Set the light in the hall to 40.\n"
    "Call: {\"name\": \"set_light\", \"arguments\": {\"room\": \"hall\", \"level\": 40}}\n\n"
    "Request: Start a timer of 15 minutes.\n"
    "Call: {\"name\": \"set_timer\", \"arguments\": {\"minutes\": 15}}\n\n"
    "Request: Send Tom the message: I am late.\n"
    "Call: {\"name\": \"send_message\", \"arguments\": {\"to\": \"Tom\", \"text\": \"I am late.\"}}\n\n"
    "Request: What will the weather be in Rome for 2 days?\n"
    "Call: {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2}}\n\n";

struct Request {
  std::string_view text;
  std::string_view call;
};

constexpr Request kRequests[] = {
    {"Set the light in the kitchen to 80.", R"({"name":"set_light","arguments":{"room":"kitchen","level":80}})"},
    {"Set the light in the bedroom to 5.", R"({"name":"set_light","arguments":{"room":"bedroom","level":5}})"},
    {"Set the light in the office to 65.", R"({"name":"set_light","arguments":{"room":"office","level":65}})"},
    {"Start a timer of 25 minutes.", R"({"name":"set_timer","arguments":{"minutes":25}})"},
    {"Start a timer of 3 minutes.", R"({"name":"set_timer","arguments":{"minutes":3}})"},
    {"Start a timer of 90 minutes.", R"({"name":"set_timer","arguments":{"minutes":90}})"},
    {"Send Anna the message: Dinner is ready.",
     R"({"name":"send_message","arguments":{"to":"Anna","text":"Dinner is ready."}})"},
    {"Send Mr. Okoro the message: The invoice 7714 is paid.",
     R"({"name":"send_message","arguments":{"to":"Mr. Okoro","text":"The invoice 7714 is paid."}})"},
    {"Send Maria the message: The train leaves at 18:42.",
     R"({"name":"send_message","arguments":{"to":"Maria","text":"The train leaves at 18:42."}})"},
    {"What will the weather be in Oslo for 5 days?", R"({"name":"get_weather","arguments":{"city":"Oslo","days":5}})"},
    {"What will the weather be in Buenos Aires for 3 days?",
     R"({"name":"get_weather","arguments":{"city":"Buenos Aires","days":3}})"},
    {"What will the weather be in Port Aldous for 7 days?",
     R"({"name":"get_weather","arguments":{"city":"Port Aldous","days":7}})"},
};

// The first {...} with its braces balanced outside strings; empty when there is none.
std::string_view FirstObject(std::string_view text) {
  const size_t start = text.find('{');
  if (start == std::string_view::npos) return {};
  int depth = 0;
  bool in_string = false;
  for (size_t i = start; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return text.substr(start, i - start + 1);
    }
  }
  return {};
}

bool SameMembers(const Json& call, const Json& expected) {
  if (!call.is_object() || !expected.is_object() || call.size() != expected.size()) return false;
  for (const auto& [key, value] : expected.items()) {
    if (!call.contains(key)) return false;
    const Json& given = call.at(key);
    if (value.is_object() ? !SameMembers(given, value) : given != value) return false;
  }
  return true;
}

}  // namespace

bool ToolCallPasses(std::string_view output, std::string_view expected_json) {
  const Result<Json> expected = ParseJson(expected_json);
  HAYPILE_CHECK(expected.ok());
  const std::string_view object = FirstObject(output);
  if (object.empty()) return false;
  const Result<Json> call = ParseJson(object);
  return call.ok() && SameMembers(*call, *expected);
}

Task ToolCallTask(TaskForm form) {
  const bool chat = form == TaskForm::kChat;
  Task task{chat ? "tool_call_chat" : "tool_call", form, 64, {}};
  for (const Request& request : kRequests) {
    std::string prompt =
        chat ? fmt::format("{}{}Request: {}\nReply with the JSON call alone.", kTools, kCallShots, request.text)
             : fmt::format("{}{}Request: {}\nCall:", kTools, kCallShots, request.text);
    task.items.push_back(
        {std::move(prompt), [call = request.call](std::string_view output) { return ToolCallPasses(output, call); }});
  }
  return task;
}

}  // namespace haypile
