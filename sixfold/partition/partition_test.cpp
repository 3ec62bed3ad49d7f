#include "sixfold/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "sixfold/lower/lowering.h"

namespace sixfold {
namespace {

// A device that has no op of one type.
class PickyDevice final : public Device {
 public:
  explicit PickyDevice(std::string_view refused) : refused_(refused) {}
  Status validate(const qnn::GraphSpec&, const qnn::OpSpec& op) override {
    if (op.type == refused_) return unsupported("this device has no ", op.type);
    return {};
  }

 private:
  std::string refused_;
};

Graph graph_of(const char* text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  return std::move(graph).value();
}

// Two branches that meet; tanh is what the device may lack.
constexpr const char* kBranches = R"(
input %x: f32[4]
%a = relu(%x) : f32[4]  # a
%b = tanh(%a) : f32[4]  # b
%c = abs(%a) : f32[4]  # c
%d = add(%b, %c) : f32[4]  # d
%e = relu(%d) : f32[4]  # e
output %e
)";

TEST(Partition, all_that_is_taken_is_one_island) {
  PickyDevice device("");
  const Graph g = graph_of(kBranches);
  const auto parts = partition(g, device);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->islands.size(), 1u);
  EXPECT_TRUE(parts->fallbacks.empty());
}

TEST(Partition, a_refused_node_cuts_without_a_cycle_and_says_why) {
  PickyDevice device("Tanh");
  const Graph g = graph_of(kBranches);
  const auto parts = partition(g, device);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  ASSERT_EQ(parts->islands.size(), 2u);
  EXPECT_EQ(parts->islands[0].size(), 2u);  // a, c
  EXPECT_EQ(parts->islands[1].size(), 2u);  // d, e
  ASSERT_EQ(parts->fallbacks.size(), 1u);
  EXPECT_EQ(parts->fallbacks[0].reason, "this device has no Tanh");
  const auto pieces = cut(g, *parts);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message();
  EXPECT_EQ(pieces->host.node_count(), 3u);  // delegate, tanh, delegate
  EXPECT_EQ(pieces->islands[0].outputs.size(), 2u);
  EXPECT_TRUE(verify(pieces->islands[1].graph).ok());
}

// Accepts every op, and prepares no graph of which fails says so.
class Unready final : public Device {
 public:
  explicit Unready(std::function<bool(const std::set<std::string>&)> fails) : fails_(std::move(fails)) {}
  Status validate(const qnn::GraphSpec&, const qnn::OpSpec&) override { return {}; }
  Status prepare(const qnn::GraphSpec& graph) override {
    ++prepared;
    std::set<std::string> types;
    for (const qnn::OpSpec& op : graph.ops) types.insert(op.type);
    if (!fails_(types)) return {};
    return fail(Code::Device, "graphFinalize failed: no room (while preparing graph part)");
  }
  int prepared = 0;

 private:
  std::function<bool(const std::set<std::string>&)> fails_;
};

// A chain of names a to h, whose tanh is c and whose exp is f.
constexpr const char* kChain = R"(
input %x: f32[4]
%a = relu(%x) : f32[4]  # a
%b = abs(%a) : f32[4]  # b
%c = tanh(%b) : f32[4]  # c
%d = relu(%c) : f32[4]  # d
%e = abs(%d) : f32[4]  # e
%f = exp(%e) : f32[4]  # f
%g = tanh(%f) : f32[4]  # g
%h = abs(%g) : f32[4]  # h
output %h
)";

bool has(const std::set<std::string>& types, std::string_view part) {
  return std::any_of(types.begin(), types.end(),
                     [&](const std::string& t) { return t.find(part) != std::string::npos; });
}

class Prepare : public testing::Test {
 protected:
  void prepare(Device& device) {
    auto made = partition(graph, device, options);
    ASSERT_TRUE(made.ok()) << made.error().message();
    parts = std::move(*made);
    ASSERT_TRUE(prepare_islands(graph, device, options, parts).ok());
  }

  const Graph graph = graph_of(kChain);
  PartitionOptions options;
  Partition parts;
};

TEST_F(Prepare, what_is_prepared_at_once_is_prepared_once) {
  Unready device([](const auto&) { return false; });
  prepare(device);
  EXPECT_EQ(device.prepared, 1);
  EXPECT_EQ(parts.islands.size(), 1u);
}

TEST_F(Prepare, nodes_that_cannot_be_prepared_alone_go_to_the_cpu_with_the_reason) {
  Unready device([](const auto& types) { return has(types, "Tanh"); });
  prepare(device);
  EXPECT_EQ(parts.islands.size(), 3u);
  ASSERT_EQ(parts.fallbacks.size(), 2u);
  EXPECT_EQ(parts.fallbacks[0].reason,
            "the device accepts it and cannot prepare it [htp.prepare.1]: graphFinalize failed: no room");
  EXPECT_LE(device.prepared, 10);
}

