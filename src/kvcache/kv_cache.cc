#include "kvcache/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "kernels/attention/tile_layout.h"

namespace haypile {
namespace {

constexpr int32_t kNoPage = -1;
static_assert(kKvPageMultiple == kTileTokens);

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

// Invariants: every page of a kind is in exactly one of the free list and one sequence's table; a table has an entry
// for every page position up to the sequence's length, kNoPage where a window has moved on.
struct KvCache::State {
  struct Kind {  // full-attention or sliding layers
    std::vector<int> layers;
    std::vector<int32_t> free_pages;
  };
  struct Sequence {
    int64_t length = 0;
    std::vector<int32_t> tables[2];  // by kind
  };
  static constexpr int kFull = 0, kSliding = 1;

  Kind kinds[2];
  std::map<SequenceId, Sequence> sequences;
  SequenceId next_id = 0;
  int max_window = 0;

  static int KindOf(const LayerKvGeometry& layer) { return layer.window > 0 ? kSliding : kFull; }
  Sequence& At(SequenceId id) {
    const auto found = sequences.find(id);
    HAYPILE_CHECK(found != sequences.end());
    return found->second;
  }
};

KvCache::KvCache() : state_(std::make_unique<State>()) {}
KvCache::~KvCache() = default;

Result<std::unique_ptr<KvCache>> KvCache::Create(KvCacheConfig config) {
  HAYPILE_TRY_ASSIGN(const KvPoolPlan plan, PlanKvPool(config));
  std::unique_ptr<KvCache> cache(new KvCache());
  cache->config_ = std::move(config);
  cache->plan_ = plan;
  const auto& layers = cache->config_.geometry.layers;
  State& state = *cache->state_;
  cache->layer_holds_special_codes_ = std::make_unique<std::atomic<bool>[]>(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const int kind = State::KindOf(layers[i]);
    const int64_t pages = kind == State::kFull ? plan.full_pages : plan.sliding_pages;
    HAYPILE_TRY_ASSIGN(AlignedBuffer buffer, AlignedBuffer::Allocate(static_cast<size_t>(pages * plan.page_tokens *
                                                                                         layers[i].BytesPerToken())));
    cache->layer_pages_.push_back(std::move(buffer));
    state.kinds[kind].layers.push_back(static_cast<int>(i));
    state.max_window = std::max(state.max_window, layers[i].window);
  }
  // Lowest page first: handed out from the back.
  for (int64_t p = plan.full_pages; p-- > 0;) state.kinds[State::kFull].free_pages.push_back(static_cast<int32_t>(p));
  for (int64_t p = plan.sliding_pages; p-- > 0;) {
    state.kinds[State::kSliding].free_pages.push_back(static_cast<int32_t>(p));
  }
  return cache;
}

int64_t KvCache::allocated_bytes() const {
  int64_t bytes = 0;
  for (const AlignedBuffer& buffer : layer_pages_) bytes += static_cast<int64_t>(buffer.size_bytes());
  return bytes;
}

SequenceId KvCache::AddSequence() {
  const SequenceId id = state_->next_id++;
  state_->sequences.emplace(id, State::Sequence{});
  return id;
}

void KvCache::RemoveSequence(SequenceId id) {
  State::Sequence& sequence = state_->At(id);
  for (int kind = 0; kind < 2; ++kind) {
    for (const int32_t page : sequence.tables[kind]) {
      if (page != kNoPage) state_->kinds[kind].free_pages.push_back(page);
    }
  }
  state_->sequences.erase(id);
}

int64_t KvCache::Length(SequenceId id) const { return state_->At(id).length; }

Status KvCache::Extend(SequenceId id, int64_t tokens) {
  State::Sequence& sequence = state_->At(id);
  const int64_t page_tokens = plan_.page_tokens;
  const int64_t new_length = sequence.length + tokens;
  // The next query sits at `length`; sliding layers see nothing before length - window + 1.
  const int64_t first_needed = std::max<int64_t>(0, sequence.length - state_->max_window + 1);
  auto& sliding = sequence.tables[State::kSliding];
  for (size_t i = 0; i < sliding.size() && static_cast<int64_t>(i + 1) * page_tokens <= first_needed; ++i) {
    if (sliding[i] == kNoPage) continue;
    state_->kinds[State::kSliding].free_pages.push_back(sliding[i]);
    sliding[i] = kNoPage;
  }
  const size_t pages = static_cast<size_t>(CeilDiv(new_length, page_tokens));
  for (int kind = 0; kind < 2; ++kind) {
    const State::Kind& of = state_->kinds[kind];
    if (of.layers.empty()) continue;
    const size_t wanted = pages - sequence.tables[kind].size();
    if (wanted <= of.free_pages.size()) continue;
    return Error(ErrorCode::kOutOfBudget, "the KV pool has " + std::to_string(of.free_pages.size()) + " free pages, " +
                                              std::to_string(wanted) + " are needed for " + std::to_string(tokens) +
                                              " more tokens; raise --kv-cache-memory or "
                                              "run fewer or shorter requests");
  }
  for (int kind = 0; kind < 2; ++kind) {
    State::Kind& of = state_->kinds[kind];
    while (!of.layers.empty() && sequence.tables[kind].size() < pages) {
      const int32_t page = of.free_pages.back();
      of.free_pages.pop_back();
      sequence.tables[kind].push_back(page);
      // Zeroed, so that what an earlier owner left (NaN, say) can never meet a weight of zero.
      for (const int layer : of.layers) {
        const int64_t bytes = page_tokens * config_.geometry.layers[layer].BytesPerToken();
        std::memset(layer_pages_[layer].data() + page * bytes, 0, static_cast<size_t>(bytes));
      }
    }
  }
  sequence.length = new_length;
  return {};
}

Result<SequenceId> KvCache::CloneSequence(SequenceId id) {
  const State::Sequence& source = state_->At(id);
  for (int kind = 0; kind < 2; ++kind) {
    const int64_t wanted = pages_held(id, kind == State::kSliding);
    const auto available = static_cast<int64_t>(state_->kinds[kind].free_pages.size());
    if (wanted <= available) continue;
    return Error(ErrorCode::kOutOfBudget, "the KV pool has " + std::to_string(available) + " free pages, " +
                                              std::to_string(wanted) + " are needed for a copy of a sequence");
  }
  State::Sequence copy;
  copy.length = source.length;
  for (int kind = 0; kind < 2; ++kind) {
    State::Kind& of = state_->kinds[kind];
    for (const int32_t page : source.tables[kind]) {
      copy.tables[kind].push_back(page == kNoPage ? kNoPage : of.free_pages.back());
      if (page == kNoPage) continue;
      of.free_pages.pop_back();
      for (const int layer : of.layers) {
        const int64_t bytes = plan_.page_tokens * config_.geometry.layers[layer].BytesPerToken();
        uint8_t* pages = layer_pages_[layer].data();
        std::memcpy(pages + copy.tables[kind].back() * bytes, pages + page * bytes, static_cast<size_t>(bytes));
      }
    }
  }
  const SequenceId new_id = state_->next_id++;
  state_->sequences.emplace(new_id, std::move(copy));
  return new_id;
}

PagedKvView KvCache::LayerView(int layer) const {
  const LayerKvGeometry& geometry = config_.geometry.layers[layer];
  PagedKvView view;
  view.pages = const_cast<uint8_t*>(layer_pages_[layer].data());
  view.page_tokens = static_cast<int>(plan_.page_tokens);
  view.page_bytes = plan_.page_tokens * geometry.BytesPerToken();
  view.kv_heads = geometry.kv_heads;
  view.head_dim = geometry.head_dim;
  view.k_format = geometry.dtype.k;
  view.v_format = geometry.dtype.v;
  view.layout = MakeTileLayout(view.k_format, view.v_format, view.kv_heads, view.head_dim);
  const KvScales& scales = config_.scales;
  if (!scales.k.empty() && InfoOf(view.k_format).has_global_scale) view.k_global_scale = scales.k[layer].data();
  if (!scales.v.empty() && InfoOf(view.v_format).has_global_scale) view.v_global_scale = scales.v[layer].data();
  view.holds_special_codes = &layer_holds_special_codes_[layer];
  return view;
}

const int32_t* KvCache::PageTable(SequenceId id, int layer) const {
  return state_->At(id).tables[State::KindOf(config_.geometry.layers[layer])].data();
}

int64_t KvCache::free_full_pages() const { return static_cast<int64_t>(state_->kinds[State::kFull].free_pages.size()); }
int64_t KvCache::free_sliding_pages() const {
  return static_cast<int64_t>(state_->kinds[State::kSliding].free_pages.size());
}

int64_t KvCache::pages_held(SequenceId id, bool sliding) const {
  const auto& table = state_->At(id).tables[sliding ? State::kSliding : State::kFull];
  return std::count_if(table.begin(), table.end(), [](int32_t page) { return page != kNoPage; });
}

}  // namespace haypile
