#include "planner/kept_modules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace haypile {
namespace {

enum Kind { kAttention, kDense, kShared, kExperts, kKinds };

// A module of each kind under the names that public checkpoints give it, after "layers.N.".
struct Probe {
  std::string_view module;
  Kind kind;
};
constexpr Probe kProbes[] = {
    {"self_attn.o_proj", kAttention},
    {"linear_attn.out_proj", kAttention},
    {"attn.wo_b", kAttention},
    {"mixer.o_proj", kAttention},
    {"mixer.out_proj", kAttention},
    {"mlp.down_proj", kDense},
    {"mixer.down_proj", kDense},
    {"mlp.shared_expert.down_proj", kShared},
    {"mlp.shared_experts.down_proj", kShared},
    {"ffn.shared_experts.w2", kShared},
    {"mixer.shared_experts.down_proj", kShared},
    {"mlp.experts.0.down_proj", kExperts},
    {"ffn.experts.0.w2", kExperts},
    {"mixer.experts.0.down_proj", kExperts},
    {"block_sparse_moe.experts.0.w2", kExperts},
};

// '*' stands for any text; the pattern must cover all of `text`.
bool GlobMatches(std::string_view pattern, std::string_view text) {
  size_t at = 0, in = 0;
  size_t star = std::string_view::npos, resume = 0;
  while (in < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in;
    } else if (at < pattern.size() && pattern[at] == text[in]) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

void ReplaceAll(std::string* text, std::string_view what, std::string_view by) {
  for (size_t at = text->find(what); at != std::string::npos; at = text->find(what, at + by.size())) {
    text->replace(at, what.size(), by);
  }
}

// The globs that a regular expression of ".*", "\." and one group of alternatives means; none for any other.
std::vector<std::string> GlobsOfExpression(std::string expression) {
  ReplaceAll(&expression, "\\.", "\x01");
  ReplaceAll(&expression, ".*", "*");
  ReplaceAll(&expression, "\x01", ".");
  if (expression.starts_with("^")) expression.erase(0, 1);
  if (expression.ends_with("$")) expression.pop_back();
  const size_t open = expression.find('(');
  const size_t close = expression.find(')');
  std::vector<std::string> globs;
  if (open == std::string::npos || close == std::string::npos || close < open) {
    globs.push_back(expression);
  } else {
    const std::string group = expression.substr(open + 1, close - open - 1);
    for (size_t at = 0; at <= group.size() && globs.size() < 64;) {
      const size_t end = std::min(group.find('|', at), group.size());
      globs.push_back(expression.substr(0, open) + group.substr(at, end - at) + expression.substr(close + 1));
      at = end + 1;
    }
  }
  std::erase_if(globs,
                [](const std::string& glob) { return glob.find_first_of("()[]|\\+?{}^$") != std::string::npos; });
  return globs;
}

// The layer that a name or pattern speaks of; nothing when it speaks of every layer.
std::optional<size_t> LayerOf(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = name.substr(at + kLayers.size());
  size_t layer = 0;
  size_t digits = 0;
  while (digits < rest.size() && digits < 5 && rest[digits] >= '0' && rest[digits] <= '9') {
    layer = layer * 10 + static_cast<size_t>(rest[digits++] - '0');
  }
  if (digits == 0) return std::nullopt;
  return layer;
}

bool Excludes(std::string_view glob, size_t layer, std::string_view module) {
  const size_t layers_at = glob.find("layers.");
  const std::string_view tail = layers_at == std::string_view::npos ? glob : glob.substr(layers_at);
  const std::string name = "layers." + std::to_string(layer) + "." + std::string(module);
  return GlobMatches(tail, name) || GlobMatches(std::string(tail) + ".*", name);
}

using Flags = std::array<std::vector<bool>, kKinds>;

void MarkExcluded(std::string_view glob, size_t layers, Flags* kept) {
  const std::optional<size_t> only = LayerOf(glob);
  if (only && *only >= layers) return;
  const size_t sample = only.value_or(0);
  for (const Probe& probe : kProbes) {
    if (!Excludes(glob, sample, probe.module)) continue;
    std::vector<bool>& flags = (*kept)[probe.kind];
    if (only) {
      flags[*only] = true;
    } else {
      flags.assign(flags.size(), true);
    }
  }
}

bool Has(const BlockPlan& block, Kind kind) {
  const FeedForward ff = block.feed_forward;
  switch (kind) {
    case kAttention:
      return block.attention != Attention::kNone || block.state;
    case kDense:
      return ff == FeedForward::kDense || ff == FeedForward::kDenseAndExperts;
    default:
      return ff == FeedForward::kExperts || ff == FeedForward::kDenseAndExperts;
  }
}

double Share(const std::vector<BlockPlan>& blocks, const Flags& kept, Kind kind) {
  double all = 0;
  double flagged = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!Has(blocks[i], kind)) continue;
    all += 1;
    flagged += kept[kind][i] ? 1 : 0;
  }
  return all == 0 ? 0 : flagged / all;
}

}  // namespace

KeptShares ReadKeptShares(const ConfigObject& quantization, const std::vector<BlockPlan>& blocks) {
  Flags kept;
  for (std::vector<bool>& flags : kept) flags.assign(blocks.size(), false);
  for (const std::string_view field : {"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"}) {
    const Json* list = quantization.Find(field);
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& entry : *list) {
      if (!entry.is_string() || blocks.empty()) continue;
      const std::string name = entry.get<std::string>();
      if (name.size() > 512) continue;
      if (!name.starts_with("re:")) {
        MarkExcluded(name, blocks.size(), &kept);
        continue;
      }
      for (const std::string& glob : GlobsOfExpression(name.substr(3))) MarkExcluded(glob, blocks.size(), &kept);
    }
  }
  return {.attention = Share(blocks, kept, kAttention),
          .dense = Share(blocks, kept, kDense),
          .shared_experts = Share(blocks, kept, kShared),
          .experts = Share(blocks, kept, kExperts)};
}

}  // namespace haypile
