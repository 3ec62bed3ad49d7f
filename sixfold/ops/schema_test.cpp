#include "sixfold/ops/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

namespace sixfold {
namespace {

const SchemaArg& arg_named(std::string_view target, std::string_view name) {
  static const SchemaArg none;
  const Schema* schema = find_schema(target);
  EXPECT_NE(schema, nullptr) << target;
  if (!schema) return none;
  const auto found = std::find_if(schema->args.begin(), schema->args.end(),
                                  [&](const SchemaArg& arg) { return arg.name == name; });
  EXPECT_NE(found, schema->args.end()) << target << " has no argument " << name;
  return found == schema->args.end() ? none : *found;
}

TEST(Schema, every_row_parses_and_is_in_order) {
  const std::vector<std::string_view> targets = schema_targets();
  EXPECT_GT(targets.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(targets.begin(), targets.end()));
  for (const std::string_view target : targets) {
    const Schema* schema = find_schema(target);
    ASSERT_NE(schema, nullptr) << target;
    EXPECT_EQ(schema->target, target);
    for (const SchemaArg& arg : schema->args)
      EXPECT_NE(arg.type, ArgType::other) << target << " " << arg.name;
    for (const SchemaReturn& result : schema->returns) EXPECT_NE(result.type, ArgType::other) << target;
  }
}

TEST(Schema, unknown_targets_have_none) {
  EXPECT_EQ(find_schema(""), nullptr);
  EXPECT_EQ(find_schema("aten.add"), nullptr);
  EXPECT_EQ(find_schema("aten.add.out"), nullptr);
  EXPECT_EQ(find_schema("zzz.zzz.zzz"), nullptr);
}

TEST(Schema, add_has_a_keyword_only_number_with_a_default) {
  const Schema* add = find_schema("aten.add.Tensor");
  ASSERT_NE(add, nullptr);
  ASSERT_EQ(add->args.size(), 3u);
  EXPECT_EQ(add->args[0].type, ArgType::tensor);
  EXPECT_FALSE(add->args[1].keyword_only);
  EXPECT_EQ(add->args[2].name, "alpha");
  EXPECT_EQ(add->args[2].type, ArgType::number);
  EXPECT_TRUE(add->args[2].keyword_only);
  EXPECT_TRUE(add->args[2].has_default);
  EXPECT_EQ(add->args[2].default_text, "1");
  ASSERT_EQ(add->returns.size(), 1u);
  EXPECT_EQ(add->returns[0].type, ArgType::tensor);
  EXPECT_EQ(add, find_schema("aten.add.Tensor"));
}

TEST(Schema, lists_know_their_size_and_keep_list_defaults) {
  const SchemaArg& stride = arg_named("aten.max_pool2d.default", "stride");
  EXPECT_EQ(stride.type, ArgType::integer);
  EXPECT_TRUE(stride.list);
  EXPECT_EQ(stride.list_size, 2);
  EXPECT_EQ(stride.default_text, "[]");
  EXPECT_EQ(arg_named("aten.max_pool2d.default", "padding").default_text, "0");
  EXPECT_EQ(arg_named("aten.conv2d.default", "padding").default_text, "[0, 0]");
  const SchemaArg& kernel = arg_named("aten.max_pool2d.default", "kernel_size");
  EXPECT_FALSE(kernel.has_default);
  const SchemaArg& dims = arg_named("aten.sum.dim_IntList", "dim");
  EXPECT_TRUE(dims.list && dims.nullable && !dims.nullable_items);
  EXPECT_EQ(dims.list_size, 1);
}

TEST(Schema, items_of_a_list_may_be_missing) {
  const SchemaArg& indices = arg_named("aten.index.Tensor", "indices");
  EXPECT_EQ(indices.type, ArgType::tensor);
  EXPECT_TRUE(indices.list && indices.nullable_items && !indices.nullable);
}

TEST(Schema, in_place_arguments_and_their_results_share_an_alias) {
  const SchemaArg& self = arg_named("aten.add_.Tensor", "self");
  EXPECT_TRUE(self.mutates);
  EXPECT_EQ(self.alias, "a");
  EXPECT_TRUE(arg_named("aten.add_.Tensor", "other").alias.empty());
  EXPECT_TRUE(find_schema("aten.add_.Tensor")->returns[0].mutates);
}

TEST(Schema, views_alias_without_mutating) {
  const SchemaArg& self = arg_named("aten.chunk.default", "self");
  EXPECT_EQ(self.alias, "a");
  EXPECT_FALSE(self.mutates);
  const SchemaReturn& pieces = find_schema("aten.chunk.default")->returns[0];
  EXPECT_TRUE(pieces.list);
  EXPECT_EQ(pieces.alias, "a");
}

TEST(Schema, dtype_string_and_real_defaults_keep_their_text) {
  const SchemaArg& dtype = arg_named("aten.sum.dim_IntList", "dtype");
  EXPECT_EQ(dtype.type, ArgType::dtype);
  EXPECT_TRUE(dtype.nullable);
  EXPECT_EQ(dtype.default_text, "None");
  const SchemaArg& approximate = arg_named("aten.gelu.default", "approximate");
  EXPECT_EQ(approximate.type, ArgType::string);
  EXPECT_EQ(approximate.default_text, "\"none\"");
  EXPECT_EQ(arg_named("aten.layer_norm.default", "eps").type, ArgType::real);
  EXPECT_EQ(arg_named("aten.empty_like.default", "memory_format").type, ArgType::memory_format);
}

TEST(Schema, results_may_be_named_several_or_none) {
  const Schema* topk = find_schema("aten.topk.default");
  ASSERT_NE(topk, nullptr);
  ASSERT_EQ(topk->returns.size(), 2u);
  EXPECT_EQ(topk->returns[1].name, "indices");
  const Schema* check = find_schema("aten._assert_async.msg");
  ASSERT_NE(check, nullptr);
  EXPECT_TRUE(check->returns.empty());
  EXPECT_EQ(find_schema("aten.sym_size.int")->returns[0].type, ArgType::integer);
}

TEST(Schema, quantized_graphs_find_their_ops) {
  EXPECT_EQ(arg_named("quantized_decomposed.dequantize_per_tensor.default", "out_dtype").default_text,
            "None");
  EXPECT_NE(find_schema("quantized_decomposed.quantize_per_channel.default"), nullptr);
  EXPECT_EQ(arg_named("torchao.dequantize_affine.default", "output_dtype").default_text, "6");
}

TEST(Schema, broken_text_gives_nothing) {
  for (const char* text :
       {"", "(", "(Tensor", "(Tensor self", "(Tensor self)", "(Tensor self) ->", "() -> Tensor,",
        "(Tensor(a self) -> Tensor", "(int[2 x) -> Tensor", "(int x=) -> Tensor"}) {
    EXPECT_FALSE(parse_schema("x.y.z", text)) << text;
  }
}

TEST(Schema, threads_agree_on_one_pointer) {
  constexpr size_t kThreads = 4;
  std::array<const Schema*, kThreads> found{};
  {
    std::vector<std::jthread> threads;
    for (const Schema*& slot : found)
      threads.emplace_back([&slot] { slot = find_schema("aten.conv2d.default"); });
  }
  for (const Schema* schema : found) EXPECT_EQ(schema, found[0]);
}

}  // namespace
}  // namespace sixfold
