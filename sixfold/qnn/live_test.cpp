#include "sixfold/qnn/live_test.h"

#include <cmath>
#include <cstring>

#include "sixfold/qnn/guard.h"

namespace sixfold::qnn {
namespace {

constexpr uint32_t kSoc = 57;  // SM8650

TensorSpec tensor(const char* name, TensorKind kind, DataType dtype, std::vector<uint32_t> dims,
                  Quantization quantization = {}) {
  return {.name = name,
          .kind = kind,
          .dtype = dtype,
          .dims = std::move(dims),
          .quantization = std::move(quantization)};
}

// y = relu(x w), w [3, 4] with w[i][j] = i - j
GraphSpec product(const char* name, uint32_t rows) {
  GraphSpec g{.name = name};
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::f32, {rows, 3}));
  const TensorRef y = g.add(tensor("y", TensorKind::app_read, DataType::f32, {rows, 4}));
  TensorSpec weight = tensor("w", TensorKind::constant, DataType::f32, {3, 4});
  std::byte* bytes = nullptr;
  weight.data.source = Tensor::allocate(DType::f32, {3, 4}, &bytes);
  for (int i = 0; i < 12; ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(i / 4 - i % 4);
  const TensorRef w = g.add(std::move(weight));
  const TensorRef m = g.add(tensor("m", TensorKind::native, DataType::f32, {rows, 4}));
  g.ops.push_back({"mm", "MatMul", {x, w}, {m}, {{"transpose_in0", false}, {"transpose_in1", false}}});
  g.ops.push_back({"relu", "Relu", {m}, {y}, {}});
  return g;
}

std::vector<float> run(ContextGraph& graph, const std::vector<float>& x, size_t outputs) {
  std::vector<float> y(outputs, -1);
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  const Status s = graph.execute(in, out);
  EXPECT_TRUE(s.ok()) << s.error().message();
  return y;
}

TEST_F(QnnLive, versions_are_read) {
  EXPECT_EQ(library_.core_api().major, 2u);
  EXPECT_TRUE(library_.sdk_version().starts_with("2.")) << library_.build_id;
  const auto system = SystemLibrary::load(folder_);
  ASSERT_TRUE(system.ok()) << system.error().message();
  EXPECT_EQ(system->api().major, 1u);
}

TEST_F(QnnLive, a_graph_gives_the_same_built_and_loaded) {
  const auto backend = Backend::open(library_, kSoc);
  ASSERT_TRUE(backend.ok()) << backend.error().message();
  std::vector<GraphSpec> graphs;
  graphs.push_back(product("forward", 2));
  testing::internal::CaptureStdout();
  auto built = Context::build(*backend, graphs);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  ASSERT_TRUE(built.ok()) << built.error().message();
  const std::vector<float> x = {1, 2, 3, -1, 0.5f, 4};
  std::vector<float> expected(8);
  for (size_t r = 0; r < 2; ++r)
    for (size_t j = 0; j < 4; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += x[r * 3 + k] * (static_cast<float>(k) - static_cast<float>(j));
      expected[r * 4 + j] = std::fmax(sum, 0.0f);
    }
  const std::vector<float> y = run(built->graphs().front(), x, 8);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(y[i], expected[i], 0.02) << i;

  const auto binary = built->binary();
  ASSERT_TRUE(binary.ok()) << binary.error().message();
  const auto system = SystemLibrary::load(folder_);
  const auto info = read_binary_info(*system, *binary);
  ASSERT_TRUE(info.ok()) << info.error().message();
  EXPECT_EQ(info->soc_model, kSoc);
  EXPECT_EQ(info->htp_arch, 75u);
  EXPECT_EQ(info->build_id, library_.build_id);
  ASSERT_EQ(info->graphs.size(), 1u);
  EXPECT_EQ(info->graphs[0].name, "forward");
  EXPECT_EQ(info->graphs[0].inputs[0].name, "x");
  EXPECT_EQ(info->graphs[0].outputs[0].dims, (std::vector<uint32_t>{2, 4}));
  EXPECT_EQ(info->graphs[0].vtcm_bytes, 8u << 20);
  EXPECT_TRUE(check_fits(*info, library_, kSoc).ok());
  auto loaded = Context::load(*backend, *binary, *info);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(run(*loaded->graph("forward"), x, 8), y);
}

TEST_F(QnnLive, weights_of_two_graphs_can_be_shared) {
  const auto backend = Backend::open(library_, kSoc);
  const auto size = [&](bool share) {
    std::vector<GraphSpec> graphs;
    for (const char* name : {"one", "two"}) {
      GraphSpec g{.name = name};
      const uint32_t rows = name[0] == 'o' ? 1 : 2;
      const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::f32, {rows, 512}));
      const TensorRef y = g.add(tensor("y", TensorKind::app_read, DataType::f32, {rows, 512}));
      TensorSpec w = tensor("w", TensorKind::constant, DataType::f32, {512, 512});
      std::byte* bytes = nullptr;
      w.data.source = Tensor::allocate(DType::f32, {512, 512}, &bytes);
      for (int i = 0; i < 512 * 512; ++i)
        reinterpret_cast<float*>(bytes)[i] = static_cast<float>(i % 97) / 97;
      g.ops.push_back({"fc", "FullyConnected", {x, g.add(std::move(w))}, {y}, {}});
      graphs.push_back(std::move(g));
    }
    auto context = Context::build(*backend, graphs, {.weight_sharing = share});
    EXPECT_TRUE(context.ok()) << context.error().message();
    return context.ok() ? context->binary()->size() : 0;
  };
  EXPECT_LT(size(true) * 3, size(false) * 2);
}

