#include <algorithm>

#include "engines/doctor_report.h"

namespace haypile {
namespace {

bool IsWordCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

// For a shell: quoted when it holds anything but letters, digits and the usual signs of paths.
std::string ForShell(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return IsWordCharacter(c) || c == '/' || c == ':' || c == '~' || c == '@';
  });
  if (plain && !name.empty()) return name;
  std::string quoted = "'";
  for (const char c : name) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Every `word` that stands alone.
void ReplaceWord(std::string& text, std::string_view word, const std::string& name) {
  if (name.empty()) return;
  const std::string shown = ForShell(name);
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    const size_t end = at + word.size();
    const bool alone =
        (at == 0 || !IsWordCharacter(text[at - 1])) && (end == text.size() || !IsWordCharacter(text[end]));
    if (alone) text.replace(at, word.size(), shown);
    at += alone ? shown.size() : word.size();
  }
}

void NameCommand(const GivenNames& names, std::string& command) {
  // A comment may follow, in words of its own.
  const size_t comment = std::min(command.find("   #"), command.size());
  std::string run = command.substr(0, comment);
  const bool plans = run.starts_with("haypile plan "), probes = run.find(" --probe ") != std::string::npos;
  for (const std::string_view word : {"MODEL", "FOLDER", "CHECKPOINT"}) {
    ReplaceWord(run, word, plans ? names.model : names.weights);
  }
  if (run.starts_with("haypile doctor ")) {
    ReplaceWord(run, "LOG", names.log);
    ReplaceWord(run, "http://HOST:PORT", probes ? names.server_url : names.metrics_url);
  }
  command = run + command.substr(comment);
}

}  // namespace

void NameCommands(const GivenNames& names, Findings& findings) {
  for (Finding& finding : findings) {
    for (std::string& command : finding.type) {
      if (command.starts_with("haypile ")) NameCommand(names, command);
    }
    const size_t at = finding.check.find("haypile doctor --probe ");
    if (at == std::string::npos) continue;
    std::string command = finding.check.substr(at);
    NameCommand(names, command);
    finding.check = finding.check.substr(0, at) + command;
  }
}

}  // namespace haypile
