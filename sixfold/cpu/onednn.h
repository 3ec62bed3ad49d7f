// Owners of oneDNN's C handles, without exceptions.
//
// Debian's oneDNN runs on OpenMP, and Pool keeps OpenMP to one thread: a primitive runs inline where it is
// called, so kernels split their work themselves and call one primitive per task. One engine and one stream
// serve all: on the CPU they hold no state, and tasks may execute on them at the same time.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sixfold/base/dim.h"
#include "sixfold/base/result.h"

namespace sixfold::cpu::onednn {

dnnl_engine_t engine();
dnnl_stream_t stream();

// Owns a handle; Destroy is oneDNN's function for it.
template <typename Handle, dnnl_status_t (*Destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) Destroy(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

// Whether the CPU multiplies bfloat16 faster than f32.
bool multiplies_bf16();

// Descriptors of float tensors
dnnl_memory_desc_t of_tag(const Shape& dims, dnnl_format_tag_t tag, dnnl_data_type_t type = dnnl_f32);
dnnl_memory_desc_t of_strides(const Shape& dims, const Shape& strides);
// The layout is the primitive's choice.
dnnl_memory_desc_t any(const Shape& dims, dnnl_data_type_t type = dnnl_f32);

// A place for data; the data is not owned.
class Memory {
 public:
  Memory() = default;
  explicit Memory(const dnnl_memory_desc_t& desc, void* data = nullptr);
  void set(const void* data) { dnnl_memory_set_data_handle(handle_.get(), const_cast<void*>(data)); }
  dnnl_memory_t get() const { return handle_.get(); }

 private:
  Owned<dnnl_memory_t, dnnl_memory_destroy> handle_;
};

// What a primitive does to its result on the way out. Scratch is the caller's.
class PostOps {
 public:
  PostOps();
  void sum() { dnnl_post_ops_append_sum(ops_.get(), 1.0f); }  // adds what dst holds
  void eltwise(dnnl_alg_kind_t kind, float alpha, float beta) {
    dnnl_post_ops_append_eltwise(ops_.get(), 1.0f, kind, alpha, beta);
  }
  dnnl_primitive_attr_t attr();

 private:
  Owned<dnnl_post_ops_t, dnnl_post_ops_destroy> ops_;
  Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attr_;
};

class Primitive {
 public:
  Primitive() = default;
  // Unsupported when oneDNN has no implementation, or only its slow reference.
  static Result<Primitive> create(const_dnnl_op_desc_t desc, PostOps& post_ops);
  static Result<Primitive> reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to);

  std::string_view implementation() const { return implementation_; }
  dnnl_memory_desc_t desc(dnnl_query_t what, int index = 0) const;
  size_t scratch_bytes() const { return scratch_bytes_; }
  // The arguments' descriptors were checked when the primitive was made: execution cannot fail.
  void execute(std::span<const dnnl_exec_arg_t> args) const {
    dnnl_primitive_execute(primitive_.get(), stream(), static_cast<int>(args.size()), args.data());
  }

 private:
  static Result<Primitive> create(dnnl_primitive_desc_t desc);
  Owned<dnnl_primitive_t, dnnl_primitive_destroy> primitive_;
  std::string_view implementation_;
  size_t scratch_bytes_ = 0;
};

}  // namespace sixfold::cpu::onednn
