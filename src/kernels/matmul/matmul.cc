#include "kernels/matmul/matmul.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "kernels/isa/isa.h"
#include "kernels/matmul/gemv.h"

namespace haypile {
namespace {

// From this many rows on, a panel of weights brought into FP32 once is used often enough to pay for that.
constexpr int64_t kGemmRows = 32;
// Rows of x and of W that a task multiplies: a panel of W is brought into FP32 once for all of the rows. Products of
// few rows or with few rows of W take smaller tasks, so that every worker gets several.
struct TaskShape {
  int64_t rows, panel_rows;
};
constexpr TaskShape kTaskShapes[] = {{512, 128}, {512, 64}, {256, 64}, {128, 64}};
constexpr int64_t kTasksPerWorker = 8;
constexpr int64_t kPanelRows = kTaskShapes[0].panel_rows;
// Of these oneDNN multiplies so many rows of x at once, at 80 to 90% of peak. Tiles begin at multiples of this whatever
// the task: SGEMM's roundings depend on the number of rows.
constexpr int64_t kTileRows = 128;
// BF16 numbers whose sum is an activation.
constexpr int64_t kSplitParts = 3;
// Packed weights are multiplied so many columns of x at a time, a multiple of what GemvKernels::pack wants: a slice of
// a panel stays in the second-level cache, and no FP32 sum has more terms, so that roundings are those of SGEMM.
constexpr int64_t kMostSliceColumns = 384;
constexpr int64_t kLeastSliceColumns = 128;
constexpr int64_t kPackStep = 32;
// Row counts of products that the library compiles for their shape are rounded up to this, so that these are few.
constexpr int64_t kRowStep = 16;
static_assert(kTileRows % kRowStep == 0);
// Weights that one GEMV task reads: a few microseconds of memory bandwidth.
constexpr int64_t kGemvTaskBytes = 64 << 10;
constexpr int64_t kGemvRowStep = 8;
// Rows of x that one pass over a task's weights takes, so that they stay in the second-level cache.
constexpr int64_t kGemvBlockRows = kGemmRows;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t step) { return CeilDiv(a, step) * step; }

// Tasks of all outputs stand in one row; finds the output that task `index` belongs to and the task's place in it.
template <typename TasksOf>
size_t FindOutput(std::span<const MatmulOutput> outputs, size_t index, const TasksOf& tasks_of, int64_t* place) {
  size_t output = 0;
  int64_t left = static_cast<int64_t>(index);
  while (left >= tasks_of(outputs[output])) left -= tasks_of(outputs[output++]);
  *place = left;
  return output;
}

template <typename TasksOf>
int64_t CountTasks(std::span<const MatmulOutput> outputs, const TasksOf& tasks_of) {
  int64_t count = 0;
  for (const auto& output : outputs) count += tasks_of(output);
  return count;
}

// The largest slice that k is a multiple of; k itself if it is small; 0: none.
int64_t SliceColumns(int64_t k) {
  if (k % kPackStep != 0 || k <= kMostSliceColumns) return k % kPackStep == 0 ? k : 0;
  int64_t slice = kMostSliceColumns;
  while (k % slice != 0) slice -= kPackStep;
  return slice < kLeastSliceColumns ? 0 : slice;
}

// A task's part of y and a slice of its panel; or a panel with k columns.
int64_t PanelBytes(int64_t k) {
  return kPanelRows * std::max(kTaskShapes[0].rows + kMostSliceColumns, k) * static_cast<int64_t>(sizeof(float));
}

Status Grow(AlignedBuffer& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.size_bytes()) >= bytes) return {};
  buffer = AlignedBuffer();
  HAYPILE_TRY_ASSIGN(buffer, AlignedBuffer::Allocate(bytes));
  return {};
}

}  // namespace

const GemvKernels& GemvKernelsFor(Isa isa) {
#if defined(__x86_64__)
  if (IncludesAvx512(isa)) return kGemvAvx512;
  if (isa == Isa::kAvx2) return kGemvAvx2;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return kGemvNeon;
#endif
  HAYPILE_CHECK(isa == Isa::kScalar);
  return kGemvScalar;
}

