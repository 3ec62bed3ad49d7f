// f32 convolution by oneDNN, channels-last inside.
//
// The output is cut into images x blocks of rows x blocks of channels; each cut is one primitive call on one
// thread. A block of rows is a smaller convolution: it reads its rows and their halo, and only the first and
// last block see the padding, so that a handful of primitives serves all tasks. A block of channels writes to
// a dense tile, which is then copied into place: oneDNN's fast code takes no strided output.
//
// A long sum loses accuracy in one chain of f32 additions. It is computed in slices of input channels, each
// of which adds its own short chain to the tile, that begins as the bias; the slice of the input is made
// dense first.
//
// Row-major operands are transposed piece by piece, where a task reads or writes them; the whole input only
// where several tasks read the same rows and do little with them. Of that, a kernel of one tap with a stride
// has only the points that it reads, and is pointwise from there on.
//
// With factors of bfloat16 (conv.h) the whole input is rounded once, and sums are not cut into slices: their
// factors have lost more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sixfold/cpu/copy.h"
#include "sixfold/cpu/onednn.h"
#include "sixfold/ops/conv/conv.h"

namespace sixfold::cpu {
namespace blocked {

using onednn::Memory;
using onednn::Primitive;

// A primitive for one size of task.
struct Variant {
  int64_t rows_in, rows_out, before, after;  // rows and their padding
  int64_t channels;                          // of the output
  Primitive primitive;
  size_t layout;  // of its weights
};

// Weights of one block of output channels and one slice of input channels, in the layout of a primitive.
struct Packed {
  int64_t first, channels, first_in;
  size_t layout;
  size_t offset;  // in the memory of packed weights, which is scratch when they come with each run
};

// Brings them there.
struct Packing {
  Memory from, to;
  Primitive reorder;
};

struct Task {
  size_t variant;
  std::vector<size_t> slices;  // of the input channels: the packed weights of each
  int64_t image;
  int64_t first_in, points_in, first, points;  // points of the image that it reads and makes
  int64_t first_channel, channels;
};

// oneDNN's names of the operands of one primitive.
struct Handles {
  Memory src, dst, weights, bias, scratch;
};

// What a thread works with. Handles are large (a kilobyte): there are as many as threads, not as tasks.
struct Lane {
  std::vector<Handles> handles;  // by variant
  // Of its scratch: dense input, result and residual of a task; oneDNN's own.
  size_t input_offset, tile_offset, residual_offset, primitive_offset;
};

struct Split {
  int64_t rows = 1, channels = 1;  // how many blocks
  int64_t slices = 1;              // of the input channels
};

Split choose_split(const ConvShape& shape);

// All of a convolution but its weights and what it does with results: convolutions of one shape share it.
class BlockedPlan {
 public:
  // Of a call's weights and allocator nothing is used.
  static Result<std::shared_ptr<BlockedPlan>> make(const ConvCall& call);
  static std::string key(const ConvCall& call);

  // Whether a task works on a dense piece of its own, and copies from or to the operand.
  bool tiles_input() const { return split.slices > 1 || tiles_row_major_input(); }
  bool tiles_row_major_input() const { return row_major_in && src_offset == SIZE_MAX && !bf16; }
  bool tiles_result() const { return split.channels > 1 || row_major_out; }
  // Whether primitives add to what is there: other slices and the bias, or a residual. A norm comes before
  // the residual.
  bool adds() const { return split.slices > 1 || (residual && !norm); }
  bool primitives_add_bias() const { return bias && split.slices == 1; }

  int64_t slice_channels() const { return shape.in_channels / split.slices; }
  // From one output channel to the next.
  int64_t row_weights() const {
    return (shape.transposed ? 1 : shape.in_channels / shape.groups) * numel(shape.kernel);
  }
  const float* source(const Packed& p, const float* weights) const {
    return weights + p.first * row_weights() + p.first_in * numel(shape.kernel);
  }
  Result<Packing> packing(const Packed& p) const;

  ConvShape shape;  // the call's, with the points of a pointwise convolution as one row axis
  std::optional<StridedCopy> picking;  // of the points that are read
  bool row_major_in, row_major_out, row_major_residual, bias, residual, norm;
  bool bf16;  // factors
  Split split;
  std::vector<Variant> variants;
  std::vector<dnnl_memory_desc_t> layouts;  // of packed weights
  std::vector<Packed> packed;
  size_t packed_bytes = 0;
  std::vector<Packing> packings;  // when weights come with each run
  std::vector<Task> tasks;
  std::vector<Lane> lanes;
  size_t src_offset = SIZE_MAX;   // of a transposed copy of the whole input in scratch, if there is one
  size_t bf16_offset = SIZE_MAX;  // of the input as bfloat16, channels-last, if it is rounded
  size_t scratch_bytes = 0;

 private:
  Status make_pointwise(const ConvCall& call);
  Status add_tasks();
  void add_lanes();
  bool transposes_in_tasks() const;
  Result<size_t> variant(const Variant& wanted);
  Result<Primitive> create(const Variant& v);
  size_t pack(int64_t first, int64_t first_in, const Variant& user);
  Status prepare_packing();
  size_t reserve(size_t bytes) {
    const size_t at = scratch_bytes;
    scratch_bytes += (bytes + 63) / 64 * 64;
    return at;
  }
};

class BlockedConv final : public Kernel {
 public:
  static KernelResult make(const ConvCall& call);
  Status run(const Buffers& buffers) override;

 private:
  struct Operands {
    const float* src;
    const uint16_t* src_bf16;           // instead, where factors are bfloat16
    const std::byte* weights;           // packed
    const float *bias, *scale, *shift;  // by output channel, or null
    const float* residual;
    float* dst;
    std::byte* scratch;
  };
  Result<OwnedBlock> pack_weights(const ConvCall& call) const;
  const void* input(const Packed& weights, const Task& task, const Lane& lane,
                    const Operands& operands) const;
  void run_slice(const Packed& weights, const Task& task, Lane& lane, const Operands& operands,
                 float* result) const;
  void copy_residual(const Task& task, const Operands& operands, float* to) const;
  void begin_result(const Task& task, const Operands& operands, float* result) const;
  void run_task(const Task& task, Lane& lane, const Operands& operands) const;

  std::shared_ptr<BlockedPlan> plan_;
  UnaryF32 activation_;
  std::shared_ptr<const OwnedBlock> packed_memory_;  // null: weights come with each run
};

}  // namespace blocked
}  // namespace sixfold::cpu
