#include <algorithm>
#include <set>

#include "base/text.h"
#include "engines/doctor.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

struct Notes {
  std::vector<LogLine> unit, no_file, file_error, loaded, general, old_name, dropped;
  std::set<int> dropped_layers;
  std::string dropped_example;
};

// "qkqkv_proj" and the like are what renaming "k_proj" or "v_proj" inside "qkv_proj" leaves.
std::string Unmangled(std::string tensor) {
  for (const std::string_view mangled : {"qkqkv_proj", "qkvqkv_proj", "qqkv_proj"}) {
    if (const size_t at = tensor.find(mangled); at != std::string::npos) tensor.replace(at, mangled.size(), "qkv_proj");
  }
  return tensor;
}

Notes NotesOf(const LogRecord& log) {
  Notes notes;
  for (const ScaleLine& scale : log.scales) {
    std::vector<LogLine>* lines = nullptr;
    switch (scale.note) {
      case ScaleNote::kUnit:
        lines = &notes.unit;
        break;
      case ScaleNote::kNoFile:
        lines = &notes.no_file;
        break;
      case ScaleNote::kFileError:
        lines = &notes.file_error;
        break;
      case ScaleNote::kLoaded:
        lines = &notes.loaded;
        break;
      case ScaleNote::kGeneral:
        lines = &notes.general;
        break;
      case ScaleNote::kOldName:
        lines = &notes.old_name;
        break;
      case ScaleNote::kQuery:
        break;
      case ScaleNote::kDropped:
        if (!scale.tensor.empty() && !ParseKvScaleName(Unmangled(scale.tensor))) break;  // a weight's scale
        lines = &notes.dropped;
        if (const int layer = PlaceOfTensor(scale.tensor).layer; layer >= 0) notes.dropped_layers.insert(layer);
        if (notes.dropped_example.empty()) notes.dropped_example = scale.tensor;
        break;
    }
    if (lines != nullptr) lines->push_back(scale.line);
  }
  return notes;
}

std::vector<LogLine> First(const std::vector<LogLine>& lines, size_t most = 3) {
  return {lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(std::min(most, lines.size()))};
}

std::string Spellings(const CheckpointScales& checkpoint) {
  std::string text;
  for (const KvScaleFamily family : checkpoint.families) {
    text += (text.empty() ? "" : ", ") + std::string(KvScaleFamilyName(family));
  }
  return text;
}

LogLine FileEvidence(const CheckpointScales& checkpoint) {
  if (checkpoint.tensors == 0) return {0, checkpoint.folder + ": no KV scale among the tensors' names"};
  return {0, checkpoint.folder + ": " + std::to_string(checkpoint.tensors) + " KV scales in " +
                 std::to_string(checkpoint.layers_with_scales.size()) + " layers, such as " + checkpoint.example};
}

// How to see which scales a running server really uses.
std::string ProbeCheck() { return std::string("the running server's own answers tell: ") + kProbeCommand; }
const char* const kCompareDtypes =
    "run the same fixed prompts with the cache at the model's dtype and with this one and compare the "
    "log-probabilities: haypile compare MODEL";
const char* const kUnitWhy =
    "At scale 1.0 values beyond the format's range (448 for E4M3) are cut off and small ones lose bits; whether that "
    "costs anything is the model's matter.";

std::vector<std::string> UnitAdvice(const LogRecord& log) {
  return {"haypile inspect CHECKPOINT   # which scales the checkpoint holds",
          "haypile calibrate MODEL   # makes scales where it holds none",
          ModelDtypeFlag(log.engine) + "   # until then"};
}

void AddDropped(const LogRecord& log, const Notes& notes, bool matters, Findings& findings) {
  const size_t layers = notes.dropped_layers.size();
  Finding finding{
      "scales.dropped", matters ? Severity::kProblem : Severity::kNote, "", First(notes.dropped), "", {}, ""};
  finding.what = "KV scales of " + std::to_string(layers) + (layers == 1 ? " layer" : " layers") + " were skipped (" +
                 std::to_string(notes.dropped.size()) + " lines)";
  if (!notes.dropped_example.empty()) {
    const std::string original = Unmangled(notes.dropped_example);
    finding.what += ": the checkpoint's " + original + " is not a name that this model's loader knows";
    if (original != notes.dropped_example) finding.what += " (the log spells it " + notes.dropped_example + ")";
  }
  finding.what += ".";
  for (const LogLine& line : notes.dropped) {
    if (layers <= 1 && Contains(line.text, "(e.g.")) {
      finding.what += " The engine names only the first layer of each kind; expect all of them.";
      break;
    }
  }
  finding.why =
      matters
          ? std::string("The cache is quantized and runs at scale 1.0 although the checkpoint has scales. ") + kUnitWhy
          : "The cache is not quantized, so nothing is lost now; it will be with a quantized one.";
  finding.type = {"update the engine to a version whose loader maps this name",
                  "rename the tensors to ...self_attn.attn.k_scale and ...self_attn.attn.v_scale",
                  ModelDtypeFlag(log.engine) + "   # until then"};
  finding.check = "no such line at the next start, and " + ProbeCheck();
  findings.push_back(std::move(finding));
}