// Rows of x times a panel of rows of W.
struct Matmul::Tile {
  const MatmulOutput* output = nullptr;
  const float* x = nullptr;       // all of x, FP32
  const float* slices = nullptr;  // the same from SliceRows
  int64_t x_rows = 0;
  int64_t first_row = 0;  // of x
  int64_t rows = 0;
  int64_t first_column = 0;  // of y: row of W
  int64_t columns = 0;
};

Matmul::Products Matmul::FastestProducts() { return ActiveIsa() == Isa::kAmx ? Products::kSplitBf16 : Products::kFp32; }

Matmul::Matmul(ThreadPool& pool, Products products)
    : pool_(pool), products_(products), panels_(pool.size()), packed_(pool.size()), bf16_(pool.size()) {}

Status Matmul::Reserve(int64_t m, int64_t k) {
  const int64_t activation_bytes = products_ == Products::kSplitBf16 ? 2 * kSplitParts : 4;
  HAYPILE_TRY(Grow(x_, RoundUp(m, kRowStep) * k * activation_bytes));
  for (auto& panel : panels_) {
    HAYPILE_TRY(Grow(panel, PanelBytes(k)));
  }
  return {};
}

void Matmul::Run(const float* x, int64_t m, std::span<const MatmulOutput> outputs) {
  if (m == 0 || outputs.empty()) return;
  const int64_t k = outputs[0].weights.columns;
  for (const auto& output : outputs) HAYPILE_CHECK_EQ(output.weights.columns, k);
  HAYPILE_CHECK_LE(m * k * static_cast<int64_t>(sizeof(float)), static_cast<int64_t>(x_.size_bytes()));
  HAYPILE_CHECK_LE(PanelBytes(k), static_cast<int64_t>(panels_[0].size_bytes()));
  // The scalar level is the reference for every m.
  if (m < kGemmRows || !HasOnednn() || ActiveIsa() == Isa::kScalar) {
    RunGemv(x, m, outputs);
  } else {
    RunGemm(x, m, outputs);
  }
}

void Matmul::RunGemv(const float* x, int64_t m, std::span<const MatmulOutput> outputs) {
  const GemvKernels& kernels = GemvKernelsFor(ActiveIsa());
  const int64_t k = outputs[0].weights.columns;
  float* prepared = x_.as<float>();
  for (int64_t i = 0; i < m; ++i) kernels.prepare(x + i * k, k, prepared + i * k);

  const int64_t rows_per_task =
      RoundUp(std::max<int64_t>(kGemvTaskBytes / (k * static_cast<int64_t>(sizeof(uint16_t))), 1), kGemvRowStep);
  const auto tasks_of = [&](const MatmulOutput& output) { return CeilDiv(output.weights.rows, rows_per_task); };
  const auto tasks = static_cast<size_t>(CountTasks(outputs, tasks_of));
  const auto body = [&](size_t index, int /*worker*/) {
    int64_t place = 0;
    const MatmulOutput& output = outputs[FindOutput(outputs, index, tasks_of, &place)];
    const int64_t first = place * rows_per_task;
    const uint16_t* next_weights = nullptr;
    const size_t after = index + static_cast<size_t>(pool_.size());
    if (after < tasks) {
      int64_t next_place = 0;
      const MatmulOutput& next = outputs[FindOutput(outputs, after, tasks_of, &next_place)];
      next_weights = next.weights.data + next_place * rows_per_task * k;
    }
    for (int64_t i = 0; i < m; i += kGemvBlockRows) {
      kernels.run({.weights = output.weights.data + first * k,
                   .rows = std::min(rows_per_task, output.weights.rows - first),
                   .k = k,
                   .x = prepared + i * k,
                   .m = std::min(kGemvBlockRows, m - i),
                   .y = output.y + i * output.y_stride + first,
                   .y_stride = output.y_stride,
                   .bias = output.bias != nullptr ? output.bias + first : nullptr,
                   .next_weights = next_weights});
    }
  };
  pool_.ParallelFor(tasks, std::cref(body));
}

