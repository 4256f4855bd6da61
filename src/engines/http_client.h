#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace haypile {

// How long one answer may take, and how much it may bring.
struct FetchLimits {
  double silence_s = 5.0;  // to connect, and between two pieces of an answer
  double total_s = 10.0;   // of the whole answer
  uint64_t bytes = uint64_t{64} << 20;
};

// One question over plain HTTP. Redirects are not followed.
struct HttpRequest {
  std::string url;    // http://HOST[:PORT][/PATH]
  std::string json;   // a POST with this body; empty: a GET
  std::string token;  // sent as "Authorization: Bearer"; empty: none
  FetchLimits limits = {};
  std::function<bool()> stop = {};  // asked often while waiting; empty: never
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// The server's answer, whatever its status. kInvalidArgument: the URL is none of plain HTTP. kNetwork: no answer, or
// one beyond a limit; the message names the URL. kInterrupted: `stop` said so.
Result<HttpAnswer> AskHttp(const HttpRequest& request);

}  // namespace haypile
