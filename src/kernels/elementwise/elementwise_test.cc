#include "kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/elementwise/elementwise_kernels.h"
#if defined(__x86_64__)
#include "kernels/elementwise/elementwise_wide_test.h"
#endif

namespace haypile {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const int64_t kLengths[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 576, 1000};

struct NamedKernels {
  std::string name;
  const ElementwiseKernels* kernels;
};

std::vector<NamedKernels> RunnableKernels() {
  std::vector<NamedKernels> list = {{"scalar", &kElementwiseScalar}};
#if defined(__x86_64__)
  if (HighestIsa() >= Isa::kAvx2) {
    list.push_back({"avx2", &kElementwiseAvx2});
    list.push_back({"emulated512", &kElementwiseEmulated512});
  }
  if (HighestIsa() >= Isa::kAvx512) list.push_back({"avx512", &kElementwiseAvx512});
#elif defined(__aarch64__)
  list.push_back({"neon", &kElementwiseNeon});
#endif
  return list;
}

TEST(ElementwiseKernelTest, EveryLevelOfThisProcessorIsTested) {
  for (const Isa isa : kEveryIsa) {
    if (!HasIsa(isa)) continue;
    const auto list = RunnableKernels();
    EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const NamedKernels& named) {
      return named.kernels == &ElementwiseKernelsFor(isa);
    })) << IsaName(isa);
  }
}

std::vector<float> RandomRow(int64_t n, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> row(n);
  for (auto& value : row) value = normal(random);
  return row;
}

// Distance in units of the last place of the exact value.
double Ulps(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : 1e9;
  const int exponent = std::max(std::ilogb(exact == 0 ? 0x1p-149 : exact), -126);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 23);
}

TEST(ElementwiseKernelTest, ExpIsWithinTwoUlpsEverywhere) {
  std::vector<float> x;
  for (float value = -110; value < 90; value += 0.00173f) x.push_back(value);
  for (float value :
       {0.0f, -0.0f, 1e-30f, -1e-8f, 88.72283f, 88.72284f, -87.33655f, -103.97f, -104.1f, 1e30f, -1e30f}) {
    x.push_back(value);
  }
  for (const auto& [name, kernels] : RunnableKernels()) {
    std::vector<float> out(x.size());
    kernels->exp(x.data(), static_cast<int64_t>(x.size()), out.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(Ulps(out[i], std::exp(double{x[i]})), 2.0) << name << " exp(" << x[i] << ") = " << out[i];
    }
  }
}

TEST(ElementwiseKernelTest, ExpOfSpecialValues) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t n : {1, 8, 16, 19}) {
      std::vector<float> x(n), out(n);
      for (const auto& [in, want] : {std::pair{kInf, kInf}, {-kInf, 0.0f}, {0.0f, 1.0f}}) {
        std::fill(x.begin(), x.end(), in);
        kernels->exp(x.data(), n, out.data());
        for (float value : out) ASSERT_EQ(value, want) << name;
      }
      std::fill(x.begin(), x.end(), kNan);
      kernels->exp(x.data(), n, out.data());
      for (float value : out) ASSERT_TRUE(std::isnan(value)) << name;
    }
  }
}

double Silu(double x) { return x / (1 + std::exp(-x)); }
double GeluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST(ElementwiseKernelTest, GatesEqualTheirFormulas) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t n : kLengths) {
      auto gate = RandomRow(n, 4, 1);
      if (n > 8) {
        gate[0] = 0;
        gate[1] = -200;
        gate[2] = 200;
        gate[3] = 1e-20f;
        gate[4] = -12;
      }
      const auto up = RandomRow(n, 1, 2);
      auto silu = gate, gelu = gate;
      kernels->silu_mul(silu.data(), up.data(), n);
      kernels->gelu_tanh_mul(gelu.data(), up.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const double x = gate[i], s = Silu(x) * up[i], g = GeluTanh(x) * up[i];
        // exp amplifies the rounding of its argument: |argument| * 2^-24 relative, with |argument| below 12 x here.
        ASSERT_NEAR(silu[i], s, std::abs(s) * 1e-6 * (1 + std::abs(x)) + 1e-37) << name << " " << x;
        ASSERT_NEAR(gelu[i], g, std::abs(g) * 4e-7 * (1 + std::abs(x * (1 + x * x))) + 1e-14) << name << " " << x;
      }
    }
  }
}

