#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "kernels/attention/attention_span.h"

namespace haypile {
namespace {

constexpr float kLog2E = 1.4426950408889634f;
// Tokens of one split of a sequence: a fixed number, so that results do not depend on the number of threads. Short,
// since a split takes all heads in turn: the pages it looks up for the first head are still known for the last one, and
// the lookups are what a head's short runs cost most.
constexpr int64_t kSplitTokens = 512;
// Up to this many query tokens of a sequence (one decoded token, or a draft to verify) are split over its context; more
// are enough work for all threads as blocks of queries.
constexpr int kMaxSplitQueries = 8;

// One piece of work: the rows of some query tokens of one sequence and some KV heads over tokens [begin, end).
struct WorkItem {
  const AttentionSequence* sequence;
  int first_head, heads;
  int first_query, query_tokens;
  int64_t begin, end;
  int64_t state;  // first row of its partial states, [head][row], or -1 when the item is a whole row block by itself
};

// A worker's scratch, allocated once a thread.
struct Workspace {
  Workspace() : memory(AlignedBuffer::Allocate(sizeof(float) * kFloats).value()) {}
  static constexpr int64_t kQueries = int64_t{kMaxSpanRows} * kMaxSpanHeadDim;
  static constexpr int64_t kScores = int64_t{kMaxSpanRows} * kBlockTokens;
  static constexpr int64_t kDecoded = int64_t{kBlockTokens} * kMaxSpanHeadDim;
  static constexpr int64_t kFloats = 2 * kQueries + kScores + kDecoded + kPatternFloats;
  float* queries() { return memory.as<float>(); }
  float* weighted() { return queries() + kQueries; }
  float* scores() { return weighted() + kQueries; }
  float* decoded() { return scores() + kScores; }
  float* patterns() { return decoded() + kDecoded; }
  AlignedBuffer memory;
  float row_max[kMaxSpanRows], row_sum[kMaxSpanRows];
  int64_t row_begin[kMaxSpanRows], row_end[kMaxSpanRows];
};

// The states of the splits of one sequence, one after the other from first_state on.
struct MergeItem {
  const AttentionSequence* sequence;
  int64_t first_state, splits;
};

// Partial states of the splits, merged afterwards: a row for every query row of every split; weighted is
// [row][head_dim]. They only grow, and spans set what they use.
struct PartialStates {
  std::vector<float> row_max, row_sum, weighted;

  void Reserve(int64_t rows, int64_t head_dim) {
    const auto grow = [](std::vector<float>& floats, int64_t count) {
      if (static_cast<int64_t>(floats.size()) < count) floats.resize(static_cast<size_t>(count));
    };
    grow(row_max, rows);
    grow(row_sum, rows);
    grow(weighted, rows * head_dim);
  }
};

// What a call plans, kept by the calling thread: a token takes as many calls as the model has layers, and none but the
// first of a size allocates.
struct AttentionPlan {
  std::vector<WorkItem> items;
  std::vector<MergeItem> merges;
  int64_t state_rows = 0;
  PartialStates states;

  static AttentionPlan& OfThisThread() {
    static thread_local AttentionPlan plan;
    plan.items.clear();
    plan.merges.clear();
    plan.state_rows = 0;
    return plan;
  }
};

int64_t FirstVisible(int64_t position, int window) {
  return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
}

class Batch {
 public:
  Batch(const AttentionArgs& args, ThreadPool& pool)
      : args_(args),
        pool_(pool),
        plan_(AttentionPlan::OfThisThread()),
        group_(args.query_heads / args.kv.kv_heads),
        attend_(args.span_kernel ? args.span_kernel : AttendSpanFor(ActiveIsa())) {
    HAYPILE_CHECK_EQ(args.query_heads % args.kv.kv_heads, 0);
    HAYPILE_CHECK_LE(group_, kMaxSpanRows);
    HAYPILE_CHECK_LE(args.kv.head_dim, kMaxSpanHeadDim);
    HAYPILE_CHECK_EQ(args.kv.page_tokens % kTileTokens, 0);
  }

