#include "kernels/matmul/onednn_gemm.h"

#include <omp.h>
#include <sched.h>

#include <dnnl.hpp>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace haypile {
namespace {

// The setting belongs to the calling thread; other users of OpenMP keep theirs.
class SingleThreadedOpenMp {
 public:
  SingleThreadedOpenMp() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~SingleThreadedOpenMp() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  SingleThreadedOpenMp(const SingleThreadedOpenMp&) = delete;
  SingleThreadedOpenMp& operator=(const SingleThreadedOpenMp&) = delete;

 private:
  int before_;
};

struct CompiledGemm {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  dnnl::memory x, w, y, scratchpad;
};

}  // namespace

bool HasOnednn() { return true; }

void RunOnAllOpenMpPlaces() {
  if (omp_get_proc_bind() == omp_proc_bind_false) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (const int id : ids) {
      if (id < CPU_SETSIZE) CPU_SET(id, &cores);
    }
  }
  if (CPU_COUNT(&cores) > 0) (void)sched_setaffinity(0, sizeof(cores), &cores);
}

bool SgemmOnThisThread(const GemmShape& shape, const float* x, int64_t x_stride, const float* w, int64_t w_stride,
                       float* y, int64_t y_stride) {
  const SingleThreadedOpenMp single;
  return dnnl_sgemm('N', 'T', shape.m, shape.n, shape.k, 1.0f, x, x_stride, w, w_stride, 0.0f, y, y_stride) ==
         dnnl_success;
}

struct Bf16Gemm::State {
  std::optional<dnnl::engine> engine;
  std::optional<dnnl::stream> stream;
  std::map<std::pair<GemmShape, Output>, CompiledGemm> compiled;

  CompiledGemm& Get(const GemmShape& shape, Output output) {
    if (!engine) {
      engine.emplace(dnnl::engine::kind::cpu, 0);
      stream.emplace(*engine);
    }
    if (auto found = compiled.find({shape, output}); found != compiled.end()) return found->second;
    using Memory = dnnl::memory;
    const Memory::desc x({shape.m, shape.k}, Memory::data_type::bf16, Memory::dims{shape.k, 1});
    const Memory::desc w({shape.k, shape.n}, Memory::data_type::bf16, Memory::dims{1, shape.k});
    const Memory::desc y({shape.m, shape.n}, Memory::data_type::f32, Memory::dims{shape.n, 1});
    dnnl::primitive_attr attributes;
    // The library's own scratchpad belongs to the thread that made the primitive, not to the one that runs it.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (output == Output::kAdd) {
      dnnl::post_ops add;
      add.append_sum();
      attributes.set_post_ops(add);
    }
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, y), attributes, *engine);
    CompiledGemm gemm{description,
                      dnnl::matmul(description),
                      Memory(x, *engine, nullptr),
                      Memory(w, *engine, nullptr),
                      Memory(y, *engine, nullptr),
                      Memory(description.scratchpad_desc(), *engine)};
    return compiled.emplace(std::pair(shape, output), std::move(gemm)).first->second;
  }
};

Bf16Gemm::Bf16Gemm() : state_(std::make_unique<State>()) {}
Bf16Gemm::~Bf16Gemm() = default;
Bf16Gemm::Bf16Gemm(Bf16Gemm&&) noexcept = default;

bool Bf16Gemm::Run(const GemmShape& shape, const uint16_t* x, const uint16_t* w, Output output, float* y) {
  const SingleThreadedOpenMp single;
  try {
    CompiledGemm& gemm = state_->Get(shape, output);
    // The library takes inputs as mutable handles but does not write them.
    gemm.x.set_data_handle(const_cast<uint16_t*>(x));
    gemm.w.set_data_handle(const_cast<uint16_t*>(w));
    gemm.y.set_data_handle(y);
    gemm.primitive.execute(*state_->stream, {{DNNL_ARG_SRC, gemm.x},
                                             {DNNL_ARG_WEIGHTS, gemm.w},
                                             {DNNL_ARG_DST, gemm.y},
                                             {DNNL_ARG_SCRATCHPAD, gemm.scratchpad}});
    state_->stream->wait();
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace haypile
