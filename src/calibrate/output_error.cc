#include "calibrate/output_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/json.h"
#include "compare/teacher_forced.h"

namespace haypile {
namespace {

// Layers that one run measures side by side: each adds two caches to the baseline's and the noise lane's.
constexpr int kLayersAtOnce = 8;
// Lanes of the run over the whole cache beside the methods': baseline, 1.0 and noise.
constexpr int kWholeLanes = 3;

// Divergence of one lane from the baseline, and how much it differs from the first candidate's, token by token.
struct LaneKl {
  double mean = 0, less_first = 0, less_stderr = 0;
  double nll = 0, baseline_nll = 0;
};
constexpr double LaneKl::*kLaneKlFields[] = {&LaneKl::mean, &LaneKl::less_first, &LaneKl::less_stderr, &LaneKl::nll,
                                             &LaneKl::baseline_nll};

LaneKl KlOf(const std::vector<RowDivergence>& lane, const std::vector<RowDivergence>& first) {
  const auto count = static_cast<double>(lane.size());
  LaneKl out;
  double squares = 0;
  for (size_t i = 0; i < lane.size(); ++i) {
    const double less = lane[i].kl - first[i].kl;
    out.mean += lane[i].kl / count;
    out.less_first += less / count;
    out.nll += lane[i].candidate_nll / count;
    out.baseline_nll += lane[i].baseline_nll / count;
    squares += less * less / count;
  }
  out.less_stderr = std::sqrt(std::max(0.0, squares - out.less_first * out.less_first) / count);
  return out;
}

Json JsonOf(const LaneKl& lane) {
  Json row = Json::array();
  for (const auto field : kLaneKlFields) row.push_back(lane.*field);
  return row;
}

std::optional<LaneKl> LaneKlFrom(const Json& row) {
  if (!row.is_array() || row.size() != std::size(kLaneKlFields)) return std::nullopt;
  LaneKl lane;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i].is_number()) return std::nullopt;
    lane.*kLaneKlFields[i] = row[i].get<double>();
  }
  return lane;
}

class OutputMeter {
 public:
  OutputMeter(const Session& session, const OutputMeasurement& wanted, StateStore& state,
              const std::function<void(int64_t)>& on_tokens)
      : session_(session), wanted_(wanted), state_(state), on_tokens_(on_tokens) {}

  Result<OutputErrors> Run() {
    OutputErrors errors;
    HAYPILE_TRY_ASSIGN(const Lane baseline, MakeLane({}));
    HAYPILE_TRY_ASSIGN(errors.whole, MeasureWhole(baseline));
    HAYPILE_TRY(MeasureLayers(baseline, &errors));
    return errors;
  }

 private:
  Result<OutputCheck> MeasureWhole(const Lane& baseline) {
    HAYPILE_TRY_ASSIGN(const Lane at_one, MakeLane({wanted_.format, wanted_.format}));
    std::vector<Lane> lanes{baseline, at_one};
    for (const MethodScales& method : wanted_.methods) lanes.emplace_back(at_one).scales = method.scales;
    HAYPILE_TRY_ASSIGN(const std::vector<LaneKl> kls, Measure("output:whole", lanes));
    OutputCheck whole;
    whole.tokens = static_cast<int64_t>(wanted_.tokens.size());
    whole.mean_kl_at_one = kls.front().mean;
    whole.mean_nll_at_one = kls.front().nll;
    whole.mean_nll_bf16 = kls.front().baseline_nll;
    whole.mean_kl_noise = kls.back().mean;
    for (size_t i = 0; i < wanted_.methods.size(); ++i) {
      const LaneKl& kl = kls[i + 1];
      whole.methods.push_back({wanted_.methods[i].method, kl.mean, kl.nll, kl.less_first, kl.less_stderr});
      if (wanted_.methods[i].method == wanted_.chosen) whole.mean_kl_calibrated = kl.mean;
    }
    return whole;
  }

  Status MeasureLayers(const Lane& baseline, OutputErrors* errors) {
    const auto chosen = std::ranges::find(wanted_.methods, wanted_.chosen, &MethodScales::method);
    HAYPILE_CHECK(chosen != wanted_.methods.end());
    for (int first = 0; first < wanted_.layers; first += kLayersAtOnce) {
      const int end = std::min(first + kLayersAtOnce, wanted_.layers);
      std::vector<Lane> lanes{baseline};
      for (int layer = first; layer < end; ++layer) {
        for (const auto side : {&KvDtype::k, &KvDtype::v}) {
          Lane& lane = lanes.emplace_back(baseline);
          lane.geometry.layers[static_cast<size_t>(layer)].dtype.*side = wanted_.format;
          lane.scales = chosen->scales;
        }
      }
      HAYPILE_TRY_ASSIGN(const std::vector<LaneKl> kls, Measure(fmt::format("output:{}", first), lanes));
      for (int i = 0; i < end - first; ++i) {
        errors->k_mean_kl.push_back(kls[static_cast<size_t>(2 * i)].mean);
        errors->v_mean_kl.push_back(kls[static_cast<size_t>(2 * i + 1)].mean);
      }
    }
    return {};
  }

  Result<Lane> MakeLane(KvDtype dtype) const {
    Lane lane;
    lane.dtype = dtype;
    HAYPILE_TRY_ASSIGN(lane.geometry, MakeKvGeometry(session_.spec(), dtype));
    return lane;
  }

  // One for each lane after the first, then the noise lane's.
  Result<std::vector<LaneKl>> Measure(const std::string& step, const std::vector<Lane>& lanes) {
    std::vector<LaneKl> kls = Stored(step);
    if (kls.size() != lanes.size()) {
      kls.clear();
      HAYPILE_TRY_ASSIGN(const auto rows, RunTeacherForced(session_, lanes, wanted_.tokens,
                                                           [&](int64_t passes) { on_tokens_(done_ + passes); }));
      Json stored = Json::array();
      for (const std::vector<RowDivergence>& lane : rows) {
        kls.push_back(KlOf(lane, rows[0]));
        stored.push_back(JsonOf(kls.back()));
      }
      HAYPILE_TRY(state_.Put(step, stored));
    }
    done_ += static_cast<int64_t>((lanes.size() + 1) * wanted_.tokens.size());
    return kls;
  }

  std::vector<LaneKl> Stored(const std::string& step) const {
    std::vector<LaneKl> kls;
    const Json* stored = state_.Find(step);
    if (stored == nullptr || !stored->is_array()) return kls;
    for (const Json& row : *stored) {
      const auto lane = LaneKlFrom(row);
      if (!lane) return {};
      kls.push_back(*lane);
    }
    return kls;
  }

  const Session& session_;
  const OutputMeasurement& wanted_;
  StateStore& state_;
  const std::function<void(int64_t)>& on_tokens_;
  int64_t done_ = 0;
};

}  // namespace

int64_t OutputErrorPasses(int layers, size_t tokens) {
  if (tokens < 2) return 0;
  const int groups = (layers + kLayersAtOnce - 1) / kLayersAtOnce;
  return static_cast<int64_t>(tokens) *
         (kWholeLanes + static_cast<int64_t>(std::size(kScaleMethods)) + 2 * layers + 2 * groups);
}

Result<OutputErrors> MeasureOutputErrors(const Session& session, const OutputMeasurement& wanted, StateStore& state,
                                         const std::function<void(int64_t)>& on_tokens) {
  return OutputMeter(session, wanted, state, on_tokens).Run();
}

}  // namespace haypile