// The high parts of all rows, then the middle ones, then the low ones; each padded with rows of zero to kRowStep.
void Matmul::SplitRows(const float* x, int64_t m, int64_t k) {
  const GemvKernels& kernels = GemvKernelsFor(ActiveIsa());
  const int64_t padded = RoundUp(m, kRowStep);
  uint16_t* high = x_.as<uint16_t>();
  uint16_t* middle = high + padded * k;
  uint16_t* low = middle + padded * k;
  const auto split_row = [&](size_t i, int /*worker*/) {
    kernels.split(x + i * k, k, high + i * k, middle + i * k, low + i * k);
  };
  pool_.ParallelFor(m, std::cref(split_row));
  for (uint16_t* part : {high, middle, low}) std::memset(part + m * k, 0, (padded - m) * k * sizeof(uint16_t));
}

// x as [slice][rows][columns of a slice], each slice padded with rows of zero to kRowStep; null if k has no slices.
const float* Matmul::SliceRows(const float* x, int64_t m, int64_t k) {
  const int64_t columns = SliceColumns(k);
  if (columns == 0) return nullptr;
  const int64_t padded = RoundUp(m, kRowStep);
  float* slices = x_.as<float>();
  const auto slice_row = [&](size_t i, int /*worker*/) {
    for (int64_t j = 0; j < k; j += columns) {
      std::memcpy(slices + j * padded + i * columns, x + i * k + j, columns * sizeof(float));
    }
  };
  pool_.ParallelFor(m, std::cref(slice_row));
  for (int64_t j = 0; j < k; j += columns) {
    std::memset(slices + j * padded + m * columns, 0, (padded - m) * columns * sizeof(float));
  }
  return slices;
}

void Matmul::RunGemm(const float* x, int64_t m, std::span<const MatmulOutput> outputs) {
  const int64_t k = outputs[0].weights.columns;
  const float* slices = nullptr;
  if (products_ == Products::kSplitBf16) {
    SplitRows(x, m, k);
  } else {
    slices = SliceRows(x, m, k);
  }
  TaskShape shape = kTaskShapes[0];
  int64_t row_blocks = 0;
  const auto tasks_of = [&](const MatmulOutput& output) {
    return CeilDiv(output.weights.rows, shape.panel_rows) * row_blocks;
  };
  for (const TaskShape& candidate : kTaskShapes) {
    shape = candidate;
    row_blocks = CeilDiv(m, shape.rows);
    if (CountTasks(outputs, tasks_of) >= kTasksPerWorker * pool_.size()) break;
  }
  const auto body = [&](size_t index, int worker) {
    int64_t place = 0;
    const MatmulOutput& output = outputs[FindOutput(outputs, index, tasks_of, &place)];
    Tile tile{.output = &output, .x = x, .slices = slices, .x_rows = m};
    tile.first_row = place % row_blocks * shape.rows;
    tile.rows = std::min(shape.rows, m - tile.first_row);
    tile.first_column = place / row_blocks * shape.panel_rows;
    tile.columns = std::min(shape.panel_rows, output.weights.rows - tile.first_column);
    MultiplyTask(tile, worker);
  };
  pool_.ParallelFor(CountTasks(outputs, tasks_of), std::cref(body));
}

// Calls multiply(tile) for the rows of a task, kTileRows at once, until one returns false.
template <typename Multiply>
bool Matmul::ForTiles(const Tile& task, const Multiply& multiply) {
  Tile tile = task;
  for (const int64_t end = task.first_row + task.rows; tile.first_row < end; tile.first_row += kTileRows) {
    tile.rows = std::min(kTileRows, end - tile.first_row);
    if (!multiply(tile)) return false;
  }
  return true;
}

