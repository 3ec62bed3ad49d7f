// Every call of the API failing in turn, through a fake provider.
#include <gtest/gtest.h>

#include "sixfold/qnn/context.h"
#include "sixfold/qnn/fake.h"
#include "sixfold/qnn/guard.h"
#include "sixfold/qnn/stage.h"

namespace sixfold::qnn {
namespace {

TensorSpec tensor(const char* name, TensorKind kind, std::vector<uint32_t> dims) {
  TensorSpec t{.name = name, .kind = kind, .dtype = DataType::f32, .dims = std::move(dims)};
  return t;
}

// y = x * w + b, with a parameter of words and one operand left out.
GraphSpec small_graph(const char* name) {
  GraphSpec g{.name = name};
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, {2, 3}));
  const TensorRef y = g.add(tensor("y", TensorKind::app_read, {2, 3}));
  TensorSpec w = tensor("w", TensorKind::constant, {3});
  std::byte* bytes = nullptr;
  w.data.source = Tensor::allocate(DType::f32, {3}, &bytes);
  const float values[] = {1, 2, 3};
  std::memcpy(bytes, values, sizeof values);
  const TensorRef c = g.add(std::move(w));
  const TensorRef m = g.add(tensor("m", TensorKind::native, {2, 3}));
  g.ops.push_back({"mul", "ElementWiseMultiply", {x, c}, {m}, {}});
  g.ops.push_back({"norm", "LayerNorm", {m, {}, c}, {y}, {words("axes", {1}), {"epsilon", 1e-5f}}});
  return g;
}

Status everything() {
  SF_ASSIGN(Backend backend, Backend::open(fake::library(), 57));
  std::vector<GraphSpec> graphs;
  graphs.push_back(small_graph("forward"));
  graphs.push_back(small_graph("again"));
  for (const OpSpec& op : graphs[0].ops) SF_TRY(backend.validate(graphs[0], op));
  SF_ASSIGN(Profile profile, Profile::create(backend, ProfileLevel::basic));
  SF_ASSIGN(const Context built,
            Context::build(backend, graphs, {.weight_sharing = true, .profile = &profile}));
  SF_ASSIGN(const Bytes binary, built.binary());
  SF_ASSIGN(const BinaryInfo info, read_binary_info(fake::system(), binary));
  SF_TRY(check_fits(info, backend.library(), 57));
  SF_ASSIGN(Context loaded, Context::load(backend, binary, info));
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[6] = {};
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  SF_TRY(loaded.graph("forward")->execute(in, out, &profile));
  SF_ASSIGN(const std::vector<Event> events, profile.events());
  if (y[5] != 6 || events.size() != 1 || events[0].parts.size() != 2 || events[0].parts[1].value != 30)
    return fail(Code::Internal, "outputs or events are wrong");
  return {};
}

TEST(QnnFaults, without_any_everything_works_and_is_freed) {
  fake::reset();
  const Status s = everything();
  ASSERT_TRUE(s.ok()) << s.error().message();
  EXPECT_TRUE(fake::state().live.empty());
  EXPECT_EQ(fake::state().wrong, std::vector<std::string>{});
  EXPECT_EQ(fake::state().nodes.size(), 4u);
}

TEST(QnnFaults, each_call_failing_in_turn_is_an_error_that_leaks_nothing) {
  fake::reset();
  ASSERT_TRUE(everything().ok());
  const int calls = fake::state().calls;
  ASSERT_GT(calls, 40);
  std::set<std::string> seen;
  for (int i = 1; i <= calls; ++i) {
    fake::reset(i);
    const Status s = everything();
    const std::string failed = fake::state().failed;
    SCOPED_TRACE(cat("call ", i, ", ", failed));
    seen.insert(failed);
    EXPECT_TRUE(fake::state().live.empty());
    EXPECT_EQ(fake::state().wrong, std::vector<std::string>{});
    if (failed.ends_with("Free")) {
      EXPECT_TRUE(s.ok());
    } else {
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().message().find(cat(failed, " failed with 1100")), std::string::npos)
          << s.error().message();
    }
  }
  EXPECT_EQ(seen.size(), 26u);  // functions
}

TEST(QnnFaults, after_a_crash_the_next_one_is_an_error) {
  fake::reset();
  const auto backend = Backend::open(fake::library(), 57);
  const GraphSpec graph = small_graph("forward");
  const auto before = prepare_binary(*backend, {&graph, 1});
  ASSERT_TRUE(before.ok()) << before.error().message();
  EXPECT_FALSE(crashed_before());
  const auto child = run_guarded("testing", 30, [&]() -> Result<Bytes> {
    note_crash();
    SF_ASSIGN(const Bytes same, prepare_binary(*backend, {&graph, 1}));
    if (same != *before) return fail(Code::Internal, "other bytes");
    fake::state().deadly = graph.ops[0].type;
    return prepare_binary(*backend, {&graph, 1});
  });
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().message(), "the QNN library crashed with SIGSEGV while preparing a graph");
  EXPECT_EQ(child.error().code(), Code::Device);
}

