#include <fmt/format.h>
#include <httplib.h>

#include <chrono>

#include "base/file.h"
#include "engines/metrics_text.h"

namespace haypile {
namespace {

struct Address {
  std::string origin;  // "http://host:port"
  std::string path;
};

Result<Address> ParseUrl(const std::string& url) {
  const std::string_view scheme = "http://";
  const size_t slash = url.find('/', scheme.size());
  Address address{url.substr(0, slash), slash == std::string::npos ? "" : url.substr(slash)};
  if (address.path.empty() || address.path == "/") address.path = "/metrics";
  if (address.origin.size() == scheme.size() || address.origin.find_first_of(" \t\r\n@") != std::string::npos) {
    return Error(ErrorCode::kInvalidArgument, "'" + url + "': expected http://HOST:PORT/metrics");
  }
  return address;
}

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

Result<std::string> Get(const std::string& url, const FetchLimits& limits) {
  using Clock = std::chrono::steady_clock;
  HAYPILE_TRY_ASSIGN(const Address address, ParseUrl(url));
  httplib::Client client(address.origin);
  if (!client.is_valid()) {
    return Error(ErrorCode::kInvalidArgument, "'" + url + "': expected http://HOST:PORT/metrics");
  }
  const auto silence = std::chrono::microseconds(static_cast<int64_t>(limits.silence_s * 1e6));
  client.set_connection_timeout(silence);
  client.set_read_timeout(silence);
  client.set_write_timeout(silence);
  const Clock::time_point start = Clock::now();
  std::string body;
  bool too_long = false, too_late = false;
  const auto answer = client.Get(address.path.c_str(), [&](const char* data, size_t size) {
    too_long = body.size() + size > limits.bytes;
    too_late = std::chrono::duration<double>(Clock::now() - start).count() > limits.total_s;
    if (!too_long && !too_late) body.append(data, size);
    return !too_long && !too_late;
  });
  if (too_long) {
    return Error(
        ErrorCode::kNetwork,
        fmt::format("'{}': the answer is longer than {} bytes; expected a page of metrics", url, limits.bytes));
  }
  if (too_late) {
    return Error(ErrorCode::kNetwork,
                 fmt::format("'{}': the answer did not end within {:g} seconds", url, limits.total_s));
  }
  if (!answer) {
    return Error(ErrorCode::kNetwork,
                 fmt::format("'{}' did not answer within {:g} seconds: {}; is the server up, and does it serve metrics "
                             "(SGLang: --enable-metrics, llama.cpp: --metrics)?",
                             url, limits.silence_s, httplib::to_string(answer.error())));
  }
  if (answer->status != 200) {
    return Error(ErrorCode::kNetwork, fmt::format("'{}' answered with status {}; expected 200{}", url, answer->status,
                                                  StatusHelp(answer->status)));
  }
  return body;
}

}  // namespace

bool IsMetricsUrl(const std::string& url_or_path) {
  return url_or_path.starts_with("http://") || url_or_path.starts_with("https://");
}

Result<std::string> FetchMetrics(const std::string& url_or_path, const FetchLimits& limits) {
  if (url_or_path.starts_with("https://")) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + url_or_path + "': only http:// is served; save the page to a file and give the file");
  }
  if (!url_or_path.starts_with("http://")) return ReadFile(url_or_path, limits.bytes);
  try {
    return Get(url_or_path, limits);
  } catch (const std::exception& error) {  // the library's own, for odd ports and hosts
    return Error(ErrorCode::kInvalidArgument, "'" + url_or_path + "': " + error.what());
  }
}

}  // namespace haypile