// The products of a tile, [rows][columns], to where they belong.
void Matmul::CopyOut(const Tile& tile, const float* products) {
  const MatmulOutput& output = *tile.output;
  for (int64_t i = 0; i < tile.rows; ++i) {
    std::memcpy(output.y + (tile.first_row + i) * output.y_stride + tile.first_column, products + i * tile.columns,
                tile.columns * sizeof(float));
  }
}

// False when the library has no BF16 products here.
bool Matmul::MultiplySplit(const Tile& tile, int worker) {
  const int64_t k = tile.output->weights.columns;
  const uint16_t* weights = tile.output->weights.data + tile.first_column * k;
  const GemmShape shape{RoundUp(tile.rows, kRowStep), tile.columns, k};
  const uint16_t* part = x_.as<uint16_t>() + tile.first_row * k;
  float* sums = panels_[worker].as<float>();
  for (int i = 0; i < kSplitParts; ++i, part += RoundUp(tile.x_rows, kRowStep) * k) {
    const auto output_of = i == 0 ? GemmOutput::kPut : GemmOutput::kAdd;
    if (!bf16_[worker].Run(shape, part, weights, output_of, sums)) return false;
  }
  CopyOut(tile, sums);
  return true;
}

// False when the library has no kernels for packed weights of these shapes.
bool Matmul::MultiplyPacked(const Tile& task, int worker) {
  if (task.slices == nullptr) return false;
  const int64_t k = task.output->weights.columns, columns = SliceColumns(k);
  const uint16_t* weights = task.output->weights.data + task.first_column * k;
  PackedGemm& gemm = packed_[worker];
  float* products = panels_[worker].as<float>();
  float* panel = products + kTaskShapes[0].rows * kPanelRows;
  for (int64_t first = 0; first < k; first += columns) {
    const GemmOutput output = first == 0 ? GemmOutput::kPut : GemmOutput::kAdd;
    int64_t packed_block = 0;
    const bool done = ForTiles(task, [&](const Tile& tile) {
      const GemmShape shape{RoundUp(tile.rows, kRowStep), tile.columns, columns};
      const int64_t block = gemm.Block(shape, output);
      if (block == 0) return false;
      if (block != packed_block) {
        GemvKernelsFor(ActiveIsa()).pack(weights + first, k, task.columns, columns, block, panel);
        packed_block = block;
      }
      const float* x = task.slices + first * RoundUp(task.x_rows, kRowStep) + tile.first_row * columns;
      return gemm.Run(shape, x, panel, output, products + (tile.first_row - task.first_row) * task.columns);
    });
    if (!done) return false;
  }
  CopyOut(task, products);
  return true;
}

void Matmul::MultiplyPlain(const Tile& task, int worker) {
  const MatmulOutput& output = *task.output;
  const int64_t k = output.weights.columns;
  float* panel = panels_[worker].as<float>();
  GemvKernelsFor(ActiveIsa()).widen(output.weights.data + task.first_column * k, task.columns * k, panel);
  HAYPILE_CHECK(ForTiles(task, [&](const Tile& tile) {
    const GemmShape shape{tile.rows, tile.columns, k};
    float* y = output.y + tile.first_row * output.y_stride + tile.first_column;
    return SgemmOnThisThread(shape, tile.x + tile.first_row * k, k, panel, k, y, output.y_stride);
  }));
}

void Matmul::MultiplyTask(const Tile& task, int worker) {
  const bool done = (products_ == Products::kSplitBf16 &&
                     ForTiles(task, [&](const Tile& tile) { return MultiplySplit(tile, worker); })) ||
                    MultiplyPacked(task, worker);
  if (!done) MultiplyPlain(task, worker);
  AddBias(task);
}

void Matmul::AddBias(const Tile& tile) {
  const MatmulOutput& output = *tile.output;
  if (output.bias == nullptr) return;
  for (int64_t i = 0; i < tile.rows; ++i) {
    float* row = output.y + (tile.first_row + i) * output.y_stride + tile.first_column;
    for (int64_t n = 0; n < tile.columns; ++n) row[n] += output.bias[tile.first_column + n];
  }
}

}  // namespace haypile
