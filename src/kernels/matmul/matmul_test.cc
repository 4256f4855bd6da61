#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/isa/isa.h"
#include "kernels/matmul/gemv.h"
#if defined(__x86_64__)
#include "kernels/matmul/gemv_wide_test.h"
#endif

namespace haypile {
namespace {

struct NamedKernels {
  std::string name;
  const GemvKernels* kernels;
};

std::vector<NamedKernels> RunnableKernels() {
  std::vector<NamedKernels> list = {{"scalar", &kGemvScalar}};
#if defined(__x86_64__)
  if (HighestIsa() >= Isa::kAvx2) {
    list.push_back({"avx2", &kGemvAvx2});
    list.push_back({"emulated512", &kGemvEmulated512});
  }
  if (HighestIsa() >= Isa::kAvx512) list.push_back({"avx512", &kGemvAvx512});
#elif defined(__aarch64__)
  list.push_back({"neon", &kGemvNeon});
#endif
  return list;
}

TEST(GemvTest, EveryLevelOfThisProcessorIsTested) {
  for (const Isa isa : kEveryIsa) {
    if (!HasIsa(isa)) continue;
    const auto list = RunnableKernels();
    EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const NamedKernels& named) {
      return named.kernels == &GemvKernelsFor(isa);
    })) << IsaName(isa);
  }
}

double Widened(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint16_t Rounded(float value) {
  uint16_t high, middle, low;
  kGemvScalar.split(&value, 1, &high, &middle, &low);
  return high;
}

struct Problem {
  int64_t m, n, k;
  std::vector<float> x, bias;
  std::vector<uint16_t> w;
  std::vector<double> exact;      // [m][n]
  std::vector<double> magnitude;  // sum of |x w|, what rounding errors are relative to
};

Problem RandomProblem(int64_t m, int64_t n, int64_t k, bool with_bias, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Problem p{m, n, k, std::vector<float>(m * k), {}, std::vector<uint16_t>(n * k), {}, {}};
  for (auto& value : p.x) value = normal(random);
  for (auto& value : p.w) value = Rounded(normal(random));
  if (with_bias) p.bias.resize(n);
  for (auto& value : p.bias) value = normal(random);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = with_bias ? p.bias[j] : 0, magnitude = std::abs(sum);
      for (int64_t c = 0; c < k; ++c) {
        const double product = p.x[i * k + c] * Widened(p.w[j * k + c]);
        sum += product;
        magnitude += std::abs(product);
      }
      p.exact.push_back(sum);
      p.magnitude.push_back(magnitude);
    }
  }
  return p;
}

// FP32 sums of k terms in at least eight partial sums err by at most (k / 8 + 8) * 2^-24 of the sum of magnitudes.
double Fp32Bound(const Problem& p, size_t index) { return (p.k / 8.0 + 8) * 0x1p-24 * p.magnitude[index]; }

void ExpectClose(const Problem& p, const std::vector<float>& y, int64_t y_stride, double extra_relative,
                 const std::string& what) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      const size_t index = i * p.n + j;
      ASSERT_NEAR(y[i * y_stride + j], p.exact[index], Fp32Bound(p, index) + extra_relative * p.magnitude[index])
          << what << " m=" << p.m << " n=" << p.n << " k=" << p.k << " at " << i << "," << j;
    }
  }
}

TEST(GemvTest, EqualsDoubleReferenceOnEveryLevel) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t m : {1, 2, 3, 4, 5, 8, 9}) {
      for (int64_t n : {1, 3, 4, 7}) {
        for (int64_t k : {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 576}) {
          const Problem p = RandomProblem(m, n, k, (m + n) % 2 == 0);
          std::vector<float> prepared(m * k), y(m * (n + 2), 77.0f);
          for (int64_t i = 0; i < m; ++i) kernels->prepare(p.x.data() + i * k, k, prepared.data() + i * k);
          kernels->run({.weights = p.w.data(),
                        .rows = n,
                        .k = k,
                        .x = prepared.data(),
                        .m = m,
                        .y = y.data(),
                        .y_stride = n + 2,
                        .bias = p.bias.empty() ? nullptr : p.bias.data()});
          ExpectClose(p, y, n + 2, 0, name);
          for (int64_t i = 0; i < m; ++i) {
            ASSERT_EQ(y[i * (n + 2) + n], 77.0f) << "wrote past its columns";
            ASSERT_EQ(y[i * (n + 2) + n + 1], 77.0f) << "wrote past its columns";
          }
        }
      }
    }
  }
}

