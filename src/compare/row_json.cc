#include "compare/row_json.h"

#include "base/json.h"

namespace haypile {
namespace {

// Runs a reader that may meet JSON of another shape; the library's exceptions end here.
template <typename Body>
bool Readable(Body body) {
  try {
    body();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

Json RowsToJson(const LaneRows& lanes) {
  Json json = Json::array();
  for (const auto& rows : lanes) {
    Json lane = Json::array();
    for (const RowDivergence& row : rows) {
      lane.push_back({row.kl, row.baseline_nll, row.candidate_nll, row.same_top1 ? 1 : 0, row.finite ? 1 : 0});
    }
    json.push_back(std::move(lane));
  }
  return json;
}

bool RowsFromJson(const Json& json, LaneRows& lanes) {
  return Readable([&] {
    lanes.clear();
    for (const Json& lane : json) {
      lanes.emplace_back();
      for (const Json& row : lane) {
        lanes.back().push_back({row.at(0).get<double>(), row.at(1).get<double>(), row.at(2).get<double>(),
                                row.at(3).get<int>() != 0, row.at(4).get<int>() != 0});
      }
    }
  });
}

Json PassesToJson(const LanePasses& lanes) {
  Json json = Json::array();
  for (const auto& passes : lanes) {
    Json lane = Json::array();
    for (const bool passed : passes) lane.push_back(passed);
    json.push_back(std::move(lane));
  }
  return json;
}

bool PassesFromJson(const Json& json, LanePasses& lanes) {
  return Readable([&] {
    lanes.clear();
    for (const Json& lane : json) lanes.push_back(lane.get<std::vector<bool>>());
  });
}

Json GoldenToJson(const LaneGolden& lanes) {
  Json json = Json::array();
  for (const auto& outputs : lanes) {
    Json lane = Json::array();
    for (const GoldenOutput& output : outputs) lane.push_back({{"tokens", output.tokens}, {"text", output.text}});
    json.push_back(std::move(lane));
  }
  return json;
}

bool GoldenFromJson(const Json& json, LaneGolden& lanes) {
  return Readable([&] {
    lanes.clear();
    for (const Json& lane : json) {
      lanes.emplace_back();
      for (const Json& output : lane) {
        lanes.back().push_back({output.at("tokens").get<std::vector<int32_t>>(), output.at("text").get<std::string>()});
      }
    }
  });
}

namespace {

Json OptionalNumber(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
std::optional<double> OptionalNumber(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<double>(json.get<double>());
}

}  // namespace

Json SpeedToJson(const std::vector<CompareSpeed>& lanes) {
  Json json = Json::array();
  for (const CompareSpeed& speed : lanes) {
    Json prefill = Json::array(), decode = Json::array();
    for (const PrefillPoint& p : speed.prefill) {
      prefill.push_back({p.prompt_tokens, p.tok_per_s, p.spread, p.samples, OptionalNumber(p.clock_mhz)});
    }
    for (const DecodePoint& p : speed.decode) {
      decode.push_back({p.streams, p.depth, p.ms_per_token, p.spread, p.samples, OptionalNumber(p.clock_mhz),
                        OptionalNumber(p.kv_gb_per_s), OptionalNumber(p.share_of_bandwidth)});
    }
    json.push_back({{"prefill", std::move(prefill)},
                    {"decode", std::move(decode)},
                    {"slope", OptionalNumber(speed.slope_us_per_1k_tokens)}});
  }
  return json;
}

bool SpeedFromJson(const Json& json, std::vector<CompareSpeed>& lanes) {
  return Readable([&] {
    lanes.clear();
    for (const Json& lane : json) {
      CompareSpeed speed;
      for (const Json& p : lane.at("prefill")) {
        speed.prefill.push_back({p.at(0).get<int64_t>(), p.at(1).get<double>(), p.at(2).get<double>(),
                                 p.at(3).get<int64_t>(), OptionalNumber(p.at(4))});
      }
      for (const Json& p : lane.at("decode")) {
        speed.decode.push_back({p.at(0).get<int64_t>(), p.at(1).get<int64_t>(), p.at(2).get<double>(),
                                p.at(3).get<double>(), p.at(4).get<int64_t>(), OptionalNumber(p.at(5)),
                                OptionalNumber(p.at(6)), OptionalNumber(p.at(7))});
      }
      speed.slope_us_per_1k_tokens = OptionalNumber(lane.at("slope"));
      lanes.push_back(std::move(speed));
    }
  });
}

}  // namespace haypile