TEST_F(QnnLive, a_refusal_says_why_in_words) {
  auto backend = Backend::open(library_, kSoc);
  GraphSpec g = product("forward", 2);
  for (const OpSpec& op : g.ops) EXPECT_TRUE(backend->validate(g, op).ok());
  const auto reason = [&](const OpSpec& op) {
    const Status s = backend->validate(g, op);
    return s.ok() ? "" : s.error().message();
  };
  g.tensors[1].dims[1] = 5;
  EXPECT_EQ(reason(g.ops[1]),
            "HTP refuses Relu: in[0] and out[0] have mismatching dimension at index 1. 4 != 5");
  g.tensors[1].dims[1] = 4;
  g.tensors[1].dtype = DataType::i64;
  EXPECT_EQ(reason(g.ops[1]),
            "HTP refuses Relu: in[0] and out[0] have mismatching datatypes. FLOAT_32 != INT_64");
  g.tensors[3].dtype = DataType::ufixed8;
  EXPECT_EQ(reason(g.ops[0]),
            "HTP refuses MatMul: it does not take in[0] FLOAT_32, in[1] FLOAT_32, out[0] UFIXED_POINT_8; the "
            "nearest "
            "that it takes has out[0] FLOAT_32");
  OpSpec none = g.ops[1];
  none.type = "NoSuchOp";
  EXPECT_EQ(reason(none), "HTP has no op NoSuchOp");
}

// 16-bit weights need HTP v73: the answer must be that of the backend that is asked, whatever was opened
// since.
TEST_F(QnnLive, each_backend_answers_for_its_own_soc) {
  GraphSpec g;
  const ScaleOffset q{0.1f, 0};
  const TensorRef x = g.add(tensor("x", TensorKind::native, DataType::ufixed16, {1, 8, 8, 16}, q));
  const TensorRef w = g.add(tensor("w", TensorKind::constant, DataType::sfixed16, {1, 1, 16, 16}, q));
  const TensorRef y = g.add(tensor("y", TensorKind::native, DataType::ufixed16, {1, 8, 8, 16}, q));
  const OpSpec conv{
      "c", "Conv2d", {x, w}, {y}, {words("stride", {1, 1}), words("pad_amount", {2, 2}, {0, 0, 0, 0})}};
  auto old = Backend::open(library_, 30), recent = Backend::open(library_, kSoc);
  EXPECT_TRUE(recent->validate(g, conv).ok());
  const Status s = old->validate(g, conv);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().message(), "HTP refuses Conv2d: needs HTP v73 or later, the SoC has v68");
  EXPECT_FALSE(Backend::open(library_, 9999).ok());
  GraphSpec other = g;
  other.tensors[0].dims[0] = other.tensors[2].dims[0] = 2;
  EXPECT_TRUE(recent->validate(other, conv).ok());
}

TEST_F(QnnLive, profiles_are_trees_of_events) {
  const auto backend = Backend::open(library_, kSoc);
  auto profile = Profile::create(*backend, ProfileLevel::detailed);
  ASSERT_TRUE(profile.ok()) << profile.error().message();
  std::vector<GraphSpec> graphs;
  graphs.push_back(product("forward", 2));
  auto context = Context::build(*backend, graphs, {.profile = &*profile});
  ASSERT_TRUE(context.ok());
  const auto finalized = profile->events();
  ASSERT_TRUE(finalized.ok() && !finalized->empty());
  EXPECT_EQ((*finalized)[0].type, 300u);
  const std::vector<float> x(6, 1);
  std::vector<float> y(8);
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  ASSERT_TRUE(context->graphs().front().execute(in, out, &*profile).ok());
  const auto executed = profile->events();
  ASSERT_TRUE(executed.ok());
  bool has_relu = false;
  for (const Event& e : *executed)
    for (const Event& part : e.parts) has_relu |= part.name.starts_with("relu:");
  EXPECT_TRUE(has_relu);
}

TEST_F(QnnLive, damaged_binaries_are_refused_or_load_in_a_guard) {
  Bytes binary;
  {
    // Made in a child too: this process must have no backend when it forks.
    const auto made = run_guarded("preparing a graph", 60, [&]() -> Result<Bytes> {
      SF_ASSIGN(const Backend backend, Backend::open(library_, kSoc));
      std::vector<GraphSpec> graphs;
      graphs.push_back(product("forward", 2));
      SF_ASSIGN(const Context context, Context::build(backend, graphs));
      return context.binary();
    });
    ASSERT_TRUE(made.ok()) << made.error().message();
    binary = *made;
  }
  const auto load = [&](std::span<const std::byte> bytes) {
    return run_guarded("loading a context binary", 60, [&]() -> Result<Bytes> {
      SF_ASSIGN(const SystemLibrary system, SystemLibrary::load(folder_));
      SF_ASSIGN(const BinaryInfo info, read_binary_info(system, bytes));
      SF_ASSIGN(const Backend backend, Backend::open(library_, kSoc));
      SF_TRY(Context::load(backend, bytes, info));
      return Bytes{};
    });
  };
  EXPECT_TRUE(load(binary).ok());
  for (const size_t n : {size_t{0}, size_t{1}, size_t{100}, binary.size() / 2, binary.size() - 1}) {
    const auto result = load(std::span(binary).first(n));
    ASSERT_FALSE(result.ok()) << n;
    EXPECT_EQ(result.error().code(), Code::InvalidModel) << result.error().message();
  }
  EXPECT_FALSE(load(Bytes(binary.size(), std::byte{0x55})).ok());
}

}  // namespace
}  // namespace sixfold::qnn