TEST(GemvTest, RowsOfABatchEqualTheSameRowsAlone) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    const Problem p = RandomProblem(7, 13, 100, false);
    std::vector<float> prepared(7 * 100), together(7 * 13), alone(13);
    for (int64_t i = 0; i < 7; ++i) kernels->prepare(p.x.data() + i * 100, 100, prepared.data() + i * 100);
    GemvTask task{p.w.data(), 13, 100, prepared.data(), 7, together.data(), 13, nullptr};
    kernels->run(task);
    for (int64_t i = 0; i < 7; ++i) {
      task.x = prepared.data() + i * 100;
      task.m = 1;
      task.y = alone.data();
      kernels->run(task);
      for (int64_t j = 0; j < 13; ++j) ASSERT_EQ(alone[j], together[i * 13 + j]) << name;
    }
  }
}

TEST(GemvTest, WidensAndSplitsEveryBf16Exactly) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    std::vector<uint16_t> all(65536), high(65536), middle(65536, 1), low(65536, 1);
    for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(65536);
    // An odd count leaves a tail.
    kernels->widen(all.data(), 65535, wide.data());
    kernels->widen(all.data() + 65535, 1, wide.data() + 65535);
    kernels->split(wide.data(), 65535, high.data(), middle.data(), low.data());
    kernels->split(wide.data() + 65535, 1, high.data() + 65535, middle.data() + 65535, low.data() + 65535);
    for (int i = 0; i < 65536; ++i) {
      ASSERT_EQ(high[i], std::isnan(wide[i]) ? i | 0x40 : i) << name;
      ASSERT_EQ(middle[i], 0) << name << " " << i;
      ASSERT_EQ(low[i], 0) << name << " " << i;
    }
  }
}

TEST(GemvTest, PacksBlocksOfRows) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t block : {8, 16}) {
      for (int64_t k : {32, 96}) {
        const int64_t rows = 3 * block, stride = k + 5;
        std::vector<uint16_t> weights(rows * stride);
        for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<uint16_t>(0x3f80 + i);
        std::vector<float> packed(rows * k + 1, 77.0f);
        kernels->pack(weights.data(), stride, rows, k, block, packed.data());
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t j = 0; j < k; ++j) {
            ASSERT_EQ(packed[row / block * block * k + j * block + row % block], Widened(weights[row * stride + j]))
                << name << " block " << block << " at " << row << "," << j;
          }
        }
        ASSERT_EQ(packed[rows * k], 77.0f) << name << " wrote past its end";
      }
    }
  }
}

TEST(GemvTest, SplitsRoundToNearestEven) {
  const float inf = std::numeric_limits<float>::infinity();
  const struct {
    float value;
    uint16_t high, middle, low;
  } cases[] = {{1.0f + 0x1p-8f, 0x3f80, 0x3b80, 0},                  // tie, down to even
               {1.0f + 0x1p-7f + 0x1p-8f, 0x3f82, 0xbb80, 0},        // tie, up to even
               {1.0f + 0x1p-8f + 0x1p-20f, 0x3f81, 0xbb80, 0x3580},  // above the tie; the rest rounds too
               {-1.0f - 0x1p-8f, 0xbf80, 0xbb80, 0},
               {std::numeric_limits<float>::max(), 0x7f80, 0, 0},
               {-0.0f, 0x8000, 0, 0},
               {0x1p-149f, 0, 0, 0},
               {inf, 0x7f80, 0, 0},
               {-inf, 0xff80, 0, 0}};
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (const auto& c : cases) {
      std::vector<float> x(17, c.value);
      std::vector<uint16_t> high(17), middle(17), low(17);
      kernels->split(x.data(), 17, high.data(), middle.data(), low.data());
      for (uint16_t bf16 : high) ASSERT_EQ(bf16, c.high) << name << " " << c.value;
      for (uint16_t bf16 : middle) ASSERT_EQ(bf16, c.middle) << name << " " << c.value;
      for (uint16_t bf16 : low) ASSERT_EQ(bf16, c.low) << name << " " << c.value;
    }
  }
}

