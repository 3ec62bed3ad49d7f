// Parts of qnn/ that need no library.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "sixfold/qnn/error.h"
#include "sixfold/qnn/fake.h"
#include "sixfold/qnn/guard.h"
#include "sixfold/qnn/log.h"
#include "sixfold/qnn/reason.h"
#include "sixfold/qnn/soc.h"
#include "sixfold/qnn/wrapper.h"

namespace sixfold::qnn {
namespace {

namespace fs = std::filesystem;

TEST(QnnError, has_the_code_its_name_and_the_log) {
  EXPECT_EQ(device_error("graphFinalize", 0xABC0000 + 6022, "no room").message(),
            "QNN graphFinalize failed with 6022 (graph cannot be finalized): no room");
  EXPECT_EQ(error_name(6099), "graph error");
  EXPECT_EQ(error_name(42), "unknown error");
}

TEST(QnnReason, a_mismatch_names_operands_and_types) {
  const std::vector<std::string> lines = {"Tensor 1 and 65537 have mismatching datatypes. 0x408 != 0x232.",
                                          "Op specific validation failed.",
                                          "QnnBackend_validateOpConfig failed 3110"};
  EXPECT_EQ(refusal(lines), "in[0] and out[0] have mismatching datatypes. UFIXED_POINT_8 != FLOAT_32");
}

TEST(QnnReason, both_numbers_of_a_dimension_stay) {
  const std::vector<std::string> lines = {"Incorrect output dimension at index 3. Expected 24 but got 25."};
  EXPECT_EQ(refusal(lines), "Incorrect output dimension at index 3. Expected 24 but got 25");
}

TEST(QnnReason, an_older_chip_is_named_by_its_version) {
  const std::vector<std::string> lines = {"[4294967295] has incorrect Value 68, expected >= 73."};
  EXPECT_EQ(refusal(lines), "needs HTP v73 or later, the SoC has v68");
}

TEST(QnnReason, types_that_are_not_taken_come_with_the_nearest_that_are) {
  const std::vector<std::string> lines = {
      "Unsupported input/output datatypes requested for the HTP Op 'Conv2d' in the node 'n'.",
      "Requested I/O datatype set:\n\n   in[0]:QNN_DATATYPE_UFIXED_POINT_8\n   in[1]: (optional)\n"
      "   out[0]:QNN_DATATYPE_FLOAT_32",
      "Supported I/O datatype sets for the configuration: FP16\n   1:\n   in[0]:QNN_DATATYPE_FLOAT_16\n"
      "   out[0]:QNN_DATATYPE_FLOAT_16",
      "Supported I/O datatype sets for the configuration: INT8\n   1:\n   in[0]:QNN_DATATYPE_UFIXED_POINT_8\n"
      "   out[0]:QNN_DATATYPE_UFIXED_POINT_8\n   2:\n   in[0]:QNN_DATATYPE_SFIXED_POINT_8\n"
      "   out[0]:QNN_DATATYPE_SFIXED_POINT_8"};
  EXPECT_EQ(refusal(lines),
            "it does not take in[0] UFIXED_POINT_8, out[0] FLOAT_32; the nearest that it takes has out[0] "
            "UFIXED_POINT_8");
}

TEST(QnnReason, lines_that_say_nothing_are_none) {
  const std::vector<std::string> lines = {"", "Failed to validate op n with error 0xc26"};
  EXPECT_EQ(refusal(lines), "");
}

void log_line(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_function()(format, 1, 0, arguments);
  va_end(arguments);
}

TEST(QnnLog, lines_go_to_the_capture_of_their_thread_and_of_workers_to_all) {
  const LogCapture outer;
  {
    const LogCapture inner;
    log_line("  <E> answer %d\n", 42);
    EXPECT_EQ(inner.reason(), "answer 42");
  }
  EXPECT_TRUE(outer.lines().empty());
  std::thread worker([] { log_line("from a worker"); });
  worker.join();
  EXPECT_EQ(outer.lines(), std::vector<std::string>{"from a worker"});
}

TEST(QnnLog, standard_output_is_quiet_and_comes_back) {
  testing::internal::CaptureStdout();
  std::printf("before ");
  {
    const QuietOutput quiet;
    const QuietOutput nested;
    std::printf("chatter");
    ASSERT_EQ(::write(STDOUT_FILENO, "more", 4), 4);
  }
  std::printf("after");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "before after");
}

TEST(QnnGuard, gives_bytes_and_errors_back) {
  const Bytes large(300000, std::byte{7});
  const auto bytes = run_guarded("testing", 30, [&]() -> Result<Bytes> { return large; });
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, large);
  const auto error =
      run_guarded("testing", 30, []() -> Result<Bytes> { return invalid_model("7 is not 8"); });
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().code(), Code::InvalidModel);
  EXPECT_EQ(error.error().message(), "7 is not 8");
}

