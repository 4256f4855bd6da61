#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "formats/row_codec.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/tile_layout.h"
#include "kernels/kv_write/kv_write.h"

namespace haypile {

// A random attention problem for tests and benches: ragged sequences in shuffled pages, and the answer in double
// precision computed from the rows' own codec, without tiles or pages.
struct AttentionCase {
  KvFormat k_format = KvFormat::kBf16, v_format = KvFormat::kBf16;
  int head_dim = 64, kv_heads = 2, group = 1, window = 0, page_tokens = 16;
  std::vector<int> context;  // cached tokens before the queries, one entry a sequence
  std::vector<int> queries;  // query tokens, one entry a sequence
  float k_scale = 1.0f, v_scale = 1.0f;
  float score_std = 1.0f;
  bool nan_key = false;  // one element of a key of the first sequence is NaN
  // For benches: pages one after the other, and contents that repeat after kRepeatedTokens and are not kept for
  // Reference(), so that a long context costs neither minutes nor memory.
  bool shuffled_pages = true, keeps_reference = true;
  bool keeps_exact_rows = false;  // for ExactReference()
};

class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionCase& shape) : shape_(shape), random_(42) {
    PlacePages();
    Fill();
  }

  AttentionArgs Args(float* output) {
    AttentionArgs args;
    args.kv = view_;
    args.sequences = sequences_;
    args.queries = queries_.data();
    args.output = output;
    args.query_heads = shape_.kv_heads * shape_.group;
    args.query_scale = query_scale_;
    args.window = shape_.window;
    return args;
  }
  size_t OutputSize() const { return queries_.size(); }
  // For writing codes by hand: kernels then know nothing of what the pages hold.
  uint8_t* pages() {
    view_.holds_special_codes = nullptr;
    return memory_.data();
  }

  const AttentionCase& shape() const { return shape_; }

  // The largest magnitude of decoded V: outputs are averages of V, so errors are measured against it.
  double ValueScale() const { return value_scale_; }

  // The answer for K and V as the format holds them, and as they were before.
  std::vector<double> Reference() const { return ReferenceOf(keys_, values_); }
  std::vector<double> ExactReference() const { return ReferenceOf(exact_keys_, exact_values_); }

 private:
  using Rows = std::vector<std::vector<float>>;  // one entry a sequence

  std::vector<double> ReferenceOf(const Rows& keys, const Rows& values) const {
    std::vector<double> output(queries_.size());
    for (size_t s = 0; s < sequences_.size(); ++s) {
      for (int q = 0; q < shape_.queries[s]; ++q) {
        for (int h = 0; h < shape_.kv_heads * shape_.group; ++h) ReferenceRow(s, q, h, keys[s], values[s], output);
      }
    }
    return output;
  }

  void PlacePages() {
    int64_t pages = 0;
    for (size_t s = 0; s < shape_.context.size(); ++s) {
      pages += (shape_.context[s] + shape_.queries[s] + shape_.page_tokens - 1) / shape_.page_tokens;
    }
    std::vector<int32_t> order(pages + 1);
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    if (shape_.shuffled_pages) std::shuffle(order.begin(), order.end(), random_);
    view_.page_tokens = shape_.page_tokens;
    view_.kv_heads = shape_.kv_heads;
    view_.head_dim = shape_.head_dim;
    view_.k_format = shape_.k_format;
    view_.v_format = shape_.v_format;
    view_.layout = MakeTileLayout(shape_.k_format, shape_.v_format, shape_.kv_heads, shape_.head_dim);
    view_.page_bytes = view_.layout.tile_bytes * (shape_.page_tokens / kTileTokens);
    memory_ = AlignedBuffer::Allocate(static_cast<size_t>(view_.page_bytes) * order.size()).value();
    view_.pages = memory_.data();
    view_.holds_special_codes = &holds_special_codes_;
    k_scales_.assign(shape_.kv_heads, shape_.k_scale);
    v_scales_.assign(shape_.kv_heads, shape_.v_scale);
    if (InfoOf(shape_.k_format).has_global_scale) view_.k_global_scale = k_scales_.data();
    if (InfoOf(shape_.v_format).has_global_scale) view_.v_global_scale = v_scales_.data();
    size_t next = 0;
    int64_t row = 0;
    for (size_t s = 0; s < shape_.context.size(); ++s) {
      const int total = shape_.context[s] + shape_.queries[s];
      tables_.emplace_back();
      for (int t = 0; t < total; t += shape_.page_tokens) tables_.back().push_back(order[next++]);
      sequences_.push_back({nullptr, shape_.context[s], shape_.queries[s], row});
      row += shape_.queries[s];
    }
    for (size_t s = 0; s < tables_.size(); ++s) sequences_[s].page_table = tables_[s].data();
    rows_ = row;
  }

  static constexpr int kRepeatedTokens = 4096;

  void Fill() {
    std::normal_distribution<float> normal;
    const int64_t width = int64_t{shape_.kv_heads} * shape_.head_dim;
    ThreadPool pool(1);
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const int total = shape_.context[s] + shape_.queries[s];
      const int rows = shape_.keeps_reference ? total : std::min(total, kRepeatedTokens);
      std::vector<float> k(rows * width), v(rows * width);
      for (float& x : k) x = normal(random_);
      for (float& x : v) x = normal(random_);
      if (shape_.nan_key && s == 0) k[3 * width + 17] = std::numeric_limits<float>::quiet_NaN();
      for (int first = 0; first < total; first += rows) {
        const KvWriteSequence write{tables_[s].data(), first, std::min(rows, total - first), 0};
        WriteKv(view_, {&write, 1}, k.data(), v.data(), pool);
      }
      if (!shape_.keeps_reference) continue;
      keys_.push_back(Decoded(shape_.k_format, k, shape_.k_scale));
      values_.push_back(Decoded(shape_.v_format, v, shape_.v_scale));
      if (shape_.keeps_exact_rows) {
        exact_keys_.push_back(k);
        exact_values_.push_back(v);
      }
      for (const float x : values_.back()) value_scale_ = std::max(value_scale_, std::abs(double{x}));
    }
    query_scale_ = shape_.score_std / std::sqrt(static_cast<float>(shape_.head_dim));
    queries_.resize(rows_ * width * shape_.group);
    for (float& x : queries_) x = normal(random_);
  }

  std::vector<float> Decoded(KvFormat format, const std::vector<float>& rows, float scale) const {
    const KvFormatInfo& info = InfoOf(format);
    const size_t d = static_cast<size_t>(shape_.head_dim);
    const float global = info.has_global_scale ? scale : 1.0f;
    std::vector<uint16_t> codes(d);
    std::vector<uint32_t> scales(static_cast<size_t>(BlockScalesPerHead(info, shape_.head_dim)));
    std::vector<float> decoded(rows.size());
    for (size_t i = 0; i < rows.size(); i += d) {
      EncodeRow(format, {rows.data() + i, d}, global, {codes, scales});
      DecodeRow(format, codes, scales, global, {decoded.data() + i, d});
    }
    return decoded;
  }

  void ReferenceRow(size_t s, int q, int head, const std::vector<float>& keys, const std::vector<float>& values,
                    std::vector<double>& output) const {
    const int d = shape_.head_dim;
    const int64_t row = (sequences_[s].first_row + q) * shape_.kv_heads * shape_.group + head;
    const int64_t position = shape_.context[s] + q;
    const int64_t begin = shape_.window > 0 ? std::max<int64_t>(0, position - shape_.window + 1) : 0;
    std::vector<double> scores;
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t t = begin; t <= position; ++t) {
      double score = 0;
      for (int i = 0; i < d; ++i) score += double{queries_[row * d + i]} * At(keys, t, head)[i];
      scores.push_back(score * query_scale_);
      max = std::max(max, scores.back());
    }
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - max);
    for (int64_t t = begin; t <= position; ++t) {
      const double weight = scores[t - begin] / sum;
      for (int i = 0; i < d; ++i) output[row * d + i] += weight * At(values, t, head)[i];
    }
  }
  const float* At(const std::vector<float>& rows, int64_t token, int head) const {
    return rows.data() + (token * shape_.kv_heads + head / shape_.group) * shape_.head_dim;
  }

  AttentionCase shape_;
  std::mt19937 random_;
  PagedKvView view_;
  AlignedBuffer memory_;
  std::atomic<bool> holds_special_codes_ = false;
  std::vector<float> k_scales_, v_scales_, queries_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<AttentionSequence> sequences_;
  Rows keys_, values_, exact_keys_, exact_values_;
  float query_scale_ = 1;
  double value_scale_ = 0;
  int64_t rows_ = 0;
};

}  // namespace haypile