// Whether the loaders of SGLang are known to lose this spelling (Qwen2, Qwen3-MoE and Mixtral families).
bool SglangLoses(const CheckpointScales& checkpoint) {
  bool plain = false;
  for (const KvScaleFamily family : checkpoint.families) {
    plain = plain || family == KvScaleFamily::kEngine || family == KvScaleFamily::kAttention;
  }
  const std::string type = LowerCase(checkpoint.geometry.model_type + " " + checkpoint.geometry.architecture);
  return !plain && (Contains(type, "qwen2") || Contains(type, "qwen3_moe") || Contains(type, "qwen3moe") ||
                    Contains(type, "mixtral"));
}

// SGLang's line depends on one flag alone; only the file tells what it means.
void AddSglangLine(const DoctorInput& input, const Notes& notes, Findings& findings) {
  const CheckpointScales* checkpoint = input.checkpoint;
  const std::string flag_why = "The line is printed whenever --quantization-param-path is not given, scales or not.";
  if (checkpoint == nullptr || !checkpoint->files_read) {
    findings.push_back({"scales.line_proves_nothing",
                        Severity::kUnknown,
                        "The warning that no scaling factors were provided proves nothing by itself: it may be a false "
                        "alarm, or the checkpoint may hold no scales, or the loader may have dropped them.",
                        First(notes.no_file, 1),
                        flag_why,
                        {"haypile doctor --log LOG --checkpoint FOLDER", "haypile inspect FOLDER"},
                        "with the folder this command gives one of three verdicts"});
    return;
  }
  std::vector<LogLine> evidence = First(notes.no_file, 1);
  evidence.push_back(FileEvidence(*checkpoint));
  if (checkpoint->tensors == 0) {
    findings.push_back(
        {"scales.missing", Severity::kWarning,
         std::string("The scales are truly missing: the checkpoint holds none, and the FP8 cache runs at 1.0.") +
             (checkpoint->weight_scales ? " Its weight scales do not imply KV scales." : ""),
         evidence, kUnitWhy, UnitAdvice(*input.log), ProbeCheck()});
  } else if (SglangLoses(*checkpoint)) {
    findings.push_back(
        {"scales.dropped_silently",
         Severity::kProblem,
         "The checkpoint holds KV scales as " + Spellings(*checkpoint) + ", a spelling that SGLang's " +
             checkpoint->geometry.architecture + " loader loses without a word: the cache runs at 1.0.",
         evidence,
         kUnitWhy,
         {"rename the tensors to ...self_attn.attn.k_scale and v_scale, or give --quantization-param-path",
          ModelDtypeFlag(input.log->engine) + "   # until then"},
         ProbeCheck()});
  } else {
    findings.push_back(
        {"scales.false_alarm",
         Severity::kGood,
         "The warning that no scaling factors were provided is a false alarm: the checkpoint holds scales for " +
             std::to_string(checkpoint->layers_with_scales.size()) + " layers under a name that the loader takes.",
         evidence,
         flag_why,
         {},
         ProbeCheck()});
  }
}

void AddFileAgainstLog(const DoctorInput& input, const Notes& notes, Findings& findings) {
  const CheckpointScales& checkpoint = *input.checkpoint;
  std::vector<LogLine> evidence{FileEvidence(checkpoint)};
  if (checkpoint.tensors == 0) {
    for (const LogLine& line : First(notes.unit.empty() ? notes.general : notes.unit, 1)) evidence.push_back(line);
    findings.push_back({"scales.missing", Severity::kWarning,
                        std::string("The checkpoint holds no KV scales: the quantized cache runs at scale 1.0.") +
                            (checkpoint.weight_scales ? " Its weight scales do not imply KV scales." : ""),
                        evidence, kUnitWhy, UnitAdvice(*input.log), ProbeCheck()});
  } else if (!notes.unit.empty()) {
    evidence.push_back(notes.unit.front());
    findings.push_back({"scales.not_loaded",
                        Severity::kProblem,
                        "The checkpoint holds " + std::to_string(checkpoint.tensors) + " KV scales (" +
                            Spellings(checkpoint) +
                            "), yet the engine says that it uses 1.0: the loader did not map them.",
                        evidence,
                        kUnitWhy,
                        {"update the engine, or rename the tensors to ...self_attn.attn.k_scale and v_scale",
                         ModelDtypeFlag(input.log->engine) + "   # until then"},
                        "the line about scaling factor 1.0 is gone at the next start, and " + ProbeCheck()});
  } else {
    findings.push_back({"scales.in_file_unconfirmed",
                        Severity::kUnknown,
                        "The checkpoint holds " + std::to_string(checkpoint.tensors) +
                            " KV scales, and no line of the log says whether they were loaded.",
                        evidence,
                        "Engines print the same lines with scales loaded and at 1.0 (vLLM 0.32 on CPU does): only "
                        "behaviour tells.",
                        {std::string(kProbeCommand) + "   # asks the running server",
                         "haypile inspect " + checkpoint.folder + "   # what this engine does with these names"},
                        ProbeCheck()});
  }
}