TEST(QnnGuard, names_the_signal_the_time_and_an_exit) {
  const auto message = [](double limit_s, void (*body)()) {
    const auto result = run_guarded("loading", limit_s, [&]() -> Result<Bytes> {
      body();
      return Bytes{};
    });
    return result.ok() ? "" : result.error().message();
  };
  EXPECT_EQ(message(30, [] { ::raise(SIGSEGV); }), "the QNN library crashed with SIGSEGV while loading");
  EXPECT_EQ(message(30, [] { ::raise(SIGABRT); }), "the QNN library crashed with SIGABRT while loading");
  EXPECT_EQ(message(0.2, [] { ::sleep(60); }), "the QNN library did not end in 0.2 s while loading");
  EXPECT_EQ(message(30, [] { ::_exit(3); }), "the QNN library ended the process while loading");
}

TEST(QnnWrapper, what_is_wrapped_unwraps_and_the_signature_is_of_the_content) {
  const auto wrapped = [](const std::string& text) {
    const auto binary = std::as_bytes(std::span(text));
    const auto header = wrapper_of(binary);
    std::vector<std::byte> out(header.begin(), header.end());
    out.insert(out.end(), binary.begin(), binary.end());
    return out;
  };
  const auto one = wrapped("one"), other = wrapped("other");
  EXPECT_EQ(one, wrapped("one"));
  ASSERT_TRUE(unwrap(one).ok());
  EXPECT_EQ(unwrap(one)->binary.size(), 3u);
  EXPECT_EQ(unwrap(one)->binary.data(), one.data() + 256);
  EXPECT_NE(unwrap(one)->signature, unwrap(other)->signature);
  EXPECT_EQ(one[0], std::byte{0xCD});
  EXPECT_EQ(one[12], std::byte{3});
}

TEST(QnnWrapper, every_shorter_longer_or_changed_one_is_refused) {
  const std::string text = "binary";
  const auto header = wrapper_of(std::as_bytes(std::span(text)));
  std::vector<std::byte> bytes(header.begin(), header.end());
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(unwrap(std::span(bytes).first(n)).ok()) << n;
  for (const size_t at : {0, 3, 12, 13, 19}) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x80};
    EXPECT_FALSE(unwrap(damaged).ok()) << at;
  }
  bytes.push_back({});
  EXPECT_FALSE(unwrap(bytes).ok());
}

TEST(QnnSoc, is_found_by_name_in_any_case_and_by_its_marketing_name) {
  EXPECT_EQ(find_soc("SM8650")->id, 57u);
  EXPECT_EQ(find_soc("sm8650")->htp_arch, 75u);
  EXPECT_EQ(find_soc("8 gen 3")->name, "SM8650");
  for (const char* name : {"SA8295", "SM8450", "SM8475", "SM8550", "SM8750", "SM8850", "SSG2115P", "SSG2125P",
                           "SXR1230P", "SXR2230P", "SXR2330P", "QCM6490", "QCS9100"})
    EXPECT_TRUE(find_soc(name).ok()) << name;
}

TEST(QnnSoc, an_unknown_one_gets_the_nearest_names) {
  const auto soc = find_soc("SM8560");
  ASSERT_FALSE(soc.ok());
  EXPECT_EQ(soc.error().code(), Code::InvalidArgument);
  for (const char* near : {"SM8550", "SM8650"})
    EXPECT_NE(soc.error().message().find(near), std::string::npos) << soc.error().message();
  EXPECT_EQ(describe_soc(999), "SoC 999");
}

