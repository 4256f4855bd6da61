#include "output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "report/html.h"

namespace haypile {

int OutputWidth() {
  constexpr int kDefault = 120;
  constexpr int kNarrowest = 60;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return std::max<int>(size.ws_col, kNarrowest);
}

bool OutputHasColour() { return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

Status WriteHtmlReport(const CompareResult& result, const std::string& path) {
  return WriteFileAtomic(path, RenderHtml(result, InstalledChartJs()));
}

Status WriteJsonResult(const CompareResult& result, const std::string& path) {
  return WriteFileAtomic(path, DumpJson(ToJson(result)) + "\n");
}

Status WarnOfIgnoredKvScales(const std::string& model_path, const std::string& scales_path) {
  if (!scales_path.empty()) return {};
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  const int count = checkpoint->ignored_kv_scales();
  if (count > 0) {
    fmt::print(stderr,
               "haypile: warning: the model's {} tensors of KV scales are not used: every scale is 1.0; give a "
               "file with --kv-scales\n",
               count);
  }
  return {};
}

}  // namespace haypile
