#include "engines/plan_file.h"

#include "base/file.h"
#include "base/json.h"

namespace haypile {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 20;

Error Malformed(const std::string& path, const std::string& what) {
  return {ErrorCode::kMalformed, "'" + path + "': " + what + "; expected the output of 'haypile plan ... --json'"};
}

std::string TextOf(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

std::optional<int64_t> CountOf(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number_integer()) return std::nullopt;
  return object[key].get<int64_t>();
}

Status ReadRows(const Json& document, PlanFile& plan) {
  if (!document.contains("plans") || !document["plans"].is_array()) return Malformed(plan.path, "no list 'plans'");
  for (const Json& row : document["plans"]) {
    PlannedRow planned;
    planned.kv_cache_dtype = TextOf(row, "kv_cache_dtype");
    planned.resolved_kv_cache_dtype = TextOf(row, "resolved_kv_cache_dtype");
    planned.refused = row.is_object() && row.contains("refused") && !row["refused"].is_null();
    const std::pair<const char*, int64_t*> fields[] = {{"bytes_per_token", &planned.bytes_per_token},
                                                       {"pool_bytes", &planned.pool_bytes},
                                                       {"block_size", &planned.block_size},
                                                       {"pool_tokens", &planned.pool_tokens}};
    for (const auto& [name, target] : fields) {
      const auto value = CountOf(row, name);
      if (!value || *value < 0)
        return Malformed(plan.path, std::string("a plan without a whole number '") + name + "'");
      *target = *value;
    }
    plan.rows.push_back(std::move(planned));
  }
  if (plan.rows.empty()) return Malformed(plan.path, "the list 'plans' is empty");
  return {};
}

}  // namespace

const PlannedRow* PlanFile::Find(const std::string& kv_cache_dtype) const {
  for (const PlannedRow& row : rows) {
    if (row.kv_cache_dtype == kv_cache_dtype) return &row;
  }
  for (const PlannedRow& row : rows) {
    if (row.resolved_kv_cache_dtype == kv_cache_dtype) return &row;
  }
  return nullptr;
}

std::optional<int64_t> PlanFile::Term(const std::string& name) const {
  for (const PlannedTerm& term : terms) {
    if (term.name == name) return term.bytes;
  }
  return std::nullopt;
}

Result<PlanFile> ReadPlanFile(const std::string& path) {
  HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(path, kMostBytes));
  auto parsed = ParseJson(text);
  if (!parsed.ok()) return Malformed(path, "not JSON (" + parsed.error().message() + ")");
  const Json& document = *parsed;
  if (TextOf(document, "schema") != "haypile.plan/1") return Malformed(path, "no \"schema\": \"haypile.plan/1\"");
  PlanFile plan;
  plan.path = path;
  plan.engine = TextOf(document, "engine");
  plan.engine_version = TextOf(document, "engine_version");
  if (document.contains("model")) plan.model = TextOf(document["model"], "name");
  if (document.contains("device")) plan.device = TextOf(document["device"], "name");
  if (document.contains("parallel")) {
    plan.tensor_parallel = static_cast<int>(CountOf(document["parallel"], "tensor").value_or(1));
  }
  HAYPILE_TRY(ReadRows(document, plan));
  if (!document.contains("memory") || !document["memory"].is_object()) return plan;
  const Json& memory = document["memory"];
  if (!memory.contains("terms") || !memory["terms"].is_array()) return plan;
  for (const Json& term : memory["terms"]) {
    const auto bytes = CountOf(term, "bytes");
    if (!bytes) return Malformed(path, "a term of 'memory' without a whole number 'bytes'");
    plan.terms.push_back({TextOf(term, "name"), *bytes});
  }
  return plan;
}

}  // namespace haypile
