#pragma once

#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace haypile {

// A server on this machine, for tests: real sockets, and answers that a test decides.
class LocalServer {
 public:
  // `answer` hears every GET and POST whose path matches the pattern.
  LocalServer(const std::string& pattern, httplib::Server::Handler answer) {
    server_.Get(pattern, answer);
    server_.Post(pattern, std::move(answer));
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~LocalServer() { Stop(); }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  void Stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  std::string Url(const char* path = "") const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace haypile
