#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "probe/probe_judgement.h"
#include "probe/probe_server.h"
#include "spec/kv_dtype.h"

namespace haypile {

// Who said what the server's KV dtype is.
enum class ProbeDtypeSource { kFlag, kLog, kCheckpoint, kAssumed };
const char* NameOf(ProbeDtypeSource source);  // "flag", "log", "checkpoint", "assumed"

// The quantized dtype that the server may have, to run our own engine with.
struct ProbeDtype {
  KvDtype dtype{KvFormat::kFp8E4m3, KvFormat::kFp8E4m3};
  ProbeDtypeSource source = ProbeDtypeSource::kAssumed;
  std::string said;  // in the words of the source; empty: assumed
  // The source names a dtype that is not quantized (bfloat16, float16): `dtype` is then only what it is compared with.
  bool said_unquantized = false;
};

// What is known of the server's dtype; empty: nothing. "auto" in the first two is what the checkpoint asks for.
struct ProbeDtypeHints {
  std::string flag;        // --kv-cache-dtype as given to the server
  std::string log;         // of its start-up log
  std::string checkpoint;  // of the checkpoint's config
  bool checkpoint_has_scales = false;
};
// The first hint that names a dtype; without any, fp8_e4m3 is assumed. kInvalidArgument: a dtype that no cache of ours
// has, with the known ones.
Result<ProbeDtype> ChooseProbeDtype(const ProbeDtypeHints& hints);

struct ProbeRequest {
  ServerAccess server;
  std::string checkpoint;  // a Hugging Face folder, or a GGUF file
  ProbeDtypeHints dtype;
  int64_t tokens = 0;  // of the text; 0: kProbeTokens, or what fits if less
  int threads = 0;     // 0: every core
};
inline constexpr int64_t kProbeTokens = 1024;
inline constexpr int64_t kLeastProbeTokens = kLeastProbeRows + 1;
inline constexpr const char* kProbeText = "essays";  // of evaluation_text.h

// The checkpoint's KV scales as the run "file" has them: as they stand in the file, whatever they were made for (twice
// that for FNUZ, as engines load them).
struct ProbeScales {
  int tensors = 0;
  std::string example, words;  // a tensor's name; what they are (amax/448)
  double k_least = 1, k_most = 1, v_least = 1, v_most = 1;
  std::vector<int> layers_without;
  bool dtype_has_scale = true;  // false: the dtype uses none of a checkpoint
  std::string unused;           // why the tensors are no scales of such a cache
  bool compared = false;        // there is a run with them
};

struct ProbeResult {
  ServedModel served;
  std::string checkpoint, endpoint;
  bool ids_confirmed = false;
  ProbeDtype dtype;
  ProbeScales scales;
  int64_t tokens = 0;
  ProbeJudgement judgement;
};

// What is done while the probe runs: token passes done of the total. Where no cache that rounds explains the server,
// runs with a store that cuts follow, counted anew.
using ProbeProgress = std::function<void(double done, double total, const std::string& what)>;

// Asks the server for the log-probabilities of the text's first tokens and judges them against our own engine's under
// each cache. Errors: of the checkpoint (an architecture that our engine does not run is kUnsupported and names those
// that it does), of the server (probe_server.h), kOutOfBudget for more tokens than server or model take, kInterrupted.
Result<ProbeResult> RunProbe(const ProbeRequest& request, const ProbeProgress& on_progress);

}  // namespace haypile
