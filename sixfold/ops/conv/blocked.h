// f32 convolution by oneDNN, channels-last inside.
//
// The output is cut into images x blocks of rows x blocks of channels; each cut is one primitive call on one
// thread. A block of rows is a smaller convolution: it reads its rows and their halo, and only the first and
// last block see the padding, so that a handful of primitives serves all tasks. A block of channels writes to
// a dense tile, which is then copied into place: oneDNN's fast code takes no strided output.
//
// A long sum loses accuracy in one chain of f32 additions. It is computed in slices of input channels, each a
// primitive that adds its own short chain to the tile; the slice of the input is made dense first.
#pragma once

#include <vector>

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
  bool first;                                // of the slices: it brings the bias
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

// One slice of the input channels.
struct Part {
  size_t variant, packed;
};

struct Task {
  std::vector<Part> parts;
  int64_t src, dst;  // element offsets of the first point, channels-last
  int64_t first_channel, channels;
  int64_t points_in, points;
};

// oneDNN's names of the operands of one primitive.
struct Handles {
  Memory src, dst, weights, bias, scratch;
};

// What a thread works with. Handles are large (a kilobyte): there are as many as threads, not as tasks.
struct Lane {
  std::vector<Handles> handles;                        // by variant
  size_t slice_offset, tile_offset, primitive_offset;  // of its scratch: dense input and result; oneDNN's own
};

struct Split {
  int64_t rows = 1, channels = 1;  // how many blocks
  int64_t slices = 1;              // of the input channels
};

Split choose_split(const ConvShape& shape);

class BlockedConv final : public Kernel {
 public:
  static KernelResult make(const ConvCall& call);
  Status run(const Buffers& buffers) override;

 private:
  Status add_tasks();
  void add_lanes();
  Result<size_t> variant(const Variant& wanted);
  Result<Primitive> create(const Variant& v);
  size_t packed(int64_t first, int64_t first_in, const Variant& user);
  Result<Packing> packing(const Packed& p) const;
  const float* source(const Packed& p, const float* weights) const;
  Status pack_weights();
  Status prepare_packing();
  // From one output channel to the next.
  int64_t row_weights() const {
    return (shape_.transposed ? 1 : shape_.in_channels / shape_.groups) * numel(shape_.kernel);
  }
  int64_t slice_channels() const { return shape_.in_channels / split_.slices; }
  size_t reserve(size_t bytes) {
    const size_t at = scratch_bytes_;
    scratch_bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  struct Operands {
    const float* src;
    const std::byte* weights;           // packed
    const float *bias, *scale, *shift;  // by output channel, or null
    const float* residual;
    float* dst;
    std::byte* scratch;
  };
  void run_task(const Task& task, Lane& lane, const Operands& operands) const;
  void run_part(const Part& part, const Task& task, Lane& lane, const Operands& operands,
                float* result) const;

  ConvCall call_;
  ConvShape shape_;  // call_.shape, with the points of a pointwise convolution as one row axis
  Split split_;
  std::vector<Variant> variants_;
  std::vector<dnnl_memory_desc_t> layouts_;  // of packed weights
  std::vector<Packed> packed_;
  std::vector<Packing> packing_;  // when weights come with each run
  OwnedBlock packed_memory_;
  size_t packed_bytes_ = 0;
  std::vector<Task> tasks_;
  std::vector<Lane> lanes_;
  size_t src_offset_ = 0, dst_offset_ = 0, residual_offset_ = 0;  // of transposed copies in scratch
};

}  // namespace blocked
}  // namespace sixfold::cpu
