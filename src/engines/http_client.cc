#include "engines/http_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <future>

namespace haypile {
namespace {

constexpr double kLongestConnectSeconds = 10.0;
constexpr std::chrono::milliseconds kStopInterval{50};

struct Address {
  std::string origin;  // "http://host:port"
  std::string path;
};

Error NoUrl(const std::string& url) {
  return Error(ErrorCode::kInvalidArgument,
               "'" + url + "': expected http://HOST:PORT and a path; only http: is spoken");
}

Result<Address> ParseUrl(const std::string& url) {
  const std::string_view scheme = "http://";
  if (!url.starts_with(scheme)) return NoUrl(url);
  const size_t slash = url.find('/', scheme.size());
  Address address{url.substr(0, slash), slash == std::string::npos ? "/" : url.substr(slash)};
  if (address.origin.size() == scheme.size() || url.find_first_of(" \t\r\n@") != std::string::npos) return NoUrl(url);
  return address;
}

std::chrono::microseconds Micros(double seconds) {
  return std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
}

// One exchange, which may run on a thread of its own while another asks whether to stop.
class Exchange {
 public:
  Exchange(const HttpRequest& asked, const Address& address) : asked_(asked), client_(address.origin) {
    request_.method = asked.json.empty() ? "GET" : "POST";
    request_.path = address.path;
    request_.body = asked.json;
    if (!asked.json.empty()) request_.set_header("Content-Type", "application/json");
    if (!asked.token.empty()) request_.set_header("Authorization", "Bearer " + asked.token);
    request_.content_receiver = [this](const char* data, size_t size, uint64_t, uint64_t) { return Take(data, size); };
    client_.set_connection_timeout(Micros(std::min(asked.limits.silence_s, kLongestConnectSeconds)));
    client_.set_read_timeout(Micros(asked.limits.silence_s));
    client_.set_write_timeout(Micros(asked.limits.silence_s));
  }

  bool valid() const { return client_.is_valid(); }
  void Stop() { client_.stop(); }

  Result<HttpAnswer> Run() {
    start_ = std::chrono::steady_clock::now();
    const httplib::Result answer = client_.send(request_);
    const FetchLimits& limits = asked_.limits;
    if (too_long_) {
      return Error(ErrorCode::kNetwork,
                   fmt::format("'{}': the answer is longer than {} bytes", asked_.url, limits.bytes));
    }
    if (too_late_) {
      return Error(ErrorCode::kNetwork,
                   fmt::format("'{}': the answer did not end within {:g} seconds", asked_.url, limits.total_s));
    }
    if (!answer) {
      return Error(ErrorCode::kNetwork, fmt::format("'{}' did not answer within {:g} seconds: {}", asked_.url,
                                                    limits.silence_s, httplib::to_string(answer.error())));
    }
    return HttpAnswer{answer->status, std::move(body_)};
  }

 private:
  bool Take(const char* data, size_t size) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    too_long_ = body_.size() + size > asked_.limits.bytes;
    too_late_ = passed.count() > asked_.limits.total_s;
    if (too_long_ || too_late_) return false;
    body_.append(data, size);
    return true;
  }

  const HttpRequest& asked_;
  httplib::Client client_;
  httplib::Request request_;
  std::chrono::steady_clock::time_point start_;
  std::string body_;
  bool too_long_ = false, too_late_ = false;
};

Result<HttpAnswer> Ask(const HttpRequest& asked) {
  HAYPILE_TRY_ASSIGN(const Address address, ParseUrl(asked.url));
  // A header ends where its line does.
  if (std::ranges::any_of(asked.token, [](unsigned char c) { return c <= ' ' || c == 0x7f; })) {
    return Error(ErrorCode::kInvalidArgument, "the server's key holds a space or a control character");
  }
  Exchange exchange(asked, address);
  if (!exchange.valid()) return NoUrl(asked.url);
  if (!asked.stop) return exchange.Run();
  std::future<Result<HttpAnswer>> running = std::async(std::launch::async, [&exchange] { return exchange.Run(); });
  bool stopped = false;
  while (running.wait_for(kStopInterval) != std::future_status::ready) {
    if (!asked.stop()) continue;
    stopped = true;
    exchange.Stop();
  }
  Result<HttpAnswer> answer = running.get();
  if (stopped && !answer.ok()) return Error(ErrorCode::kInterrupted, "stopped by the user");
  return answer;
}

}  // namespace

Result<HttpAnswer> AskHttp(const HttpRequest& request) {
  try {
    return Ask(request);
  } catch (const std::exception& error) {  // the library's own, for odd ports and hosts
    return Error(ErrorCode::kInvalidArgument, "'" + request.url + "': " + error.what());
  }
}

}  // namespace haypile
