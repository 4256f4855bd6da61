#include <fmt/format.h>

#include "base/file.h"
#include "engines/http_client.h"
#include "engines/metrics_text.h"

namespace haypile {
namespace {

constexpr std::string_view kScheme = "http://";

std::string StatusHelp(int status) {
  if (status == 401 || status == 403) {
    return "; it wants credentials, which are not sent: ask on the server's own host, or save the page to a file and "
           "give the file";
  }
  if (status == 404) {
    return "; nothing is served under this path: metrics are switched on by --enable-metrics (SGLang) or --metrics "
           "(llama.cpp), and TensorRT-LLM has them at /prometheus/metrics";
  }
  if (status / 100 == 3) return "; redirects are not followed: give the address that it leads to";
  return status / 100 == 5 ? "; the server is up and cannot answer: look at its log" : "";
}

// The same page, where no path is given: /metrics.
std::string WithPath(const std::string& url) {
  const size_t slash = url.find('/', kScheme.size());
  if (slash == std::string::npos) return url + "/metrics";
  return slash + 1 == url.size() ? url + "metrics" : url;
}

}  // namespace

bool IsMetricsUrl(const std::string& url_or_path) {
  return url_or_path.starts_with(kScheme) || url_or_path.starts_with("https://");
}

Result<std::string> FetchMetrics(const std::string& url_or_path, const FetchLimits& limits) {
  if (url_or_path.starts_with("https://")) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + url_or_path + "': only http:// is served; save the page to a file and give the file");
  }
  if (!url_or_path.starts_with(kScheme)) return ReadFile(url_or_path, limits.bytes);
  HttpRequest request;
  request.url = WithPath(url_or_path);
  request.limits = limits;
  auto answer = AskHttp(request);
  if (!answer.ok()) {
    if (answer.error().code() != ErrorCode::kNetwork) return std::move(answer).error();
    return Error(ErrorCode::kNetwork, answer.error().message() +
                                          "; expected a page of metrics: is the server up, and does it serve metrics "
                                          "(SGLang: --enable-metrics, llama.cpp: --metrics)?");
  }
  if (answer->status != 200) {
    return Error(ErrorCode::kNetwork, fmt::format("'{}' answered with status {}; expected 200{}", url_or_path,
                                                  answer->status, StatusHelp(answer->status)));
  }
  return std::move(answer->body);
}

}  // namespace haypile
