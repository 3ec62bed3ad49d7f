#include "sixfold/ops/arguments.h"

#include <gtest/gtest.h>

#include <string>

#include "sixfold/import/functionalize.h"

namespace sixfold {
namespace {

std::string call_text(std::string_view target, NamedArguments given) {
  const auto call = complete_call(find_schema(target), std::move(given));
  if (!call.ok()) return call.error().message();
  std::string out;
  for (const auto& [name, attr] : call->attrs) out += cat(out.empty() ? "" : " ", name, "=", to_text(attr));
  return out;
}

constexpr ValueId kX{0}, kY{1};

TEST(Arguments, omitted_defaults_are_filled_in_schema_order) {
  EXPECT_EQ(call_text("aten.add.Tensor", {{"self", kX}, {"other", kY}}),
            "self=operands(0, 1) other=operands(1, 1) alpha=1");
  EXPECT_EQ(
      call_text("aten.max_pool2d.default", {{"self", kX}, {"kernel_size", Attr(Dims{3, 3})}}),
      "self=operands(0, 1) kernel_size=[3, 3] stride=[] padding=[0, 0] dilation=[1, 1] ceil_mode=false");
  EXPECT_EQ(call_text("aten.slice.Tensor", {{"self", kX}}),
            "self=operands(0, 1) dim=0 start=none end=none step=1");
  EXPECT_EQ(call_text("aten.gelu.default", {{"self", kX}}), "self=operands(0, 1) approximate=\"none\"");
}

TEST(Arguments, numbers_take_the_type_of_the_schema) {
  EXPECT_EQ(call_text("aten.dropout.default", {{"input", kX}, {"p", Attr(Dim(0))}, {"train", Attr(false)}}),
            "input=operands(0, 1) p=0.0 train=false");
  EXPECT_EQ(call_text("aten.add.Tensor", {{"self", kX}, {"other", Attr(Dim(2))}, {"alpha", Attr(1.5)}}),
            "self=operands(0, 1) other=2 alpha=1.5");
}

TEST(Arguments, unnamed_ones_stand_by_position) {
  EXPECT_EQ(call_text("aten.mul.Tensor", {{"", kX}, {"", kY}}), "self=operands(0, 1) other=operands(1, 1)");
}

TEST(Arguments, wrong_ones_are_named) {
  EXPECT_EQ(call_text("aten.add.Tensor", {{"self", kX}}), "argument 'other' of aten.add.Tensor is missing");
  EXPECT_EQ(call_text("aten.relu.default", {{"self", kX}, {"slope", Attr(1.0)}}),
            "aten.relu.default has no argument 'slope'");
  EXPECT_EQ(call_text("aten.relu.default", {{"self", kX}, {"self", kX}}), "argument 'self' is given twice");
  EXPECT_EQ(call_text("aten.permute.default", {{"self", kX}, {"dims", Attr(std::string("no"))}}),
            "argument 'dims' is \"no\", expected a list of an integer");
  EXPECT_EQ(call_text("aten.permute.default", {{"self", kX}, {"dims", Attr()}}),
            "argument 'dims' is none, expected a list of an integer");
}

TEST(Arguments, every_default_of_the_schema_table_is_understood) {
  for (const std::string_view target : schema_targets())
    for (const SchemaArg& arg : find_schema(target)->args)
      if (arg.has_default) {
        const auto value = parse_default(arg);
        EXPECT_TRUE(value.ok() || value.error().code() == Code::Unsupported)  // float8
            << target << " " << arg.name << "=" << arg.default_text;
      }
}

TEST(Functionalize, in_place_ops_have_functional_names) {
  const auto name = [](const char* target) {
    return functional_target(*find_schema(target)).value_or("none");
  };
  EXPECT_EQ(name("aten.add_.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(name("aten.pow_.Scalar"), "aten.pow.Tensor_Scalar");
  EXPECT_EQ(name("aten.__iand__.Tensor"), "aten.__and__.Tensor");
  EXPECT_EQ(name("aten.dropout_.default"), "aten.dropout.default");
  EXPECT_EQ(name("aten.fill_diagonal_.default"), "none");
  EXPECT_EQ(metadata_target(*find_schema("aten.unsqueeze_.default")).value_or("none"),
            "aten.unsqueeze.default");
}

TEST(Functionalize, comparison_and_mixed_precision_give_another_dtype_than_self) {
  const Type half{DType::f16, {2}}, real{DType::f32, {2}}, scalar{DType::f32, {}};
  EXPECT_EQ(functional_dtype("aten.eq.Tensor", real, {}), DType::boolean);
  EXPECT_EQ(functional_dtype("aten.add.Tensor", half, std::array{real}), DType::f32);
  EXPECT_EQ(functional_dtype("aten.add.Tensor", half, std::array{scalar}), DType::f16);
  EXPECT_EQ(functional_dtype("aten.copy.default", half, std::array{real}), DType::f16);
}

}  // namespace
}  // namespace sixfold
