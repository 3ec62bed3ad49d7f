#include "sixfold/cpu/onednn.h"

#include <omp.h>

#include <mutex>

namespace sixfold::cpu::onednn {

dnnl_engine_t engine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t e = nullptr;
    dnnl_engine_create(&e, dnnl_cpu, 0);
    return e;
  }();
  return engine;
}

dnnl_stream_t stream() {
  static const dnnl_stream_t stream = [] {
    dnnl_stream_t s = nullptr;
    dnnl_stream_create(&s, engine(), dnnl_stream_default_flags);
    return s;
  }();
  return stream;
}

bool multiplies_bf16() {
  static const bool does =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
  return does;
}

dnnl_memory_desc_t of_tag(const Shape& dims, dnnl_format_tag_t tag, dnnl_data_type_t type) {
  dnnl_memory_desc_t md;
  dnnl_memory_desc_init_by_tag(&md, static_cast<int>(dims.size()), dims.data(), type, tag);
  return md;
}
dnnl_memory_desc_t of_strides(const Shape& dims, const Shape& strides) {
  dnnl_memory_desc_t md;
  dnnl_memory_desc_init_by_strides(&md, static_cast<int>(dims.size()), dims.data(), dnnl_f32, strides.data());
  return md;
}
dnnl_memory_desc_t any(const Shape& dims, dnnl_data_type_t type) {
  return of_tag(dims, dnnl_format_tag_any, type);
}

Memory::Memory(const dnnl_memory_desc_t& desc, void* data) {
  dnnl_memory_t handle = nullptr;
  dnnl_memory_create(&handle, &desc, engine(), data);
  handle_ = Owned<dnnl_memory_t, dnnl_memory_destroy>(handle);
}

PostOps::PostOps() {
  dnnl_post_ops_t ops = nullptr;
  dnnl_post_ops_create(&ops);
  ops_ = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>(ops);
}

dnnl_primitive_attr_t PostOps::attr() {
  dnnl_primitive_attr_t attr = nullptr;
  dnnl_primitive_attr_create(&attr);
  dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  dnnl_primitive_attr_set_post_ops(attr, ops_.get());
  attr_ = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>(attr);
  return attr;
}

// Threads that ask for the same primitive get one, made by the first: with a lock of ours ThreadSanitizer,
// which does not see into oneDNN, knows that the others waited for it.
static std::mutex making;

Result<Primitive> Primitive::create(const_dnnl_op_desc_t desc, PostOps& post_ops) {
  const std::lock_guard lock(making);
  omp_set_num_threads(1);  // a primitive is made for as many threads as the maker has, and keeps that number
  dnnl_primitive_desc_t pd = nullptr;
  if (const auto status = dnnl_primitive_desc_create(&pd, desc, post_ops.attr(), engine(), nullptr);
      status != dnnl_success)
    return unsupported("oneDNN has no implementation (status ", static_cast<int>(status), ")");
  SF_ASSIGN(Primitive primitive, create(pd));
  const std::string_view name = primitive.implementation();
  if (name.starts_with("ref") || name.starts_with("simple") || name.find("+ref") != name.npos ||
      name.find("ref:any") != name.npos)
    return unsupported("oneDNN has only its reference implementation");
  return primitive;
}

Result<Primitive> Primitive::reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to) {
  const std::lock_guard lock(making);
  omp_set_num_threads(1);
  dnnl_primitive_desc_t pd = nullptr;
  PostOps none;
  if (dnnl_reorder_primitive_desc_create(&pd, &from, engine(), &to, engine(), none.attr()) != dnnl_success)
    return unsupported("oneDNN cannot reorder");
  return create(pd);
}

Result<Primitive> Primitive::create(dnnl_primitive_desc_t pd) {
  const Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> desc(pd);
  Primitive out;
  const char* name = "";
  dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
  dnnl_primitive_t primitive = nullptr;
  if (const auto status = dnnl_primitive_create(&primitive, pd); status != dnnl_success)
    return Error(status == dnnl_out_of_memory ? Code::OutOfMemory : Code::Internal,
                 cat("oneDNN cannot make ", name));
  out.primitive_ = Owned<dnnl_primitive_t, dnnl_primitive_destroy>(primitive);
  out.implementation_ = name;
  const dnnl_memory_desc_t scratch = out.desc(dnnl_query_scratchpad_md);
  out.scratch_bytes_ = dnnl_memory_desc_get_size(&scratch);
  return out;
}

dnnl_memory_desc_t Primitive::desc(dnnl_query_t what, int index) const {
  const_dnnl_primitive_desc_t own = nullptr;  // the primitive has one, which is large: no second is kept
  dnnl_primitive_get_primitive_desc(primitive_.get(), &own);
  const dnnl_memory_desc_t* md = dnnl_primitive_desc_query_md(own, what, index);
  return md ? *md : dnnl_memory_desc_t{};
}

}  // namespace sixfold::cpu::onednn
