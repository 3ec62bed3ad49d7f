// Delegates for the NPU on the emulator: what runs, and what is refused with which words.
#include "sixfold/execute/qnn_delegate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sixfold/emulator/emulator.h"
#include "sixfold/execute/method.h"
#include "sixfold/pte/mutate.h"
#include "sixfold/pte/qnn_options.h"
#include "sixfold/pte/testing.h"
#include "sixfold/pte/write.h"
#include "sixfold/qnn/context.h"
#include "sixfold/qnn/wrapper.h"

namespace sixfold {
namespace {

using qnn::DataType;
using qnn::TensorKind;

constexpr uint32_t kSm8650 = 57, kSm8550 = 43;

qnn::TensorSpec tensor(const char* name, TensorKind kind, std::vector<uint32_t> dims) {
  return {.name = name, .kind = kind, .dtype = DataType::f32, .dims = std::move(dims)};
}

// "first" and "second" in another order than the method's, an output and a mutable buffer.
Bytes context_binary(const char* graph_name) {
  qnn::GraphSpec g{.name = graph_name};
  const auto b = g.add(tensor("input_1_b@0", TensorKind::app_write, {2, 3}));
  const auto a = g.add(tensor("input_0_a@0", TensorKind::app_write, {2, 3}));
  const auto old = g.add(tensor("input_2_mutbuf_0_s@0", TensorKind::app_write, {2, 3}));
  const auto sum = g.add(tensor("output_sum@0", TensorKind::app_read, {2, 3}));
  const auto kept = g.add(tensor("output_mutbuf_0_s@0", TensorKind::app_read, {2, 3}));
  g.ops.push_back({"sub", "ElementWiseSubtract", {a, b}, {sum}, {}});
  g.ops.push_back({"add", "ElementWiseAdd", {old, b}, {kept}, {}});
  const auto backend = qnn::Backend::open(emulator::library(), kSm8650);
  EXPECT_TRUE(backend.ok());
  auto context = qnn::Context::build(*backend, {&g, 1});
  EXPECT_TRUE(context.ok()) << context.error().message();
  return context->binary().value();
}

std::vector<std::byte> wrapped(std::span<const std::byte> binary) {
  const auto header = qnn::wrapper_of(binary);
  std::vector<std::byte> out(header.size() + binary.size());
  std::copy(header.begin(), header.end(), out.begin());
  std::copy(binary.begin(), binary.end(), out.begin() + header.size());
  return out;
}

// forward(a, b) -> a - b, all of it in a delegate. Tests change what they like before load().
struct NpuProgram {
  std::vector<std::byte> blob = wrapped(context_binary("forward"));
  pte::QnnOptions options{.soc = kSm8650, .arch = 75, .vtcm_mb = 8, .fp16 = true};
  std::vector<std::byte> spec;
  std::vector<int32_t> sizes[3] = {{2, 3}, {2, 3}, {2, 3}};
  DType dtype = DType::f32;
  std::vector<pte::Index> args = {0, 1, 2};
  std::string key = pte::kQnnSpecKey, method = "forward";
  std::optional<pte::Manifest> manifest;

