#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace haypile {

// Lengths of requests (prompt and output together, in tokens) and the share of each; shares add up to 1.
class LengthDistribution {
 public:
  struct Share {
    int64_t tokens = 0;
    double share = 0.0;
  };

  // Every request alike.
  static LengthDistribution Constant(int64_t tokens);
  // Text of one request a line ("1800"), or a length and how often it occurs ("1800 12", "1800,12"). Blank lines and
  // lines that begin with '#' do not count. kMalformed names the line. `file` is for messages.
  static Result<LengthDistribution> Parse(std::string_view text, const std::string& file);

  // At most this many distinct lengths are kept: neighbours are merged into their longest, so that a plan errs on the
  // safe side.
  static constexpr size_t kMostShares = 64;
  const std::vector<Share>& shares() const { return shares_; }
  double MeanTokens() const;
  int64_t LongestTokens() const;
  // The part of the requests that are longer.
  double ShareAbove(int64_t tokens) const;

 private:
  std::vector<Share> shares_;  // ascending
};

// Requests that run at once, each at its full length, when their lengths are distributed so. `concurrency` says how
// many requests of one length fit (PoolPlan::max_concurrency at that max_model_len); a request of length L then takes
// 1 / concurrency(L) of the pool, so the answer is 1 / sum(share / concurrency(L)). Empty when `concurrency` is for
// some length: that request does not fit at all.
std::optional<double> ConcurrentRequests(const LengthDistribution& lengths,
                                         const std::function<std::optional<double>(int64_t)>& concurrency);

}  // namespace haypile
