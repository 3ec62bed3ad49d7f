// The QNN graph of an island while it is made: a tensor for each way in which a value is looked at.
#pragma once

#include <map>
#include <string>

#include "sixfold/graph/encoding.h"
#include "sixfold/lower/form.h"
#include "sixfold/qnn/types.h"

namespace sixfold {

using qnn::TensorRef;

// stored_integers, or the data of a constant; null where a value is neither.
const Tensor* constant_of(const Graph& graph, ValueId value);

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

}  // namespace sixfold