void AddLogAlone(const DoctorInput& input, const Notes& notes, Findings& findings) {
  const LogRecord& log = *input.log;
  if (!notes.unit.empty()) {
    findings.push_back(
        {"scales.unit",
         Severity::kWarning,
         "The engine says that it uses scale 1.0. The log cannot tell whether the checkpoint holds no scales or "
         "the loader missed them.",
         First(notes.unit, 1),
         kUnitWhy,
         {"haypile doctor --log LOG --checkpoint FOLDER", "haypile calibrate MODEL"},
         ProbeCheck()});
    return;
  }
  std::vector<LogLine> evidence = First(notes.general, 1);
  if (evidence.empty() && log.kv_dtype_requested) evidence.push_back(log.kv_dtype_requested->line);
  findings.push_back(
      {"scales.none_seen",
       Severity::kUnknown,
       "No scales seen in the log, so 1.0 is assumed. The log cannot tell: the same lines are printed with "
       "scales loaded and at 1.0.",
       evidence,
       "A missing warning proves nothing, and the general sentence about accuracy is printed for every FP8 "
       "cache.",
       {"haypile doctor --log LOG --checkpoint FOLDER", std::string(kProbeCommand) + "   # asks the running server"},
       ProbeCheck()});
}

}  // namespace

void FindScales(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  const Notes notes = NotesOf(log);
  const std::string dtype = CacheDtype(log);
  std::string effective = dtype;
  if (dtype == "auto" && input.checkpoint != nullptr && input.checkpoint->geometry_known) {
    effective = input.checkpoint->geometry.checkpoint_kv_dtype;
  }
  const bool needs = NeedsCheckpointScales(log.engine, effective) || !notes.unit.empty() || !notes.no_file.empty();
  if (!notes.dropped.empty()) AddDropped(log, notes, needs || IsQuantizedDtype(effective).value_or(false), findings);
  if (!notes.old_name.empty()) {
    findings.push_back({"scales.old_name",
                        Severity::kNote,
                        "The checkpoint holds one kv_scale a layer; K and V share it.",
                        First(notes.old_name, 1),
                        "The spelling is deprecated and will stop being read.",
                        {"haypile calibrate MODEL   # K and V apart"},
                        "the line is gone at the next start"});
  }
  if (!notes.file_error.empty()) {
    findings.push_back({"scales.file_unread",
                        Severity::kProblem,
                        "The file of scales could not be read; every layer runs at 1.0.",
                        First(notes.file_error),
                        kUnitWhy,
                        {"give every rank and every layer, model_type, and dtype float8_e4m3fn in the file"},
                        "'Loaded KV cache scaling factors' at the next start"});
    return;
  }
  if (!needs) {
    if (!IsQuantizedDtype(effective).value_or(false)) return;
    findings.push_back({"scales.inline",
                        Severity::kGood,
                        "A " + effective + " cache makes its scales at run time; a checkpoint's scales are not used.",
                        log.kv_dtype_used.empty() ? std::vector<LogLine>{} : First({log.kv_dtype_used.back().line}),
                        "There is nothing to load or to lose.",
                        {},
                        kCompareDtypes});
    return;
  }
  if (!notes.loaded.empty()) {
    findings.push_back({"scales.loaded",
                        Severity::kGood,
                        "Scales were loaded from a file.",
                        First(notes.loaded),
                        "The scales are there; whether they fit is measured, not read.",
                        {},
                        ProbeCheck()});
  } else if (!notes.no_file.empty()) {
    AddSglangLine(input, notes, findings);
  } else if (!notes.dropped.empty()) {
    return;
  } else if (input.checkpoint != nullptr && input.checkpoint->files_read) {
    AddFileAgainstLog(input, notes, findings);
  } else {
    AddLogAlone(input, notes, findings);
  }
}

}  // namespace haypile
