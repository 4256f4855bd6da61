#include "calibrate/kv_statistics.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/state_bytes.h"

namespace haypile {
namespace {

// A fixed pseudo-random number for each token (SplitMix64's output function).
uint64_t Scrambled(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void RangeStatistics::Merge(const RangeStatistics& other) {
  if (other.histogram.amax() > histogram.amax()) amax_token = other.amax_token;
  histogram.Merge(other.histogram);
  rows.insert(rows.end(), other.rows.begin(), other.rows.end());
}

KvStatistics::KvStatistics(const ModelSpec& spec, ThreadPool& pool)
    : pool_(pool),
      kv_heads_(spec.kv_heads),
      head_dim_(spec.head_dim),
      tokens_(static_cast<size_t>(spec.layer_count)),
      ranges_(static_cast<size_t>(spec.layer_count) * 2 * static_cast<size_t>(spec.kv_heads)) {}

size_t KvStatistics::Index(int layer, KvSide side, int head) const {
  return static_cast<size_t>((layer * 2 + (side == KvSide::kV ? 1 : 0)) * kv_heads_ + head);
}

const RangeStatistics& KvStatistics::Of(int layer, KvSide side, int head) const {
  return ranges_[Index(layer, side, head)];
}

RangeStatistics KvStatistics::OfLayer(int layer, KvSide side) const {
  RangeStatistics all;
  for (int head = 0; head < kv_heads_; ++head) all.Merge(Of(layer, side, head));
  return all;
}

void KvStatistics::OnKv(int layer, const float* k, const float* v, int64_t rows) {
  const auto heads = static_cast<size_t>(kv_heads_);
  const auto d = static_cast<size_t>(head_dim_);
  const int64_t before = tokens_[static_cast<size_t>(layer)];
  pool_.ParallelFor(2 * heads, [&](size_t index, int) {
    const KvSide side = index < heads ? KvSide::kK : KvSide::kV;
    const size_t head = index % heads;
    RangeStatistics& range = ranges_[Index(layer, side, static_cast<int>(head))];
    const float* values = (side == KvSide::kK ? k : v) + head * d;
    for (int64_t row = 0; row < rows; ++row) {
      const float amax = range.histogram.amax();
      range.histogram.Add({values + static_cast<size_t>(row) * heads * d, d});
      if (range.histogram.amax() > amax) range.amax_token = before + row + 1;
    }
  });
  Sample(layer, k, v, rows);
  tokens_[static_cast<size_t>(layer)] += rows;
}

// Reservoir sampling: after n tokens each of them is in the sample with the same chance.
void KvStatistics::Sample(int layer, const float* k, const float* v, int64_t rows) {
  const auto d = static_cast<size_t>(head_dim_);
  for (int64_t row = 0; row < rows; ++row) {
    const auto token = static_cast<uint64_t>(tokens_[static_cast<size_t>(layer)] + row);
    const uint64_t slot = token < kSampledRows ? token : Scrambled(token) % (token + 1);
    if (slot >= kSampledRows) continue;
    for (const KvSide side : kKvSides) {
      for (int head = 0; head < kv_heads_; ++head) {
        std::vector<float>& sample = ranges_[Index(layer, side, head)].rows;
        if (sample.size() < (slot + 1) * d) sample.resize((slot + 1) * d);
        const float* values = (side == KvSide::kK ? k : v) + (row * kv_heads_ + head) * head_dim_;
        std::copy_n(values, d, sample.begin() + static_cast<std::ptrdiff_t>(slot * d));
      }
    }
  }
}

Status KvStatistics::Check() const {
  std::string unseen;
  for (int layer = 0; layer < layers(); ++layer) {
    if (tokens(layer) == 0) unseen += fmt::format("{}{}", unseen.empty() ? "" : ", ", layer);
  }
  if (!unseen.empty()) {
    return Error(ErrorCode::kMalformed, "no K and V were seen in these layers: " + unseen + "; no scale can be given");
  }
  for (int layer = 0; layer < layers(); ++layer) {
    for (const KvSide side : kKvSides) {
      for (int head = 0; head < kv_heads_; ++head) {
        const MagnitudeHistogram& histogram = Of(layer, side, head).histogram;
        const std::string where = fmt::format("layer {}, KV head {}: {}", layer, head, NameOf(side));
        if (histogram.not_finite() > 0) {
          return Error(
              ErrorCode::kMalformed,
              fmt::format("{} holds {} values that are not finite, of {}; the weights are damaged or overflow, "
                          "and no scale can be given",
                          where, histogram.not_finite(), histogram.count()));
        }
        if (histogram.amax() == 0) {
          return Error(ErrorCode::kMalformed,
                       fmt::format("{} is zero in all {} tokens; no scale can be given", where, tokens(layer)));
        }
      }
    }
  }
  return {};
}

std::string KvStatistics::Serialize() const {
  std::string bytes;
  AppendValue(bytes, static_cast<uint64_t>(ranges_.size()));
  AppendValue(bytes, head_dim_);
  for (const int64_t tokens : tokens_) AppendValue(bytes, tokens);
  for (const RangeStatistics& range : ranges_) {
    range.histogram.AppendTo(bytes);
    AppendValue(bytes, range.amax_token);
    AppendValue(bytes, static_cast<uint64_t>(range.rows.size()));
    for (const float value : range.rows) AppendValue(bytes, value);
  }
  return bytes;
}

bool KvStatistics::Deserialize(std::string_view bytes) {
  uint64_t ranges = 0;
  int head_dim = 0;
  if (!TakeValue(bytes, ranges) || ranges != ranges_.size()) return false;
  if (!TakeValue(bytes, head_dim) || head_dim != head_dim_) return false;
  for (int64_t& tokens : tokens_) {
    if (!TakeValue(bytes, tokens)) return false;
  }
  for (RangeStatistics& range : ranges_) {
    uint64_t values = 0;
    if (!range.histogram.TakeFrom(bytes) || !TakeValue(bytes, range.amax_token) || !TakeValue(bytes, values)) {
      return false;
    }
    if (values > kSampledRows * static_cast<uint64_t>(head_dim_)) return false;
    range.rows.resize(values);
    for (float& value : range.rows) {
      if (!TakeValue(bytes, value)) return false;
    }
  }
  return bytes.empty();
}

}  // namespace haypile