TEST(ElementwiseKernelTest, GatesPassNanOn) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    std::vector<float> gate(20, kNan), gelu(20, kNan);
    const std::vector<float> up(20, 1.0f);
    kernels->silu_mul(gate.data(), up.data(), 20);
    kernels->gelu_tanh_mul(gelu.data(), up.data(), 20);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(std::isnan(gate[i]) && std::isnan(gelu[i])) << name;
  }
}

TEST(ElementwiseKernelTest, RmsNormEqualsItsFormula) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t n : kLengths) {
      if (n == 0) continue;
      const auto x = RandomRow(n, 3, 1), weight = RandomRow(n, 1, 2);
      std::vector<float> out(n + 1, 9.0f);
      kernels->rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
      double sum = 0;
      for (float value : x) sum += double{value} * value;
      const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5f);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_NEAR(out[i], x[i] * scale * weight[i], std::abs(x[i] * scale * weight[i]) * 2e-6) << name << " " << n;
      }
      ASSERT_EQ(out[n], 9.0f) << name << ": wrote past the row";
    }
  }
}

TEST(ElementwiseKernelTest, AddsAndWidensExactly) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t n : kLengths) {
      auto x = RandomRow(n, 1, 1);
      const auto y = RandomRow(n, 1, 2);
      const auto before = x;
      kernels->add(x.data(), y.data(), n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], before[i] + y[i]) << name;

      std::vector<uint16_t> bf16(n, 0x3fc0);  // 1.5
      std::vector<float> out(n);
      kernels->widen_scaled(bf16.data(), 3.0f, n, out.data());
      for (float value : out) ASSERT_EQ(value, 4.5f) << name;
    }
  }
}

TEST(ElementwiseKernelTest, KernelsOfTheLogSoftmaxEqualDoubleSums) {
  for (const auto& [name, kernels] : RunnableKernels()) {
    for (int64_t n : kLengths) {
      auto p = RandomRow(n, 3, 1);
      auto q = RandomRow(n, 3, 2);
      if (n > 2) p[2] = -kInf;
      float max = -kInf;
      double sum = 0, kl = 0;
      for (int64_t i = 0; i < n; ++i) {
        max = std::max(max, p[i]);
        sum += std::exp(double{p[i]} - 1.5);
        if (std::isfinite(p[i])) kl += std::exp(double{p[i]} - 4.0) * ((p[i] - 4.0) - (q[i] - 3.0));
      }
      ASSERT_EQ(kernels->max(p.data(), n), max) << name;
      ASSERT_NEAR(kernels->sum_exp(p.data(), 1.5f, n), sum, 4e-6 * sum) << name;
      ASSERT_NEAR(kernels->kl(p.data(), 4.0f, q.data(), 3.0f, n), kl, 1e-5 * (1 + std::abs(kl))) << name << " " << n;
    }
  }
}

class ElementwiseTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!HasIsa(GetParam())) GTEST_SKIP() << "this processor lacks " << IsaName(GetParam());
    before_ = ActiveIsa();
    SetActiveIsaForTest(GetParam());
  }
  void TearDown() override {
    if (HasIsa(GetParam())) SetActiveIsaForTest(before_);
  }
  Isa before_ = Isa::kScalar;
};

TEST_P(ElementwiseTest, LogSumExpOfAVocabulary) {
  for (int64_t n : {1, 5, 2048, 2049, 49152, 262144}) {
    const auto x = RandomRow(n, 5, 3);
    double exact = 0;
    for (float value : x) exact += std::exp(double{value} - 10);
    EXPECT_NEAR(LogSumExp(x), 10 + std::log(exact), 2e-6) << n;
  }
  EXPECT_NEAR(LogSumExp(std::vector<float>(262144, 7.0f)), 7 + std::log(262144.0), 1e-6);
}

