#include "output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
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

void TellOfOwnScales(const CheckpointKvScales& own, const std::string& scales_path, std::span<const KvDtype> dtypes) {
  const std::string notice = OwnScalesNotice(own, scales_path, dtypes);
  if (!notice.empty()) fmt::print(stderr, "haypile: {}\n", notice);
}

}  // namespace haypile