TEST(QnnFaults, a_constant_is_handed_over_as_it_is) {
  fake::reset();
  const auto backend = Backend::open(fake::library(), 57);
  std::vector<GraphSpec> graphs;
  graphs.push_back(small_graph("forward"));
  graphs[0].ops.pop_back();
  ASSERT_TRUE(Context::build(*backend, graphs).ok());
  const float expected[] = {1, 2, 3};
  ASSERT_EQ(fake::state().constant.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(fake::state().constant.data(), expected, sizeof expected), 0);
}

TEST(QnnFaults, a_constant_of_other_size_than_its_dims_is_refused) {
  fake::reset();
  const auto backend = Backend::open(fake::library(), 57);
  std::vector<GraphSpec> graphs;
  graphs.push_back(small_graph("forward"));
  graphs[0].tensors[2].dims = {4};
  const auto context = Context::build(*backend, graphs);
  ASSERT_FALSE(context.ok());
  EXPECT_NE(context.error().message().find("12 bytes, expected 16"), std::string::npos)
      << context.error().message();
}

TEST(QnnFaults, buffers_of_a_wrong_size_are_refused_before_the_library_sees_them) {
  fake::reset();
  const auto backend = Backend::open(fake::library(), 57);
  const std::vector<std::byte> binary(16);
  const auto info = read_binary_info(fake::system(), binary);
  auto context = Context::load(*backend, binary, *info);
  ASSERT_TRUE(context.ok());
  std::byte small[23], right[24];
  const std::span<const std::byte> in[] = {small};
  const std::span<std::byte> out[] = {right};
  const int before = fake::state().calls;
  const Status s = context->graph("forward")->execute(in, out);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().message(), "input 0 (x) has 24 bytes, got 23");
  EXPECT_FALSE(context->graph("forward")->execute({}, out).ok());
  EXPECT_EQ(fake::state().calls, before);
  EXPECT_EQ(context->graph("backward"), nullptr);
}

TEST(QnnFaults, answers_are_remembered_by_content) {
  fake::reset();
  auto backend = Backend::open(fake::library(), 57);
  GraphSpec g = small_graph("forward");
  ASSERT_TRUE(backend->validate(g, g.ops[1]).ok());
  g.ops[1].name = "other";  // no part of the answer
  ASSERT_TRUE(backend->validate(g, g.ops[1]).ok());
  EXPECT_EQ(backend->asked(), 1u);
  g.ops[1].params[1].value = 1e-6f;
  ASSERT_TRUE(backend->validate(g, g.ops[1]).ok());
  g.tensors[g.ops[1].out[0].index].quantization = ScaleOffset{0.5f, 3};
  ASSERT_TRUE(backend->validate(g, g.ops[1]).ok());
  EXPECT_EQ(backend->asked(), 3u);
}

// The library answers for the device that was made last.
TEST(QnnFaults, a_backend_makes_its_soc_the_current_one_again) {
  fake::reset();
  auto first = Backend::open(fake::library(), 57);
  const auto second = Backend::open(fake::library(), 69);
  EXPECT_EQ(fake::state().soc, 69u);
  const GraphSpec g = small_graph("forward");
  ASSERT_TRUE(first->validate(g, g.ops[0]).ok());
  EXPECT_EQ(fake::state().soc, 57u);
}

TEST(QnnFaults, a_binary_for_another_soc_or_of_a_newer_library_is_refused_with_both_sides) {
  fake::reset();
  auto info = read_binary_info(fake::system(), {});
  ASSERT_TRUE(info.ok());
  const auto refusal = [&](uint32_t soc) {
    const Status s = check_fits(*info, fake::library(), soc);
    return s.ok() ? "" : s.error().message();
  };
  EXPECT_EQ(refusal(57), "");
  EXPECT_EQ(refusal(69),
            "the context binary is for SM8650 (57, HTP v75), the device is SM8750 (69, HTP v79)");
  info->core_api = {2, 40, 0};
  EXPECT_NE(refusal(57).find("core API 2.40.0"), std::string::npos);
  EXPECT_NE(refusal(57).find("core API 2.38.0"), std::string::npos);
  info->backend_id = 3;
  EXPECT_NE(refusal(57).find("backend 3"), std::string::npos);
}

}  // namespace
}  // namespace sixfold::qnn