TEST_F(Prepare, nodes_that_cannot_be_prepared_together_are_cut_apart) {
  Unready device([](const auto& types) { return has(types, "Tanh") && has(types, "Exp"); });
  prepare(device);
  EXPECT_TRUE(parts.fallbacks.empty());
  ASSERT_EQ(parts.islands.size(), 3u);
  EXPECT_EQ(parts.islands[0].size(), 5u);  // a to e
  EXPECT_EQ(parts.islands[1].size(), 1u);  // f
  EXPECT_EQ(options.cuts.size(), 2u);
  const auto pieces = cut(graph, parts);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message();
  EXPECT_EQ(pieces->host.node_count(), 3u);
}

TEST_F(Prepare, a_device_that_prepares_nothing_leaves_all_on_the_cpu) {
  Unready device([](const auto&) { return true; });
  prepare(device);
  EXPECT_TRUE(parts.islands.empty());
  EXPECT_EQ(parts.fallbacks.size(), 8u);
}

TEST(Partition, what_the_model_rounds_is_rounded_on_the_cpu_too) {
  PickyDevice device("Tanh");
  Graph g = graph_of(kBranches);
  for (const NodeId id : g.order())
    if (g.node(id).op == Op::tanh)
      g.value(g.node(id).output()).encoding = Encoding{DType::u8, 0, 255, -1, 0, {0.5f}, {3}};
  const auto parts = partition(g, device);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  const auto ops = [&](bool rounds) {
    std::string out;
    const auto pieces = cut(g, *parts, rounds);
    EXPECT_TRUE(pieces.ok() && verify(pieces->host).ok());
    for (const NodeId id : pieces->host.order()) out += cat(pieces->host.node(id).op, " ");
    return out;
  };
  EXPECT_EQ(ops(false), "call tanh call ");
  EXPECT_EQ(ops(true), "call tanh quantize dequantize call ");
}

TEST(Partition, nodes_and_ops_can_be_kept_on_the_cpu) {
  PickyDevice device("");
  const Graph g = graph_of(kBranches);
  const auto by_node = partition(g, device, {.skip_nodes = {"c"}});
  ASSERT_TRUE(by_node.ok());
  ASSERT_EQ(by_node->fallbacks.size(), 1u);
  EXPECT_NE(by_node->fallbacks[0].reason.find("--skip-node c"), std::string::npos);
  const auto by_op = partition(g, device, {.skip_ops = {"relu"}});
  ASSERT_TRUE(by_op.ok());
  EXPECT_EQ(by_op->fallbacks.size(), 2u);
}

TEST(Partition, a_fallback_costs_what_it_cuts_and_what_crosses) {
  PickyDevice device("Tanh");
  const Graph g = graph_of(kBranches);
  const auto parts = partition(g, device);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  const FallbackCost cost = fallback_cost(g, *parts, {parts->fallbacks[0].node});
  EXPECT_EQ(cost.islands_without, 1u);
  EXPECT_EQ(cost.to_cpu_bytes, 16);
  EXPECT_EQ(cost.to_device_bytes, 16);
}

TEST(Partition, limits_of_every_op_have_labels) {
  PickyDevice device("");
  const auto reason = [&](const char* text) {
    const Graph g = graph_of(text);
    const auto parts = partition(g, device);
    return parts.ok() && parts->fallbacks.size() == 1 ? parts->fallbacks[0].reason : std::string();
  };
  EXPECT_NE(reason("input %x: f32[1, 2, 1, 2, 1, 2]\n%a = relu(%x) : f32[1, 2, 1, 2, 1, 2]  # a\noutput %a\n")
                .find("[htp.rank.1]"),
            std::string::npos);
  EXPECT_NE(reason("input %x: f64[4]\n%a = relu(%x) : f64[4]  # a\noutput %a\n").find("[htp.type.1]"),
            std::string::npos);
  EXPECT_NE(reason("input %x: f32[0]\n%a = relu(%x) : f32[0]  # a\noutput %a\n").find("[htp.empty.1]"),
            std::string::npos);
  EXPECT_NE(reason("symbol s0 1 8\ninput %x: f32[s0]\n%a = relu(%x) : f32[s0]  # a\noutput %a\n")
                .find("[htp.shape.1]"),
            std::string::npos);
  EXPECT_NE(reason("input %x: f32[100000, 100000]\n%a = relu(%x) : f32[100000, 100000]  # a\noutput %a\n")
                .find("[htp.size.1]"),
            std::string::npos);
}

}  // namespace
}  // namespace sixfold
