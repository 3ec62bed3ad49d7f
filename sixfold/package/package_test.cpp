#include "sixfold/package/package.h"

#include <gtest/gtest.h>

#include "sixfold/package/bounds.h"
#include "sixfold/package/out_kernels.h"
#include "sixfold/pte/verify.h"
#include "sixfold/rewrite/pipeline.h"

namespace sixfold {
namespace {

Result<Package> packaged(std::string_view text, const PackageOptions& options = {}) {
  MethodSource source;
  SF_ASSIGN(source.graph, parse(text));
  SF_TRY(legalize(source.graph));
  std::vector<MethodSource> methods;
  methods.push_back(std::move(source));
  SF_ASSIGN(Package package, make_package(methods, options));
  SF_TRY(pte::verify(package.program));
  return package;
}

// "aten::relu.out(0, 1, 1)" for each instruction.
std::vector<std::string> calls(const pte::Method& method) {
  std::vector<std::string> out;
  for (const pte::Instruction& i : method.chains[0]) {
    const auto& call = std::get<pte::KernelCall>(i);
    std::string args;
    for (const pte::Index a : call.args) args += cat(args.empty() ? "" : ", ", a);
    out.push_back(cat(pte::kernel_name(method.operators[call.operator_index]), "(", args, ")"));
  }
  return out;
}
const pte::Tensor& tensor(const pte::Method& method, pte::Index i) {
  return std::get<pte::Tensor>(method.values[static_cast<size_t>(i)]);
}

TEST(Package, a_call_has_every_argument_then_its_result) {
  const auto p = packaged("input %x: f32[2, 3]\ninput %y: f32[3]\n%1 = add(%x, %y) : f32[2, 3]\noutput %1\n");
  ASSERT_TRUE(p.ok()) << p.error().message();
  const pte::Method& m = p->program.methods[0];
  ASSERT_EQ(calls(m), std::vector<std::string>{"aten::add.out(0, 1, 3, 2, 2)"});
  EXPECT_EQ(std::get<int64_t>(m.values[3]), 1);  // alpha
  EXPECT_EQ(m.inputs, (std::vector<pte::Index>{0, 1}));
  EXPECT_EQ(m.outputs, std::vector<pte::Index>{2});
}

TEST(Package, an_elementwise_result_takes_the_memory_of_what_dies) {
  const char* text = "input %x: f32[64]\n%1 = relu(%x) : f32[64]\n%2 = exp(%1) : f32[64]\noutput %2\n";
  const auto p = packaged(text);
  ASSERT_TRUE(p.ok()) << p.error().message();
  EXPECT_EQ(p->methods[0].in_place, 2u);
  EXPECT_EQ(p->methods[0].arena_bytes, 256u);
  const auto apart = packaged(text, {.in_place = false});
  ASSERT_TRUE(apart.ok());
  EXPECT_EQ(apart->methods[0].arena_bytes, 512u);
}

TEST(Package, an_operand_that_is_read_later_keeps_its_memory) {
  const auto p = packaged(
      "input %x: f32[64]\n%1 = relu(%x) : f32[64]\n%2 = exp(%1) : f32[64]\n%3 = mul(%1, %2) : "
      "f32[64]\noutput %3\n");
  ASSERT_TRUE(p.ok()) << p.error().message();
  EXPECT_EQ(p->methods[0].arena_bytes, 512u);
}

TEST(Package, a_view_is_memory_and_no_instruction) {
  const auto p = packaged(
      "input %x: f32[2, 6]\n%1 = reshape(%x, shape=[3, 4]) : f32[3, 4]\n%2 = softmax(%1, dim=1) : f32[3, "
      "4]\noutput %2\n");
  ASSERT_TRUE(p.ok()) << p.error().message();
  EXPECT_EQ(p->methods[0].views, 1u);
  EXPECT_EQ(p->methods[0].kernel_calls, 1u);
}

TEST(Package, what_the_caller_brings_has_no_place_in_the_arena) {
  const auto p = packaged("input %x: f32[64]\n%1 = relu(%x) : f32[64]\n%2 = exp(%1) : f32[64]\noutput %2\n",
                          {.plan_inputs = false, .plan_outputs = false});
  ASSERT_TRUE(p.ok()) << p.error().message();
  const pte::Method& m = p->program.methods[0];
  EXPECT_FALSE(tensor(m, m.inputs[0]).allocation);
  EXPECT_FALSE(tensor(m, m.outputs[0]).allocation);
  EXPECT_EQ(p->methods[0].arena_bytes, 256u);
}

TEST(Package, a_state_is_copied_into_at_the_end_and_returned_as_it_was) {
  const auto p = packaged(
      "input %x: f32[4]\nstate %s: f32[4] = [1, 2, 3, 4]\n%1 = add(%s, %x) : f32[4]\noutput %s\nmutate %s "
      "%1\n");
  ASSERT_TRUE(p.ok()) << p.error().message();
  const pte::Method& m = p->program.methods[0];
  const auto made = calls(m);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_TRUE(made[1].starts_with("aten::clone.out")) << made[1];
  EXPECT_TRUE(made[2].starts_with("aten::copy_")) << made[2];
  EXPECT_EQ(p->program.mutable_data.size(), 2u);
}

TEST(Package, symbolic_sizes_are_bounded_and_computed) {
  MethodSource source;
  auto graph = parse("input %x: f32[s0, 4]\n%1 = reshape(%x, shape=[4*s0]) : f32[4*s0]\noutput %1\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  source.graph = std::move(*graph);
  ASSERT_TRUE(legalize(source.graph).ok());
  std::vector<MethodSource> methods;
  methods.push_back(std::move(source));
  const auto unbounded = make_package(methods);
  ASSERT_FALSE(unbounded.ok());
  EXPECT_NE(unbounded.error().message().find("symbol s0 has no upper bound"), std::string::npos);
  methods[0].graph.symbols["s0"] = {2, 8};
  const auto p = make_package(methods);
  ASSERT_TRUE(p.ok()) << p.error().message();
  ASSERT_TRUE(pte::verify(p->program).ok());
  const pte::Method& m = p->program.methods[0];
  EXPECT_EQ(tensor(m, m.outputs[0]).sizes, std::vector<int32_t>{32});
  EXPECT_EQ(tensor(m, m.outputs[0]).dynamism, pte::Dynamism::bounded);
  const auto made = calls(m);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_TRUE(made[0].starts_with("aten::sym_size.int")) << made[0];
  EXPECT_TRUE(made[1].starts_with("executorch_prim::mul.Scalar")) << made[1];
}

TEST(Bounds, intervals_cover_differences_and_quotients) {
  const std::map<std::string, SymbolRange> symbols = {{"s0", {2, 10}}, {"s1", {1, 3}}};
  const auto range = [&](const char* text) {
    const auto r = range_of(*parse_dim(text), symbols);
    return std::pair(r->min, r->max);
  };
  EXPECT_EQ(range("s0 - s1"), std::pair(int64_t{-1}, int64_t{9}));
  EXPECT_EQ(range("floordiv(s0 + 1, 2)"), std::pair(int64_t{1}, int64_t{5}));
  EXPECT_EQ(range("max(s0, 7)"), std::pair(int64_t{7}, int64_t{10}));
}

TEST(OutKernels, every_row_is_a_schema_with_results) {
  for (const char* target :
       {"aten.add.Tensor", "aten.native_layer_norm.default", "aten.pow.Scalar", "aten.max.dim"}) {
    const OutKernel* kernel = find_out_kernel(target);
    ASSERT_NE(kernel, nullptr) << target;
    EXPECT_TRUE(kernel->schema.args.back().mutates) << target;
  }
  EXPECT_EQ(find_out_kernel("aten.sort.default"), nullptr);
}

}  // namespace
}  // namespace sixfold