TEST(GemvTest, SplitsLoseNothing) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const auto& [name, kernels] : RunnableKernels()) {
    std::vector<float> x(4096);
    for (float& value : x) value = normal(random);
    std::vector<uint16_t> high(x.size()), middle(x.size()), low(x.size());
    kernels->split(x.data(), x.size(), high.data(), middle.data(), low.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(double{Widened(high[i])} + Widened(middle[i]) + Widened(low[i]), x[i]) << name;
    }
  }
}

class MatmulTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!HasIsa(GetParam())) GTEST_SKIP() << "this processor lacks " << IsaName(GetParam());
    before_ = ActiveIsa();
    SetActiveIsaForTest(GetParam());
  }
  void TearDown() override {
    if (HasIsa(GetParam())) SetActiveIsaForTest(before_);
  }
  static std::vector<float> Multiply(const Problem& p, int threads,
                                     Matmul::Products products = Matmul::Products::kFp32) {
    ThreadPool pool(threads);
    Matmul matmul(pool, products);
    EXPECT_TRUE(matmul.Reserve(p.m, p.k).ok());
    std::vector<float> y(p.m * p.n, -5.0f);
    const MatmulOutput output{{p.w.data(), p.n, p.k}, p.bias.empty() ? nullptr : p.bias.data(), y.data(), p.n};
    matmul.Run(p.x.data(), p.m, {&output, 1});
    return y;
  }

 private:
  Isa before_ = Isa::kScalar;
};

