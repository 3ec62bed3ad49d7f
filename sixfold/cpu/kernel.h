// A CPU kernel: made once per node at plan time, run many times. Knows nothing of graphs or files.
//
// Making chooses the code path (dtype, layout, CPU features), packs weights and fixes the split over tasks.
// Running allocates nothing and gives the same bits whatever the number of threads: the split depends on
// shapes alone.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "sixfold/base/allocator.h"
#include "sixfold/base/attr.h"
#include "sixfold/base/dim.h"
#include "sixfold/base/dtype.h"
#include "sixfold/base/result.h"
#include "sixfold/cpu/pool.h"
#include "sixfold/ops/op.h"

namespace sixfold::cpu {

struct TensorDesc {
  DType dtype = DType::none;  // none: an optional operand that is absent
  Shape shape;
  Shape strides;  // in elements; dense: row-major, or channels-last where the op's layout allows it
  const void* constant =
      nullptr;  // the data, when known at plan time (constants); lives as long as the kernel

  bool present() const { return dtype != DType::none; }
  size_t rank() const { return shape.size(); }
  int64_t count() const { return numel(shape); }
  size_t size_bytes() const { return static_cast<size_t>(count()) * size_of(dtype); }
};
bool is_row_major(const TensorDesc& t);
bool is_channels_last(const TensorDesc& t);  // [N, C, ...spatial] stored as [N, ...spatial, C]; rank 3 to 5
Shape channels_last_strides(const Shape& shape);

// What kernels of one program have in common while they live, such as how convolutions of one shape are cut.
// Such kernels do not run at the same time, so that it may hold what a run works with; they may be made at
// the same time.
class SharedParts {
 public:
  // The part with this key, or what make() gives: a Result<std::shared_ptr<T>>. A key stands for one T.
  template <typename T, typename Make>
  Result<std::shared_ptr<T>> get(const std::string& key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = parts_.find(key); found != parts_.end())
        if (auto part = found->second.lock()) return std::static_pointer_cast<T>(part);
    }
    Result<std::shared_ptr<T>> made = make();
    if (!made.ok()) return made;
    const std::lock_guard lock(mutex_);
    std::erase_if(parts_, [](const auto& part) { return part.second.expired(); });
    parts_[key] = made.value();
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> parts_;
};

struct KernelCall {
  Op op;
  std::span<const TensorDesc> in;
  std::span<const TensorDesc> out;
  const Attrs& attrs;
  Allocator& allocator = system_allocator();  // for packed weights; outlives the kernel
  SharedParts* shared = nullptr;              // of the program; null: of nobody

  TensorDesc input(size_t i) const { return i < in.size() ? in[i] : TensorDesc{}; }
};

struct Buffers {
  std::span<const void* const> in;
  std::span<void* const> out;
  std::byte* scratch;  // Kernel::scratch_bytes(), 64-byte aligned
  Pool& pool;

  template <typename T>
  const T* input(size_t i) const {
    return static_cast<const T*>(in[i]);
  }
  template <typename T>
  T* output(size_t i = 0) const {
    return static_cast<T*>(out[i]);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Fails only on bad data, such as an index out of range.
  virtual Status run(const Buffers& buffers) = 0;
  size_t scratch_bytes() const { return scratch_bytes_; }
  // Out may be the same memory as input 0 (equal sizes). False unless the maker says so.
  bool in_place() const { return in_place_; }
  // An output that nobody reads may be null in Buffers::out. False unless the maker says so.
  bool optional_outputs() const { return optional_outputs_; }
  // The constant that is input 1 was packed: running does not read it.
  bool packed_weights() const { return packed_weights_; }

 protected:
  size_t scratch_bytes_ = 0;
  bool in_place_ = false;
  bool optional_outputs_ = false;
  bool packed_weights_ = false;
};

struct KernelTraits {
  size_t scratch_bytes = 0;
  bool in_place = false;
  bool optional_outputs = false;
};

// A kernel from a function Status(const Buffers&); what it captures is what plan time decided.
template <typename F>
std::unique_ptr<Kernel> make_kernel(F run, KernelTraits traits = {}) {
  class FunctionKernel final : public Kernel {
   public:
    FunctionKernel(F run, KernelTraits traits) : run_(std::move(run)) {
      scratch_bytes_ = traits.scratch_bytes;
      in_place_ = traits.in_place;
      optional_outputs_ = traits.optional_outputs;
    }
    Status run(const Buffers& buffers) override { return run_(buffers); }

   private:
    F run_;
  };
  return std::make_unique<FunctionKernel>(std::move(run), traits);
}

using KernelResult = Result<std::unique_ptr<Kernel>>;

// The makers, one per row of ops/aten.def.
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) KernelResult cpu_fn(const KernelCall& call);
#include "sixfold/ops/aten.def"
#undef OP

// Makes the kernel of a canonical op; Unsupported names what it lacks.
KernelResult make(const KernelCall& call);

}  // namespace sixfold::cpu
