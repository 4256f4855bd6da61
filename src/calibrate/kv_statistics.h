#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "calibrate/magnitude_histogram.h"
#include "models/kv_observer.h"
#include "spec/model_spec.h"

namespace haypile {

enum class KvSide { kK, kV };
inline constexpr KvSide kKvSides[] = {KvSide::kK, KvSide::kV};
inline const char* NameOf(KvSide side) { return side == KvSide::kK ? "K" : "V"; }

// What is known of K, or of V, of one head (or, merged, of one layer).
struct RangeStatistics {
  MagnitudeHistogram histogram;  // of every value
  std::vector<float> rows;       // [sampled rows][D]: a uniform sample of the tokens, the same for all heads of a layer
  int64_t amax_token = 0;        // how many tokens had been seen when amax last grew

  void Merge(const RangeStatistics& other);
};

// Streaming statistics of K and V for each layer and KV head over everything a model runs. Two runs over the same
// tokens give the same statistics. Takes no part of a row but the Hkv x D values of its layer.
class KvStatistics : public KvObserver {
 public:
  static constexpr size_t kSampledRows = 64;

  KvStatistics(const ModelSpec& spec, ThreadPool& pool);

  void OnKv(int layer, const float* k, const float* v, int64_t rows) override;

  int layers() const { return static_cast<int>(tokens_.size()); }
  int kv_heads() const { return kv_heads_; }
  int head_dim() const { return head_dim_; }
  int64_t tokens(int layer) const { return tokens_[static_cast<size_t>(layer)]; }
  const RangeStatistics& Of(int layer, KvSide side, int head) const;
  RangeStatistics OfLayer(int layer, KvSide side) const;  // all heads together

  // kMalformed names the layers that saw no token, or the first layer, side and head whose range is zero or holds
  // values that are not finite: no scale can be made of those.
  Status Check() const;

  // For a state file; false when the bytes are not statistics of this model, which leaves the object unusable.
  std::string Serialize() const;
  bool Deserialize(std::string_view bytes);

 private:
  size_t Index(int layer, KvSide side, int head) const;
  void Sample(int layer, const float* k, const float* v, int64_t rows);

  ThreadPool& pool_;
  int kv_heads_, head_dim_;
  std::vector<int64_t> tokens_;          // [layer]
  std::vector<RangeStatistics> ranges_;  // [layer][side][head]
};

}  // namespace haypile
