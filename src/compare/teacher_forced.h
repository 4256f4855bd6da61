#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compare/lane.h"
#include "evaluate/row_divergence.h"
#include "models/kv_observer.h"

namespace haypile {

// The baseline again, in other chunks, as one more lane.
inline constexpr int kNoiseChunkTokens = 96;

// Runs `tokens` through the model once per lane, reading every key and value back through the lane's format, and
// compares each position's next-token distribution with the first lane's. Lanes move chunk by chunk side by side, so no
// logits are stored. The result has one entry for each lane after the first, then one for the noise lane (the first
// lane's format in chunks of kNoiseChunkTokens), each with tokens.size() - 1 rows.
// `on_tokens` hears how many token passes are done (tokens times lanes in all). `baseline` (may be null) sees what the
// first lane writes.
Result<std::vector<std::vector<RowDivergence>>> RunTeacherForced(const Session& session, std::span<const Lane> lanes,
                                                                 std::span<const int32_t> tokens,
                                                                 const std::function<void(int64_t)>& on_tokens,
                                                                 KvObserver* baseline = nullptr);

}  // namespace haypile