TEST_P(MatmulTest, EqualsDoubleReference) {
  for (int64_t m : {1, 7, 31, 32, 33, 129, 200}) {
    for (int64_t n : {1, 63, 130, 257}) {
      for (int64_t k : {1, 33, 96}) {
        const Problem p = RandomProblem(m, n, k, n % 2 == 0);
        ExpectClose(p, Multiply(p, 2), n, 0, "matmul");
        // Parts of activations lose nothing, but make three sums of one.
        ExpectClose(p, Multiply(p, 2, Matmul::Products::kSplitBf16), n, 0x1p-22, "split matmul");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatmulTest, DoesNotDependOnThreads) {
  for (const Matmul::Products products : {Matmul::Products::kFp32, Matmul::Products::kSplitBf16}) {
    for (int64_t m : {1, 5, 40, 300, 1100}) {  // outputs in whole blocks of 8 and 16 and not, K a multiple of 32
      const Problem p = RandomProblem(m, 268, 192, false);
      const auto one = Multiply(p, 1, products);
      for (int threads : {2, 3}) ASSERT_EQ(one, Multiply(p, threads, products)) << m;
    }
  }
}

TEST_P(MatmulTest, SeveralOutputsShareTheInput) {
  for (int64_t m : {2, 50}) {
    const Problem a = RandomProblem(m, 70, 64, true, 1);
    Problem b = RandomProblem(m, 9, 64, false, 2);
    ThreadPool pool(2);
    Matmul matmul(pool, Matmul::Products::kFp32);
    ASSERT_TRUE(matmul.Reserve(m, 64).ok());
    std::vector<float> ya(m * 70), yb(m * 9), yb_alone(m * 9);
    const MatmulOutput outputs[] = {{{a.w.data(), 70, 64}, a.bias.data(), ya.data(), 70},
                                    {{b.w.data(), 9, 64}, nullptr, yb.data(), 9}};
    matmul.Run(a.x.data(), m, outputs);
    ExpectClose(a, ya, 70, 0, "first");
    b.x = a.x;
    const MatmulOutput alone{{b.w.data(), 9, 64}, nullptr, yb_alone.data(), 9};
    matmul.Run(b.x.data(), m, {&alone, 1});
    EXPECT_EQ(yb, yb_alone);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryLevel, MatmulTest, testing::ValuesIn(kEveryIsa),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

// Rows of a prompt give the same in any chunk of at least 32 rows (of fewer, see GemvTest above), where the library has
// kernels for packed weights: SGEMM rounds differently for other numbers of rows.
TEST_P(MatmulTest, RowsOfALargeBatchEqualTheSameRowsInASmallerOne) {
  if (HasOnednn() && PackedGemm().Block({128, 64, 352}, GemmOutput::kPut) == 0) GTEST_SKIP() << "no such kernels here";
  const Problem whole = RandomProblem(300, 192, 1056, false);
  const auto all = Multiply(whole, 2);
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 32}, {64, 129}, {37, 45}}) {
    Problem part = whole;
    part.m = rows;
    part.x.assign(whole.x.begin() + first * whole.k, whole.x.begin() + (first + rows) * whole.k);
    const auto some = Multiply(part, 2);
    for (int64_t i = 0; i < rows * whole.n; ++i) ASSERT_EQ(some[i], all[first * whole.n + i]) << first << " " << i;
  }
}

TEST(OnednnGemmTest, PackedProductsEqualDoubleReferenceWhereSupported) {
  if (!HasOnednn()) GTEST_SKIP() << "this build has no oneDNN";
  PackedGemm gemm;
  EXPECT_EQ(gemm.Block({32, 65, 96}, GemmOutput::kPut), 0) << "65 outputs are no whole blocks";
  for (int64_t m : {1, 16, 77, 128}) {
    for (int64_t n : {16, 64, 128}) {
      const Problem p = RandomProblem(m, n, 96, false);
      std::vector<float> packed(n * p.k), y(m * n);
      for (const GemmOutput output : {GemmOutput::kPut, GemmOutput::kAdd}) {
        const int64_t block = gemm.Block({m, n, p.k}, output);
        if (block == 0) GTEST_SKIP() << "oneDNN has no kernels for packed weights here";
        kGemvScalar.pack(p.w.data(), p.k, n, p.k, block, packed.data());
        ASSERT_TRUE(gemm.Run({m, n, p.k}, p.x.data(), packed.data(), output, y.data()));
      }
      for (float& sum : y) sum /= 2;
      ExpectClose(p, y, n, 0, "packed");
    }
  }
}

// The library's BF16 kernels for whatever this processor has.
TEST(OnednnGemmTest, Bf16ProductsEqualDoubleReferenceWhereSupported) {
  if (!HasOnednn()) GTEST_SKIP() << "this build has no oneDNN";
  Bf16Gemm gemm;
  for (int64_t m : {16, 48}) {
    Problem p = RandomProblem(m, 65, 72, false);
    std::vector<uint16_t> high(p.x.size()), middle(p.x.size()), low(p.x.size());
    kGemvScalar.split(p.x.data(), p.x.size(), high.data(), middle.data(), low.data());
    std::vector<float> y(m * 65);
    if (!gemm.Run({m, 65, 72}, high.data(), p.w.data(), GemmOutput::kPut, y.data())) {
      GTEST_SKIP() << "oneDNN has no BF16 here";
    }
    // A BF16 number has eight significant bits: rounding to nearest moves a value by at most 2^-8 of itself, and what
    // is left by at most 2^-8 of that.
    ExpectClose(p, y, 65, 0x1p-8, "high parts alone");
    ASSERT_TRUE(gemm.Run({m, 65, 72}, middle.data(), p.w.data(), GemmOutput::kAdd, y.data()));
    ExpectClose(p, y, 65, 0x1p-16, "high and middle parts");
    ASSERT_TRUE(gemm.Run({m, 65, 72}, low.data(), p.w.data(), GemmOutput::kAdd, y.data()));
    ExpectClose(p, y, 65, 0x1p-22, "all parts");
  }
}

}  // namespace
}  // namespace haypile