// Environment variables for one test.
class QnnPlaces : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"QNN_SDK_ROOT", "VIRTUAL_ENV", "PATH", "HOME"}) {
      const char* value = std::getenv(name);
      saved_.emplace_back(name, value ? value : "");
      ::unsetenv(name);
    }
    root_ = fs::temp_directory_path() / cat("qnn_places_", ::getpid());
    fs::create_directories(root_);
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    fs::remove_all(root_);
  }
  std::string library_in(const std::string& folder) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "libQnnHtp.so") << "no library";
    return root_ / folder;
  }
  fs::path root_;
  std::vector<std::pair<std::string, std::string>> saved_;
};

TEST_F(QnnPlaces, are_the_flag_the_sdk_and_the_wheels_of_python_in_this_order) {
  const std::string flag = library_in("flag"), sdk = library_in("sdk/lib/x86_64-linux-clang"),
                    venv = library_in("venv/lib/python3.11/site-packages/onnxruntime_qnn"),
                    path = library_in("path/lib/python3.12/site-packages/onnxruntime_qnn");
  fs::create_directories(root_ / "path/bin");
  std::ofstream(root_ / "path/bin/python3") << "";
  EXPECT_EQ(*find_library_folder(flag), flag);
  ::setenv("PATH", cat("/nowhere:", (root_ / "path/bin").string()).c_str(), 1);
  EXPECT_EQ(*find_library_folder(), path);
  ::setenv("VIRTUAL_ENV", (root_ / "venv").c_str(), 1);
  EXPECT_EQ(*find_library_folder(), venv);
#if defined(__x86_64__)
  ::setenv("QNN_SDK_ROOT", (root_ / "sdk").c_str(), 1);
  EXPECT_EQ(*find_library_folder(), sdk);
  EXPECT_EQ(*find_library_folder(root_ / "sdk"), sdk);
#endif
}

TEST_F(QnnPlaces, a_demand_that_fails_is_no_reason_to_look_elsewhere) {
  library_in("venv/lib/python3.11/site-packages/onnxruntime_qnn");
  ::setenv("VIRTUAL_ENV", (root_ / "venv").c_str(), 1);
  const auto found = find_library_folder("/nowhere");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message().find("/nowhere (--qnn-lib-dir)"), std::string::npos);
  EXPECT_NE(found.error().message().find("pip install onnxruntime-qnn"), std::string::npos);
  ::setenv("QNN_SDK_ROOT", "/nothing", 1);
  EXPECT_FALSE(find_library_folder().ok());
}

TEST_F(QnnPlaces, a_file_that_is_no_library_cannot_be_loaded) {
  const auto library = Library::load(library_in("flag"));
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code(), Code::NotFound);
  EXPECT_FALSE(Library::load("/nowhere").ok());
}

TEST(QnnLibrary, providers_of_other_versions_or_with_holes_are_passed_over) {
  abi::Provider old = fake::provider(), next = fake::provider(), holes = fake::provider();
  old.core_api = {2, 9, 0};
  next.core_api = {3, 0, 0};
  holes.functions.graph_execute = nullptr;
  const abi::Provider* const list[] = {&old, &next, &holes, &fake::provider()};
  EXPECT_EQ(Library::choose("x.so", list, 4)->provider, &fake::provider());
  const auto none = Library::choose("x.so", list, 3);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message(),
            "x.so offers core API 2.9.0, 3.0.0, 2.38.0 (not complete), expected 2.10 or a later 2");
  EXPECT_FALSE(Library::choose("x.so", nullptr, 1).ok());
  EXPECT_EQ(fake::library().sdk_version(), "2.49.0");
}

