#include "calibrate/output_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "compare/teacher_forced.h"

namespace haypile {
namespace {

// Layers that one run measures side by side: each adds two caches to the baseline's and the noise lane's.
constexpr int kLayersAtOnce = 8;

class OutputMeter {
 public:
  OutputMeter(const Session& session, KvFormat format, const KvScales& scales, std::span<const int32_t> tokens,
              StateStore& state, const std::function<void(int64_t)>& on_tokens)
      : session_(session), format_(format), scales_(scales), tokens_(tokens), state_(state), on_tokens_(on_tokens) {}

  Result<OutputErrors> Run() {
    OutputErrors errors;
    const int layers = session_.spec().layer_count;
    HAYPILE_TRY_ASSIGN(const Lane baseline, MakeLane({}));
    HAYPILE_TRY_ASSIGN(Lane at_one, MakeLane({format_, format_}));
    Lane calibrated = at_one;
    calibrated.scales = scales_;
    HAYPILE_TRY_ASSIGN(const std::vector<double> whole, MeanKls("output:whole", {baseline, at_one, calibrated}));
    errors.whole = {static_cast<int64_t>(tokens_.size()), whole[0], whole[1], whole[2]};
    for (int first = 0; first < layers; first += kLayersAtOnce) {
      const int end = std::min(first + kLayersAtOnce, layers);
      std::vector<Lane> lanes{baseline};
      for (int layer = first; layer < end; ++layer) {
        for (const auto side : {&KvDtype::k, &KvDtype::v}) {
          Lane& lane = lanes.emplace_back(baseline);
          lane.geometry.layers[static_cast<size_t>(layer)].dtype.*side = format_;
          lane.scales = scales_;
        }
      }
      HAYPILE_TRY_ASSIGN(const std::vector<double> kls, MeanKls(fmt::format("output:{}", first), lanes));
      for (int i = 0; i < end - first; ++i) {
        errors.k_mean_kl.push_back(kls[static_cast<size_t>(2 * i)]);
        errors.v_mean_kl.push_back(kls[static_cast<size_t>(2 * i + 1)]);
      }
    }
    return errors;
  }

 private:
  Result<Lane> MakeLane(KvDtype dtype) const {
    Lane lane;
    lane.dtype = dtype;
    HAYPILE_TRY_ASSIGN(lane.geometry, MakeKvGeometry(session_.spec(), dtype));
    return lane;
  }

  // One for each lane after the first, then the noise lane's.
  Result<std::vector<double>> MeanKls(const std::string& step, const std::vector<Lane>& lanes) {
    std::vector<double> means;
    if (const Json* stored = state_.Find(step); stored != nullptr && stored->is_array()) {
      for (const Json& value : *stored) {
        if (value.is_number()) means.push_back(value.get<double>());
      }
    }
    if (means.size() != lanes.size()) {
      means.clear();
      HAYPILE_TRY_ASSIGN(const auto rows, RunTeacherForced(session_, lanes, tokens_,
                                                           [&](int64_t passes) { on_tokens_(done_ + passes); }));
      for (const std::vector<RowDivergence>& lane : rows) {
        double sum = 0;
        for (const RowDivergence& row : lane) sum += row.kl;
        means.push_back(sum / static_cast<double>(lane.size()));
      }
      HAYPILE_TRY(state_.Put(step, Json(means)));
    }
    done_ += static_cast<int64_t>((lanes.size() + 1) * tokens_.size());
    return means;
  }

  const Session& session_;
  const KvFormat format_;
  const KvScales& scales_;
  const std::span<const int32_t> tokens_;
  StateStore& state_;
  const std::function<void(int64_t)>& on_tokens_;
  int64_t done_ = 0;
};

}  // namespace

int64_t OutputErrorPasses(int layers, size_t tokens) {
  if (tokens < 2) return 0;
  const int groups = (layers + kLayersAtOnce - 1) / kLayersAtOnce;
  return static_cast<int64_t>(tokens) * (4 + 2 * layers + 2 * groups);
}

Result<OutputErrors> MeasureOutputErrors(const Session& session, KvFormat format, const KvScales& scales,
                                         std::span<const int32_t> tokens, StateStore& state,
                                         const std::function<void(int64_t)>& on_tokens) {
  return OutputMeter(session, format, scales, tokens, state, on_tokens).Run();
}

}  // namespace haypile
