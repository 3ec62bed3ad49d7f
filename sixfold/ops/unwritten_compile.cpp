// Stands in for parts not yet written, so that the rest links. Removed when the last part is there.
#include "sixfold/ops/op.h"
#include "sixfold/ops/aten.h"
namespace sixfold::infer {
__attribute__((weak)) InferResult same_as_input(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult predicate(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult to(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult broadcast(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult compare(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult where(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult prelu(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult reduce(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult arg_reduce(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult values_and_indices(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult matmul(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult linear(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult convolution(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult sdpa(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult lstm(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult rnn(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult max_pool(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult avg_pool(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult adaptive_pool(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult adaptive_max_pool(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult upsample(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult grid_sampler(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult pixel_shuffle(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult pixel_unshuffle(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult im2col(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult col2im(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult reshape(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult permute(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult expand(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult slice(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult concat(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult pad(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult repeat(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult full(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult arange(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult random(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult gather(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult index_select(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult embedding(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult index(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult scatter(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult index_put(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult slice_scatter(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult topk(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult searchsorted(const InferCall& c) { return unsupported("no inference for ", c.op); }
__attribute__((weak)) InferResult quantize(const InferCall& c) { return unsupported("no inference for ", c.op); }
}  // namespace sixfold::infer
namespace sixfold::aten {
#define EMPTY(name) __attribute__((weak)) std::span<const AtenRule> name() { return {}; }
EMPTY(unary_rules) EMPTY(binary_rules) EMPTY(reduce_rules) EMPTY(norm_rules) EMPTY(matmul_rules) EMPTY(conv_rules)
EMPTY(attention_rules) EMPTY(rnn_rules) EMPTY(pool_rules) EMPTY(image_rules) EMPTY(shape_rules) EMPTY(index_rules)
EMPTY(quantize_rules)
}  // namespace sixfold::aten
