// Lowering: an island of canonical nodes to one QNN graph.
//
// A value of the island has one tensor for each way in which it is looked at: axes in torch's order or
// channels last, fixed point or float, the caller's integers or the device's. The first is made by the node
// that computes it, the others by Transpose, Quantize, Dequantize or Cast when somebody asks, once. Rules
// (ops/<family>/lower.cpp, the last column of ops/htp.def) see none of that: they ask for operands and
// results in the form of their node.
#pragma once

#include <map>
#include <span>

#include "sixfold/graph/graph.h"
#include "sixfold/lower/form.h"
#include "sixfold/qnn/types.h"

namespace sixfold {

using qnn::Param;
using qnn::TensorRef;
using qnn::words;

// Every tensor and op of the island so far. Owns nothing of the graph, which must outlive it.
class IslandLowering {
 public:
  IslandLowering(const Graph& graph, const Forms& forms, std::string name);

  Status lower(const Node& node);
  // After the last node: the outputs in the caller's form and type.
  Status finish();
  qnn::GraphSpec take() { return std::move(spec_); }

  const Graph& graph() const { return graph_; }
  qnn::GraphSpec& spec() { return spec_; }
  const Forms& forms() const { return forms_; }

 private:
  friend class Lowering;
  // How a tensor shows a value.
  struct View {
    Form form = Form::plain;
    bool fixed = false;    // by the value's encoding
    bool foreign = false;  // the caller's type, which the device does not compute with: int64
    friend auto operator<=>(const View&, const View&) = default;
  };
  TensorRef view(ValueId value, View view);
  TensorRef make_view(ValueId value, View want);
  TensorRef make_constant(ValueId value, View want);
  TensorRef add_output(ValueId value, View view);
  Status convert(ValueId value, View from, View to, TensorRef target);
  qnn::TensorSpec describe(ValueId value, View view) const;
  View outside(ValueId value) const;  // as the caller has it
  std::string unique_name(std::string name);
  void order_outputs();
  void add_op(qnn::OpSpec op);
  void fail(Error error) {
    if (status_.ok()) status_ = std::move(error);
  }

  const Graph& graph_;
  const Forms& forms_;
  qnn::GraphSpec spec_;
  std::map<std::pair<ValueId, View>, TensorRef> views_;
  std::map<ValueId, View> made_;  // how the producer made it
  std::map<std::string, uint32_t> names_;
  std::map<ValueId, size_t> input_index_, output_index_;
  uint32_t node_ = UINT32_MAX;  // being lowered
  Status status_;
};

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
  // a convolution's weight. Its encoding's axis moves along.
  TensorRef weight(size_t i, const Shape& order, const Shape& reshaped = {});
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

// The encoding in QNN's words, for a tensor whose axes are in this order (empty: as they are), and its data
// type.
qnn::Quantization quantization_of(const Encoding& encoding, const Shape& order = {});
qnn::DataType fixed_type(const Encoding& encoding);

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