TEST_P(ElementwiseTest, LogSumExpOfExtremes) {
  EXPECT_EQ(LogSumExp({}), -kInf);
  EXPECT_EQ(LogSumExp(std::vector<float>(9, -kInf)), -kInf);
  EXPECT_EQ(LogSumExp(std::vector<float>{1, kInf, 2}), kInf);
  EXPECT_TRUE(std::isnan(LogSumExp(std::vector<float>{1, kNan, 2})));
  EXPECT_NEAR(LogSumExp(std::vector<float>{3e38f, 3e38f}), 3e38f, 1e32);
  EXPECT_NEAR(LogSumExp(std::vector<float>{-3e38f}), -3e38f, 1e32);
}

TEST_P(ElementwiseTest, ArgMaxIsTheFirstOfEquals) {
  for (int64_t n : {1, 8, 17, 100}) {
    for (int64_t at = 0; at < n; ++at) {
      std::vector<float> x(n, 0.5f);
      x[at] = 2;
      if (at + 1 < n) x[n - 1] = 2;
      EXPECT_EQ(ArgMax(x), at);
    }
  }
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, -1, -2}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, kNan}), 0);
}

TEST_P(ElementwiseTest, KlDivergenceEqualsTheDoubleSum) {
  for (int64_t n : {2, 100, 49152}) {
    const auto p = RandomRow(n, 3, 4);
    auto q = p;
    const auto noise = RandomRow(n, 0.05f, 5);
    for (int64_t i = 0; i < n; ++i) q[i] += noise[i];
    const double p_lse = LogSumExp(p), q_lse = LogSumExp(q);
    double exact = 0;
    for (int64_t i = 0; i < n; ++i) exact += std::exp(p[i] - p_lse) * ((p[i] - p_lse) - (q[i] - q_lse));
    EXPECT_NEAR(KlDivergence(p, p_lse, q, q_lse), exact, 3e-6) << n;
    EXPECT_NEAR(KlDivergence(p, p_lse, p, p_lse), 0, 1e-9) << n;
  }
}

TEST_P(ElementwiseTest, PooledCallsEqualTheKernels) {
  ThreadPool pool(3);
  const int64_t rows = 77, n = 640;
  const auto x = RandomRow(rows * n, 2, 6), up = RandomRow(rows * n, 1, 7), weight = RandomRow(n, 1, 8);
  const auto& kernels = ElementwiseKernelsFor(GetParam());
  auto pooled = x, alone = x;
  SiluMul(pooled.data(), up.data(), rows * n, pool);
  GeluTanhMul(pooled.data(), up.data(), rows * n, pool);
  AddInPlace(pooled.data(), up.data(), rows * n, pool);
  RmsNorm({pooled.data(), weight.data(), pooled.data(), rows, n, 1e-6f}, pool);
  kernels.silu_mul(alone.data(), up.data(), rows * n);
  kernels.gelu_tanh_mul(alone.data(), up.data(), rows * n);
  kernels.add(alone.data(), up.data(), rows * n);
  for (int64_t row = 0; row < rows; ++row) {
    kernels.rms_norm(alone.data() + row * n, weight.data(), 1e-6f, n, alone.data() + row * n);
  }
  EXPECT_EQ(pooled, alone);
}

TEST_P(ElementwiseTest, EmbedsTheRowsAsked) {
  ThreadPool pool(2);
  const int64_t n = 19;
  std::vector<uint16_t> table(4 * n);
  for (int row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < n; ++i) table[row * n + i] = static_cast<uint16_t>(0x3f80 + 0x80 * row);  // 2^row
  }
  const std::vector<int32_t> ids = {3, 0, 3, 1, 2};
  std::vector<float> out(ids.size() * n);
  EmbedRows(table.data(), n, ids, 0.5f, out.data(), pool);
  for (size_t row = 0; row < ids.size(); ++row) {
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[row * n + i], std::ldexp(0.5f, ids[row]));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryLevel, ElementwiseTest, testing::ValuesIn(kEveryIsa),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

}  // namespace
}  // namespace haypile
