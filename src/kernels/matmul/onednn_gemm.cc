#include "kernels/matmul/onednn_gemm.h"

#include <omp.h>
#include <sched.h>

#include <dnnl.hpp>
#include <map>
#include <optional>
#include <string_view>
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
  dnnl::primitive primitive;
  dnnl::memory x, w, y, scratchpad;
  int64_t block = 0;  // of packed weights

  CompiledGemm() = default;  // none
  template <typename Description>
  CompiledGemm(const Description& description, dnnl::primitive compiled, const dnnl::engine& engine, int64_t w_block)
      : primitive(std::move(compiled)),
        x(description.src_desc(), engine, nullptr),
        w(description.weights_desc(), engine, nullptr),
        y(description.dst_desc(), engine, nullptr),
        scratchpad(description.scratchpad_desc(), engine),
        block(w_block) {}

  // The library takes inputs as mutable handles but does not write them.
  void Run(dnnl::stream& stream, const void* x_data, const void* w_data, void* y_data) {
    x.set_data_handle(const_cast<void*>(x_data));
    w.set_data_handle(const_cast<void*>(w_data));
    y.set_data_handle(y_data);
    primitive.execute(stream,
                      {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}, {DNNL_ARG_SCRATCHPAD, scratchpad}});
    stream.wait();
  }
};

// Products by shape, compiled when first asked for by Compile(engine, shape, output); an empty one where the library
// fails. The engine is made then too, so that objects that are never used cost nothing.
template <CompiledGemm (*Compile)(const dnnl::engine&, const GemmShape&, GemmOutput)>
class CompiledGemms {
 public:
  CompiledGemm& Get(const GemmShape& shape, GemmOutput output) {
    if (auto found = compiled_.find({shape, output}); found != compiled_.end()) return found->second;
    const SingleThreadedOpenMp single;
    CompiledGemm gemm;
    try {
      if (!engine_) engine_.emplace(dnnl::engine::kind::cpu, 0);
      if (!stream_) stream_.emplace(*engine_);
      gemm = Compile(*engine_, shape, output);
    } catch (const dnnl::error&) {  // none, then
    }
    return compiled_.emplace(std::pair(shape, output), std::move(gemm)).first->second;
  }

  // False if there is none or the library fails.
  bool Run(const GemmShape& shape, GemmOutput output, const void* x, const void* w, void* y) {
    CompiledGemm& gemm = Get(shape, output);
    if (!gemm.primitive) return false;
    const SingleThreadedOpenMp single;
    try {
      gemm.Run(*stream_, x, w, y);
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }

 private:
  std::optional<dnnl::engine> engine_;
  std::optional<dnnl::stream> stream_;
  std::map<std::pair<GemmShape, GemmOutput>, CompiledGemm> compiled_;
};

dnnl::primitive_attr AttributesFor(GemmOutput output) {
  dnnl::primitive_attr attributes;
  // The library's own scratchpad belongs to the thread that made the primitive, not to the one that runs it.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (output == GemmOutput::kAdd) {
    dnnl::post_ops add;
    add.append_sum();
    attributes.set_post_ops(add);
  }
  return attributes;
}

// A row of points with k channels each, in the order of their memory, to one with n: as a convolution with a window of
// one point. Only kernels compiled for the shape will do: the others are slower than SGEMM.
CompiledGemm CompilePacked(const dnnl::engine& engine, const GemmShape& shape, GemmOutput output) {
  using Memory = dnnl::memory;
  using Convolution = dnnl::convolution_forward;
  constexpr auto kFp32 = Memory::data_type::f32;
  const Memory::desc x({1, shape.k, 1, shape.m}, kFp32, Memory::format_tag::nhwc);
  const Memory::desc y({1, shape.n, 1, shape.m}, kFp32, Memory::format_tag::nhwc);
  const std::pair<int64_t, Memory::format_tag> orders[] = {{16, Memory::format_tag::OIhw16i16o},
                                                           {8, Memory::format_tag::OIhw8i8o}};
  for (const auto& [block, order] : orders) {
    if (shape.n % block != 0 || shape.k % block != 0) continue;
    const Memory::desc w({shape.n, shape.k, 1, 1}, kFp32, order);
    const Convolution::desc what(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x, w, y,
                                 {1, 1}, {0, 0}, {0, 0});
    const Convolution::primitive_desc description(what, AttributesFor(output), engine, /*allow_empty=*/true);
    if (!description || std::string_view(description.impl_info_str()).substr(0, 7) != "jit_1x1") continue;
    return CompiledGemm(description, Convolution(description), engine, block);
  }
  return {};
}

CompiledGemm CompileBf16(const dnnl::engine& engine, const GemmShape& shape, GemmOutput output) {
  using Memory = dnnl::memory;
  const Memory::desc x({shape.m, shape.k}, Memory::data_type::bf16, Memory::dims{shape.k, 1});
  const Memory::desc w({shape.k, shape.n}, Memory::data_type::bf16, Memory::dims{1, shape.k});
  const Memory::desc y({shape.m, shape.n}, Memory::data_type::f32, Memory::dims{shape.n, 1});
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, y), AttributesFor(output), engine);
  return CompiledGemm(description, dnnl::matmul(description), engine, 0);
}

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

struct PackedGemm::State {
  CompiledGemms<CompilePacked> gemms;
};

PackedGemm::PackedGemm() : state_(std::make_unique<State>()) {}
PackedGemm::~PackedGemm() = default;
PackedGemm::PackedGemm(PackedGemm&&) noexcept = default;

int64_t PackedGemm::Block(const GemmShape& shape, GemmOutput output) { return state_->gemms.Get(shape, output).block; }

bool PackedGemm::Run(const GemmShape& shape, const float* x, const float* packed, GemmOutput output, float* y) {
  return state_->gemms.Run(shape, output, x, packed, y);
}

struct Bf16Gemm::State {
  CompiledGemms<CompileBf16> gemms;
};

Bf16Gemm::Bf16Gemm() : state_(std::make_unique<State>()) {}
Bf16Gemm::~Bf16Gemm() = default;
Bf16Gemm::Bf16Gemm(Bf16Gemm&&) noexcept = default;

bool Bf16Gemm::Run(const GemmShape& shape, const uint16_t* x, const uint16_t* w, GemmOutput output, float* y) {
  return state_->gemms.Run(shape, output, x, w, y);
}

}  // namespace haypile
