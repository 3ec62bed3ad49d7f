// Lowering: an island of canonical nodes to one QNN graph.
//
// A value of the island has one tensor for each way in which it is looked at: axes in torch's order or
// channels last, fixed point or float, the caller's integers or the device's. The first is made by the node
// that computes it, the others by Transpose, Quantize, Dequantize or Cast when somebody asks, once. Rules
// (ops/<family>/lower.cpp, the last column of ops/htp.def) see none of that: they ask for operands and
// results in the form of their node.
#pragma once

#include "sixfold/lower/island.h"
#include "sixfold/lower/types.h"

namespace sixfold {

using qnn::Param;
using qnn::words;

// What a rule sees of one node. After a failure every call does nothing; the driver reports the first.
class Lowering {
 public:
  Lowering(IslandLowering& island, const Node& node);

  // The node
  const Node& node() const { return node_; }
  Op op() const { return node_.op; }
  const Attrs& attrs() const { return node_.attrs; }
  size_t inputs() const { return node_.inputs.size(); }
  bool has(size_t i) const { return node_.input(i).valid(); }
  const Type& type(size_t i = 0) const { return graph().type(node_.input(i)); }  // of an operand
  const Type& out_type(size_t i = 0) const { return graph().type(node_.output(i)); }
  Shape shape(size_t i = 0);  // torch's order; records Unsupported when it is symbolic
  Shape out_shape(size_t i = 0);
  size_t rank(size_t i = 0) const { return type(i).rank(); }
  bool is_used(size_t output) const { return graph().is_used(node_.output(output)); }
  // The data of an operand that is constant (a quantized weight's integers too), or null.
  const Tensor* constant(size_t i) const;
  const Graph& graph() const { return island_.graph(); }

  // The node computes in fixed point: its float operands and results have encodings. Else in float.
  bool quantized() const { return quantized_; }
  const Encoding* encoding(size_t i) const;  // of an operand; null: none
  const Encoding* out_encoding(size_t i = 0) const;

  // Form
  bool channels_last() const { return form_ == Form::channels_last; }
  int64_t axis(int64_t a) const;  // of the operand 0's rank, where the node computes
  std::vector<uint32_t> extents(const Shape& shape) const;  // torch's order -> the node's form
  std::vector<uint32_t> per_axis(const Shape& values) const { return extents(values); }

  // Tensors
  TensorRef in(size_t i = 0);  // in the node's form and mode
  TensorRef in_form(size_t i, Form form);
  TensorRef in_float(size_t i = 0);  // not quantized, whatever the node is
  TensorRef in_fixed(size_t i = 0);  // on its grid, whatever the node is
  TensorRef out(size_t i = 0);       // in the node's form and mode
  TensorRef out_form(size_t i, Form form);
  // For ops that move axes and may read and write either form: whether an operand is there in it already, and
  // the form that those who use output 0 read it in.
  bool has_form(size_t i, Form form) const;
  Form wanted_form() const;
  // An operand that is constant, axes in another order and of another shape (same count) before that:
  // a convolution's weight. Its encoding's axis moves along. zeros: so many places more at the end of each
  // axis, before they are moved.
  TensorRef weight(size_t i, const Shape& order, const Shape& reshaped = {}, const Shape& zeros = {});
  // Scales of a weight that are within this margin of a power of two, of `least` or more, when multiplied by
  // this number grow by twice the margin.
  void keep_from_powers_of_two(TensorRef weight, double by, double margin, double least);
  // A convolution's or a product's bias: float, or 32-bit integers on the grid of x times w.
  TensorRef bias(size_t i, size_t x = 0, size_t w = 1);
  TensorRef constant(Tensor data, const Encoding* encoding = nullptr);  // a new one, as it stands
  TensorRef number(double value, const Encoding* encoding = nullptr);   // [1], in the node's mode
  // Between two ops of one rule, in the node's form when dims are. Dtype and encoding of another tensor.
  TensorRef temp(std::vector<uint32_t> dims, TensorRef like);
  TensorRef temp(std::vector<uint32_t> dims, qnn::DataType dtype, qnn::Quantization quantization = {});
  const qnn::TensorSpec& spec(TensorRef ref) const;

  // Ops
  void add(const char* type, std::vector<TensorRef> in, std::vector<TensorRef> out,
           std::vector<Param> params = {});
  // out(0) from its operands, in order.
  void add_simple(const char* type, std::vector<Param> params = {});
  TensorRef transpose(TensorRef x, const Shape& order);
  TensorRef reshape(TensorRef x, std::vector<uint32_t> dims);
  TensorRef cast(TensorRef x, qnn::DataType dtype);

  // The node is not for the device: a reason in words, with a label "[htp.softmax.1]" when a table has one.
  void refuse(std::string_view reason);

  // What is left to do after the rule.
  void finish();

  const Status& status() const { return island_.status_; }

 private:
  // Whether the device cuts this product's sums (cut_bias.h), and the biases that it gets then.
  bool cuts_sums(size_t bias, size_t x, size_t w) const;
  TensorRef bias_of_cut_sums(size_t bias, size_t x, size_t w);

  IslandLowering& island_;
  const Node& node_;
  Form form_;
  bool quantized_ = false;
  // Integer weights with float operands: the device multiplies those with halves, not with floats.
  bool halves_ = false;
  TensorRef half_out_, real_out_;
};

namespace lower {
#define HTP(id, form, rewrite_fn, lower_fn) void lower_fn(Lowering& l);
#include "sixfold/ops/htp.def"
#undef HTP
}  // namespace lower

using LowerRule = void (*)(Lowering&);
LowerRule lower_rule(Op op);  // lower::none where the device has no such op

// Every node of the island, which must be lowerable.
Result<qnn::GraphSpec> lower_island(const Graph& island, const Forms& forms, std::string name);

}  // namespace sixfold
