#include "engine/session.h"

#include <algorithm>
#include <filesystem>

#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"

namespace haypile {
namespace {

constexpr int64_t kBf16Bytes = 2;

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const Checkpoint& checkpoint) {
  if (const auto gguf = checkpoint.gguf()) return Tokenizer::FromGguf(*gguf);
  return Tokenizer::FromFolder(checkpoint.folder());
}

// Removes a sequence on every way out.
class ScopedSequence {
 public:
  explicit ScopedSequence(KvCache& cache) : cache_(cache), id_(cache.AddSequence()) {}
  ~ScopedSequence() { cache_.RemoveSequence(id_); }
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;
  SequenceId id() const { return id_; }

 private:
  KvCache& cache_;
  SequenceId id_;
};

}  // namespace

Result<Session> Session::Load(const std::string& path, int threads) {
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(path));
  Session session;
  session.pool = std::make_unique<ThreadPool>(threads);
  HAYPILE_TRY_ASSIGN(session.tokenizer, LoadTokenizer(*checkpoint));
  HAYPILE_TRY_ASSIGN(session.model, DecoderModel::Load(*checkpoint, *session.pool));
  session.source = std::filesystem::path(path).lexically_normal().filename().string();
  session.parameters = session.model->weight_bytes() / kBf16Bytes;
  return session;
}

std::vector<int32_t> Session::EncodeWithBos(std::string_view text) const {
  std::vector<int32_t> ids = tokenizer->Encode(text);
  if (const auto bos = tokenizer->bos()) ids.insert(ids.begin(), *bos);
  return ids;
}

Result<std::vector<float>> Prefill(DecoderModel& model, KvCache& cache, SequenceId sequence,
                                   std::span<const int32_t> tokens, int chunk_tokens) {
  const int limit = cache.config().chunk_tokens;
  const size_t chunk = static_cast<size_t>(chunk_tokens > 0 ? std::min(chunk_tokens, limit) : limit);
  const size_t hidden_size = static_cast<size_t>(model.spec().hidden_size);
  std::vector<float> hidden;
  size_t rows = 0;
  for (size_t done = 0; done < tokens.size(); done += rows) {
    if (Interrupted()) return Error(ErrorCode::kInterrupted, "stopped by the user");
    rows = std::min(chunk, tokens.size() - done);
    hidden.resize(rows * hidden_size);
    const BatchItem item{sequence, tokens.subspan(done, rows)};
    HAYPILE_TRY(model.Forward({&item, 1}, cache, hidden));
  }
  std::vector<float> logits(static_cast<size_t>(model.spec().vocabulary_size));
  if (rows > 0) model.Logits({hidden.data() + (rows - 1) * hidden_size, hidden_size}, logits);
  return logits;
}

Result<std::vector<int32_t>> Generate(const Session& session, KvCache& cache, std::span<const int32_t> prompt,
                                      const GenerateOptions& options, const std::function<bool(int32_t)>& on_token) {
  if (prompt.empty()) return Error(ErrorCode::kInvalidArgument, "the prompt has no tokens; give some text");
  HAYPILE_TRY(CheckSampling(options.sampling));
  const ScopedSequence sequence(cache);
  HAYPILE_TRY_ASSIGN(std::vector<float> logits, Prefill(*session.model, cache, sequence.id(), prompt));
  Sampler sampler(options.sampling);
  std::vector<int32_t> generated;
  while (static_cast<int>(generated.size()) < options.max_new_tokens) {
    const int32_t token = sampler.Sample(logits);
    if (session.tokenizer->IsEos(token)) break;
    generated.push_back(token);
    if (on_token && !on_token(token)) break;
    if (static_cast<int>(generated.size()) == options.max_new_tokens) break;
    HAYPILE_TRY_ASSIGN(logits, Prefill(*session.model, cache, sequence.id(), {&token, 1}));
  }
  return generated;
}

}  // namespace haypile