TEST(StaticData, floats_are_rounded_by_their_scale_wherever_the_order_puts_them) {
  const Shape shape{4, 6, 3};
  std::byte* bytes = nullptr;
  Tensor source = Tensor::allocate(DType::f32, shape, &bytes);
  auto* x = reinterpret_cast<float*>(bytes);
  for (int i = 0; i < 72; ++i) x[i] = 0.37f * static_cast<float>(i * 29 % 71 - 35);
  x[5] = std::nanf("");
  struct Case {
    int32_t axis;
    int64_t block;
    Shape order;
  };
  for (const Case& c : {Case{-1, 0, {}}, Case{0, 0, {}}, Case{1, 0, {2, 1, 0}}, Case{2, 0, {1, 2, 0}},
                        Case{0, 2, {2, 1, 0}}, Case{0, 3, {}}, Case{1, 2, {2, 0, 1}}}) {
    StaticData data{.source = source, .order = c.order, .dtype = DType::i8};
    data.grid.axis = c.axis;
    data.grid.block = c.block;
    data.grid.min = -7;
    data.grid.max = 7;
    const int64_t channels = c.axis < 0 ? 1 : shape[static_cast<size_t>(c.axis)];
    const int64_t along = c.axis == 1 ? 0 : 1;
    const int64_t blocks = c.block > 0 ? shape[static_cast<size_t>(along)] / c.block : 1;
    for (int64_t i = 0; i < channels * blocks; ++i)
      data.grid.scales.push_back(0.5f + 0.3f * static_cast<float>(i));
    for (int64_t i = 0; i < channels; ++i) data.grid.zero_points.push_back(c.block > 0 ? 0 : i % 2);
    auto made = materialize(data);
    ASSERT_TRUE(made.ok());
    const Shape strides = contiguous_strides(made->shape);
    for (int64_t i = 0; i < 72; ++i) {
      const int64_t at[] = {i / 18, i / 3 % 6, i % 3};
      int64_t place = 0;
      for (size_t k = 0; k < 3; ++k)
        place += at[c.order.empty() ? k : static_cast<size_t>(c.order[k])] * strides[k];
      const int64_t channel = c.axis < 0 ? 0 : at[c.axis];
      const auto scale = static_cast<size_t>(c.block > 0 ? channel * blocks + at[along] / c.block : channel);
      const double zero = c.block > 0 ? 0 : static_cast<double>(channel % 2);
      const double q = std::nearbyint(static_cast<double>(x[i]) / data.grid.scales[scale]) + zero;
      EXPECT_EQ(made->values<int8_t>()[static_cast<size_t>(place)],
                std::isnan(q) ? zero : std::clamp(q, -7.0, 7.0))
          << "axis " << c.axis << " block " << c.block << " element " << i;
    }
  }
}

TEST(StaticData, a_large_weight_is_turned_and_rounded_element_by_element) {
  const Shape shape{70, 333, 3, 5};  // neither rows nor columns fill their blocks
  std::byte* bytes = nullptr;
  StaticData data{
      .source = Tensor::allocate(DType::f32, shape, &bytes), .order = {2, 3, 1, 0}, .dtype = DType::i8};
  auto* x = reinterpret_cast<float*>(bytes);
  for (int64_t i = 0; i < data.source.count(); ++i) x[i] = 0.11f * static_cast<float>(i * 7919 % 2003 - 1001);
  data.grid.axis = 0;
  data.grid.min = -127;
  data.grid.max = 127;
  for (int64_t o = 0; o < shape[0]; ++o) data.grid.scales.push_back(0.5f + 0.03f * static_cast<float>(o));
  auto made = materialize(data);
  ASSERT_TRUE(made.ok());
  int64_t at = 0;
  for (int64_t tap = 0; tap < 15; ++tap)
    for (int64_t i = 0; i < shape[1]; ++i)
      for (int64_t o = 0; o < shape[0]; ++o, ++at) {
        const double q = std::nearbyint(static_cast<double>(x[(o * shape[1] + i) * 15 + tap]) /
                                        data.grid.scales[static_cast<size_t>(o)]);
        ASSERT_EQ(made->values<int8_t>()[static_cast<size_t>(at)], std::clamp(q, -127.0, 127.0))
            << "tap " << tap << " input " << i << " output " << o;
      }
}

}  // namespace
}  // namespace sixfold::qnn