  void Run() {
    PlanWork();
    plan_.states.Reserve(plan_.state_rows, args_.kv.head_dim);
    pool_.ParallelFor(plan_.items.size(), [this](size_t i, int) { RunItem(i); });
    const size_t heads = static_cast<size_t>(args_.kv.kv_heads);
    pool_.ParallelFor(plan_.merges.size() * heads,
                      [&](size_t i, int) { Merge(plan_.merges[i / heads], static_cast<int>(i % heads)); });
  }

 private:
  void PlanWork() {
    for (const AttentionSequence& sequence : args_.sequences) {
      if (sequence.query_tokens <= kMaxSplitQueries && sequence.query_tokens * group_ <= kMaxSpanRows) {
        PlanSplits(sequence);
      } else {
        for (int head = 0; head < args_.kv.kv_heads; ++head) PlanPrefill(sequence, head);
      }
    }
  }

  void PlanSplits(const AttentionSequence& sequence) {
    const int queries = sequence.query_tokens;
    const int heads = args_.kv.kv_heads;
    const int64_t end = sequence.first_position + queries;
    const int64_t begin = FirstVisible(sequence.first_position, args_.window);
    MergeItem merge{&sequence, plan_.state_rows, 0};
    for (int64_t t = begin / kSplitTokens * kSplitTokens; t < end; t += kSplitTokens) {
      plan_.items.push_back(
          {&sequence, 0, heads, 0, queries, std::max(t, begin), std::min(t + kSplitTokens, end), plan_.state_rows});
      plan_.state_rows += int64_t{heads} * queries * group_;
      ++merge.splits;
    }
    plan_.merges.push_back(merge);
  }

  void PlanPrefill(const AttentionSequence& sequence, int head) {
    const int block = std::max(1, kMaxSpanRows / group_);
    // Last blocks first: they see most keys, and long items first balance better.
    for (int first = (sequence.query_tokens - 1) / block * block; first >= 0; first -= block) {
      const int count = std::min(block, sequence.query_tokens - first);
      const int64_t first_position = sequence.first_position + first;
      plan_.items.push_back(
          {&sequence, head, 1, first, count, FirstVisible(first_position, args_.window), first_position + count, -1});
    }
  }

  const float* QueryRow(const AttentionSequence& sequence, int query, int kv_head, int in_group) const {
    const int64_t row = (sequence.first_row + query) * args_.query_heads + kv_head * group_ + in_group;
    return args_.queries + row * args_.kv.head_dim;
  }
  float* OutputRow(const AttentionSequence& sequence, int query, int kv_head, int in_group) const {
    const int64_t row = (sequence.first_row + query) * args_.query_heads + kv_head * group_ + in_group;
    return args_.output + row * args_.kv.head_dim;
  }

  void RunItem(size_t index) {
    const WorkItem& item = plan_.items[index];
    // What this thread most likely takes next.
    const size_t after = index + static_cast<size_t>(pool_.size());
    AttentionSpan span;
    for (int head = 0; head < item.heads; ++head) {
      span.keys_asked_for = head > 0;
      if (head + 1 < item.heads) {
        span.next = {item.sequence->page_table, item.first_head + head + 1, item.begin, item.end};
      } else if (after < plan_.items.size()) {
        const WorkItem& next = plan_.items[after];
        span.next = {next.sequence->page_table, next.first_head, next.begin, next.end};
      } else {
        span.next = {};
      }
      RunSpan(item, head, span);
    }
  }