  std::vector<std::byte> bytes() {
    if (spec.empty()) spec = pte::write_qnn_options(options);
    pte::Program program;
    program.constants.emplace_back();
    program.mutable_data.emplace_back();
    pte::Method& m = program.methods.emplace_back();
    m.name = method;
    for (uint64_t i = 0; i < 3; ++i) {
      pte::Tensor t{
          .dtype = dtype, .sizes = sizes[i], .dim_order = {}, .allocation = pte::Allocation{1, i * 1024}};
      for (size_t d = 0; d < sizes[i].size(); ++d) t.dim_order.push_back(static_cast<uint8_t>(d));
      m.values.emplace_back(t);
    }
    m.inputs = {0, 1};
    m.outputs = {2};
    m.buffer_sizes = {0, 3 * 1024};
    m.delegates.push_back({.id = pte::kQnnBackend, .blob = blob, .specs = {{key, spec}}});
    m.chains = {{pte::DelegateCall{0, args}}};
    return pte::write(program, {.segment_alignment = 256, .manifest = manifest}).value();
  }
};

// The delegate on the emulator, for one test.
class QnnDelegateTest : public testing::Test {
 protected:
  void SetUp() override { use({}); }
  void TearDown() override { unregister_delegate(pte::kQnnBackend); }
  void use(QnnDelegateOptions options) {
    unregister_delegate(pte::kQnnBackend);
    options.library = emulator::library();
    options.system = emulator::system_library();
    ASSERT_TRUE(register_qnn_delegate(std::move(options)).ok());
  }
  Result<std::unique_ptr<Method>> load(std::span<const std::byte> bytes) {
    file_ = std::make_unique<pte::AlignedBytes>(bytes);
    SF_ASSIGN(const Program program, Program::from_memory(file_->bytes()));
    return Method::load(program, "forward");
  }
  std::string refusal(NpuProgram program) {
    const auto method = load(program.bytes());
    return method.ok() ? "it loads" : method.error().message();
  }
  static std::vector<float> run(Method& method, float a, float b) {
    const std::vector<float> x(6, a), y(6, b);
    const Shape sizes = {2, 3};
    for (const auto* v : {&x, &y})
      EXPECT_TRUE(
          method
              .set_input(v == &y,
                         TensorView{DType::f32, sizes, {}, reinterpret_cast<const std::byte*>(v->data())})
              .ok());
    const Status s = method.execute();
    EXPECT_TRUE(s.ok()) << s.error().message();
    const auto out = method.output_tensor(0);
    const auto* data = reinterpret_cast<const float*>(out->data);
    return {data, data + 6};
  }
  std::unique_ptr<pte::AlignedBytes> file_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(QnnDelegateTest, inputs_are_found_by_the_number_in_their_name) {
  auto method = load(NpuProgram().bytes());
  ASSERT_TRUE(method.ok()) << method.error().message();
  // A half leaves the device as the next float (emulator/half_test.cpp).
  EXPECT_EQ(run(**method, 5, 2), std::vector<float>(6, std::nextafter(3.0f, 4.0f)));
  EXPECT_EQ(run(**method, 1, 2), std::vector<float>(6, std::nextafter(-1.0f, -2.0f)));
}

TEST_F(QnnDelegateTest, levels_of_profiling_are_the_files_or_the_callers) {
  NpuProgram program;
  auto method = load(program.bytes());
  ASSERT_TRUE(method.ok());
  (*method)->set_profiling(true);
  run(**method, 1, 1);
  EXPECT_TRUE((*method)->profile()[0].delegate->events.empty());
  method->reset();
  program.spec.clear();
  program.options.profile_level = 2;
  method = load(program.bytes());
  (*method)->set_profiling(true);
  run(**method, 1, 1);
  const std::vector<DelegateEvent> events = (*method)->profile()[0].delegate->events;
  EXPECT_FALSE(events.empty());
  EXPECT_TRUE(std::any_of(events.begin(), events.end(),
                          [](const DelegateEvent& e) { return e.name.find("sub") != std::string::npos; }));
  method->reset();
  use({.profile_level = qnn::ProfileLevel::off});
  method = load(program.bytes());
  (*method)->set_profiling(true);
  run(**method, 1, 1);
  EXPECT_TRUE((*method)->profile()[0].delegate->events.empty());
}

TEST_F(QnnDelegateTest, another_chip_is_refused_with_both_names) {
  use({.soc = kSm8550});
  EXPECT_SAYS(refusal({}), "the delegate is for SM8650 (57, HTP v75), the device is SM8550 (43, HTP v73)");
  use({.soc = kSm8650});
  EXPECT_EQ(refusal({}), "it loads");
  use({});
  NpuProgram lies;
  lies.options.soc = kSm8550;
  EXPECT_SAYS(refusal(lies), "compile spec names SM8550 (43, HTP v73), its context binary is for SM8650");
  lies.options.soc = kSm8650;
  lies.options.arch = 73;
  EXPECT_SAYS(refusal(lies), "compile spec names HTP v73, its context binary is for HTP v75");
  NpuProgram sealed;
  sealed.manifest = pte::Manifest{.tool = "t", .precision = "fp16", .target = "SM8550"};
  EXPECT_SAYS(refusal(sealed), "manifest names SM8550 (43, HTP v73), a delegate in it is for SM8650");
}

TEST_F(QnnDelegateTest, other_backends_and_packages_are_refused) {
  NpuProgram program;
  program.options.backend = 1;
  EXPECT_SAYS(refusal(program), "the delegate is for GPU, the engine is HTP");
  program.options.backend = 4;
  EXPECT_SAYS(refusal(program), "the delegate is for LPAI, the engine is HTP");
  program.options.backend = 77;
  EXPECT_SAYS(refusal(program), "the delegate is for backend 77, the engine is HTP");
}

TEST_F(QnnDelegateTest, damaged_compile_specs_are_refused) {
  NpuProgram program;
  program.key = "other";
  EXPECT_SAYS(refusal(program), "has no compile spec qnn_compile_spec");
  program.key = pte::kQnnSpecKey;
  program.spec = std::vector<std::byte>(40, std::byte{0xff});
  EXPECT_SAYS(refusal(program), "of 40 bytes is not a table of options");
  program.spec = std::vector<std::byte>(2 << 20);
  EXPECT_SAYS(refusal(program), "has 2097152 bytes, the limit is 1048576");
}

TEST_F(QnnDelegateTest, damaged_payloads_are_refused) {
  NpuProgram program;
  const std::vector<std::byte> whole = program.blob;
  program.blob[0] ^= std::byte{1};
  EXPECT_SAYS(refusal(program), "a QNN payload begins with");
  program.blob = whole;
  program.blob.resize(100);
  EXPECT_SAYS(refusal(program), "a QNN payload has 100 bytes, its header alone has 256");
  program.blob = whole;
  program.blob.resize(whole.size() - 7);
  EXPECT_SAYS(refusal(program), cat("says that its context binary has ", whole.size() - 256,
                                    " bytes, there are ", whole.size() - 263));
  program.blob = wrapped(std::vector<std::byte>(1000, std::byte{7}));
  EXPECT_SAYS(refusal(program), "these 1000 bytes are no QNN context binary");
}

// However large it is, and before the engine sees it.
TEST_F(QnnDelegateTest, a_manifest_tells_of_any_changed_byte) {
  NpuProgram program;
  program.blob.resize(program.blob.size() + (3 << 20));
  program.manifest = pte::Manifest{.tool = "t", .precision = "fp16", .target = "SM8650"};
  std::vector<std::byte> bytes = program.bytes();
  const auto at = std::search(bytes.begin(), bytes.end(), program.blob.begin(), program.blob.begin() + 300);
  ASSERT_NE(at, bytes.end());
  at[400] ^= std::byte{4};
  const auto method = load(bytes);
  ASSERT_FALSE(method.ok());
  EXPECT_SAYS(method.error().message(), "the file is damaged: the hash of segment");
}

TEST_F(QnnDelegateTest, a_payload_that_is_not_the_methods_is_refused) {
  NpuProgram program;
  program.blob = wrapped(context_binary("other"));
  EXPECT_SAYS(refusal(program), "the delegate of method forward has no graph of that name, it has other");
  program = {};
  program.args = {0, 2};
  EXPECT_SAYS(refusal(program), "is called with 2 arguments, its graph forward has 2 inputs and 1 outputs");
  program = {};
  program.sizes[1] = {3, 2};
  EXPECT_SAYS(refusal(program),
              "argument input_1_b@0 of the delegate is f32[3, 2] in the program, its graph has "
              "FLOAT_32[2, 3]");
  program = {};
  program.dtype = DType::i32;
  EXPECT_SAYS(refusal(program), "argument input_0_a@0 of the delegate is i32[2, 3] in the program");
  program = {};
  program.sizes[0] = program.sizes[1] = program.sizes[2] = {1, 2, 3};
  EXPECT_EQ(refusal(program), "it loads");  // the same elements in the same places
}

// Refused or run, and nothing else; SIXFOLD_INPUTS tries more.
TEST_F(QnnDelegateTest, damaged_files) {
  const char* wanted = std::getenv("SIXFOLD_INPUTS");
  const size_t inputs = wanted ? std::strtoul(wanted, nullptr, 10) : 1500;
  pte::Rng rng(4242);
  NpuProgram whole;
  whole.bytes();
  size_t ran = 0;
  for (size_t n = 0; n < inputs; ++n) {
    NpuProgram p = whole;
    switch (n % 4) {
      case 0: {
        const auto damaged = pte::damaged_bytes(rng, p.blob);
        p.blob.assign(damaged.bytes().begin(), damaged.bytes().end());
        break;
      }
      case 1: {  // behind a wrapper that is right
        const auto damaged = pte::damaged_bytes(rng, std::span<const std::byte>(p.blob).subspan(256));
        p.blob = wrapped({damaged.bytes().begin(), damaged.bytes().end()});
        break;
      }
      case 2: {
        const auto damaged = pte::damaged_bytes(rng, p.spec);
        p.spec.assign(damaged.bytes().begin(), damaged.bytes().end());
        if (p.spec.empty()) p.spec.resize(1);
        break;
      }
      default: {
        auto& sizes = p.sizes[pte::below(rng, 3)];
        sizes[pte::below(rng, sizes.size())] = static_cast<int32_t>(pte::below(rng, 10));
        if (pte::below(rng, 3) == 0) p.dtype = static_cast<DType>(1 + pte::below(rng, 13));
      }
    }
    auto method = load(p.bytes());
    if (!method.ok()) continue;
    const std::vector<std::byte> zeros(4096);
    bool ready = true;
    for (size_t i = 0; i < (*method)->input_count(); ++i) {
      const auto& t = std::get<TensorState>((*method)->input(i));
      ready &= t.size_bytes() <= zeros.size() &&
               (*method)->set_input(i, {t.dtype, t.sizes, {}, zeros.data()}).ok();
    }
    ran += ready && (*method)->execute().ok();
  }
  EXPECT_GT(ran, 0u);
  EXPECT_LT(ran, inputs);
}

}  // namespace
}  // namespace sixfold
