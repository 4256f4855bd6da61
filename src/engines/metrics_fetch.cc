#include <fmt/format.h>
#include <httplib.h>

#include "base/file.h"
#include "engines/metrics_text.h"

namespace haypile {
namespace {

constexpr int kTimeoutSeconds = 5;

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

Result<std::string> Get(const std::string& url) {
  HAYPILE_TRY_ASSIGN(const Address address, ParseUrl(url));
  httplib::Client client(address.origin);
  if (!client.is_valid()) {
    return Error(ErrorCode::kInvalidArgument, "'" + url + "': expected http://HOST:PORT/metrics");
  }
  client.set_connection_timeout(kTimeoutSeconds);
  client.set_read_timeout(kTimeoutSeconds);
  std::string body;
  bool too_long = false;
  const auto answer = client.Get(address.path.c_str(), [&](const char* data, size_t size) {
    too_long = body.size() + size > kMaxMetricsBytes;
    if (!too_long) body.append(data, size);
    return !too_long;
  });
  if (too_long) return Error(ErrorCode::kNetwork, "'" + url + "': the answer is longer than 64 MiB");
  if (!answer) {
    return Error(ErrorCode::kNetwork,
                 fmt::format("'{}' did not answer: {}; is the server up, and does it serve metrics "
                             "(SGLang: --enable-metrics, llama.cpp: --metrics)?",
                             url, httplib::to_string(answer.error())));
  }
  if (answer->status != 200) {
    return Error(ErrorCode::kNetwork, fmt::format("'{}' answered with status {}; expected 200", url, answer->status));
  }
  return body;
}

}  // namespace

Result<std::string> FetchMetrics(const std::string& url_or_path) {
  if (url_or_path.starts_with("https://")) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + url_or_path + "': only http:// is served; save the page to a file and give the file");
  }
  if (!url_or_path.starts_with("http://")) return ReadFile(url_or_path, kMaxMetricsBytes);
  try {
    return Get(url_or_path);
  } catch (const std::exception& error) {  // the library's own, for odd ports and hosts
    return Error(ErrorCode::kInvalidArgument, "'" + url_or_path + "': " + error.what());
  }
}

}  // namespace haypile