  // One head of an item; `span` comes with what tells of the next one.
  void RunSpan(const WorkItem& item, int head, AttentionSpan& span) {
    static thread_local Workspace workspace;
    const int head_dim = args_.kv.head_dim;
    const int rows = item.query_tokens * group_;
    const int kv_head = item.first_head + head;
    const float k_scale = args_.kv.k_global_scale ? args_.kv.k_global_scale[kv_head] : 1.0f;
    const float factor = args_.query_scale * k_scale * kLog2E;
    const bool partial = item.state >= 0;
    const int64_t state = item.state + int64_t{head} * rows;
    span.kv = &args_.kv;
    span.page_table = item.sequence->page_table;
    span.kv_head = kv_head;
    span.rows = rows;
    span.begin = item.begin;
    span.end = item.end;
    span.queries = workspace.queries();
    span.row_begin = workspace.row_begin;
    span.row_end = workspace.row_end;
    span.row_max = partial ? &plan_.states.row_max[state] : workspace.row_max;
    span.row_sum = partial ? &plan_.states.row_sum[state] : workspace.row_sum;
    span.weighted = partial ? &plan_.states.weighted[state * head_dim] : workspace.weighted();
    span.scores = workspace.scores();
    span.decoded = workspace.decoded();
    span.patterns = workspace.patterns();
    for (int row = 0; row < rows; ++row) {
      const int query = item.first_query + row / group_;
      const int64_t position = item.sequence->first_position + query;
      workspace.row_begin[row] = FirstVisible(position, args_.window);
      workspace.row_end[row] = position + 1;
      span.row_max[row] = -std::numeric_limits<float>::infinity();
      span.row_sum[row] = 0;
      const float* query_row = QueryRow(*item.sequence, query, kv_head, row % group_);
      float* scaled = workspace.queries() + int64_t{row} * head_dim;
      for (int d = 0; d < head_dim; ++d) scaled[d] = query_row[d] * factor;
    }
    std::fill(span.weighted, span.weighted + int64_t{rows} * head_dim, 0.0f);
    attend_(span);
    if (partial) return;
    for (int row = 0; row < rows; ++row) {
      Finish(*item.sequence, item.first_query + row / group_, kv_head, row % group_, span.row_sum[row],
             span.weighted + int64_t{row} * head_dim);
    }
  }

  void Finish(const AttentionSequence& sequence, int query, int kv_head, int in_group, float sum,
              const float* weighted) const {
    const float v_scale = args_.kv.v_global_scale ? args_.kv.v_global_scale[kv_head] : 1.0f;
    const float factor = v_scale / sum;
    float* output = OutputRow(sequence, query, kv_head, in_group);
    for (int d = 0; d < args_.kv.head_dim; ++d) output[d] = weighted[d] * factor;
  }

  // Merges the splits of a sequence: states (m, l, o) join as softmax over the union of their keys.
  void Merge(const MergeItem& merge, int head) {
    const int rows = merge.sequence->query_tokens * group_;
    for (int row = 0; row < rows; ++row) MergeRow(merge, head, row, rows);
  }

  void MergeRow(const MergeItem& merge, int head, int row, int rows) {
    const int head_dim = args_.kv.head_dim;
    const int64_t first = merge.first_state + int64_t{head} * rows + row;
    const int64_t stride = int64_t{args_.kv.kv_heads} * rows;
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t s = 0; s < merge.splits; ++s) max = std::max(max, plan_.states.row_max[first + s * stride]);
    float sum = 0;
    float* total = &plan_.states.weighted[first * head_dim];
    for (int64_t s = 0; s < merge.splits; ++s) {
      const int64_t state = first + s * stride;
      // A split that saw only NaN scores keeps max = -inf; its NaN sum must still spoil the result, as it should. One
      // that the row does not see has a sum of zero.
      const float row_max = plan_.states.row_max[state];
      const float keep = std::isinf(row_max) && row_max < 0 ? 1.0f : std::exp2(row_max - max);
      sum += plan_.states.row_sum[state] * keep;
      const float* part = &plan_.states.weighted[state * head_dim];
      for (int d = 0; d < head_dim; ++d) total[d] = s == 0 ? part[d] * keep : total[d] + part[d] * keep;
    }
    Finish(*merge.sequence, row / group_, head, row % group_, sum, total);
  }

  const AttentionArgs& args_;
  ThreadPool& pool_;
  AttentionPlan& plan_;
  const int group_;
  const AttendSpanFn attend_;
};

}  // namespace

AttendSpanFn AttendSpanFor(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return SubnormalsAreFast() ? AttendSpanAvx2 : AttendSpanAvx2Tables;
    case Isa::kAvx512:
      return SubnormalsAreFast() ? AttendSpanAvx512 : AttendSpanAvx512Tables;
    case Isa::kAvx512Bf16:
      return Bf16ProductsAreFast() ? AttendSpanAvx512Bf16 : AttendSpanAvx512Bf16Tables;
    case Isa::kAmx:
      return AttendSpanAmx;
#elif defined(__aarch64__)
    case Isa::kNeon:
      return AttendSpanNeon;
#endif
    default:
      return AttendSpanScalar;
  }
}

void PagedAttention(const AttentionArgs& args, ThreadPool& pool) { Batch(args, pool).Run(); }

}  // namespace haypile
