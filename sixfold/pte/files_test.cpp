// Files that stand beside a .pte: .ptd, .bpte, ETDump; and ExecuTorch's own files in test/pte.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sixfold/base/mapped_file.h"
#include "sixfold/pte/bpte.h"
#include "sixfold/pte/etdump.h"
#include "sixfold/pte/etdump_generated.h"
#include "sixfold/pte/ptd.h"
#include "sixfold/pte/read.h"
#include "sixfold/pte/testing.h"
#include "sixfold/pte/verify.h"
#include "sixfold/pte/write.h"

namespace sixfold::pte {
namespace {

AlignedBytes golden(const std::string& name) {
  const auto file = MappedFile::open(SIXFOLD_SOURCE_DIR "/test/pte/" + name);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return AlignedBytes(file.ok() ? (*file)->bytes() : std::span<const std::byte>{});
}

template <typename T>
std::string message(const Result<T>& result) {
  return result.ok() ? "" : result.error().message();
}

TEST(PteGolden, executorchs_files_are_read_and_written_again) {
  for (const char* name : {"mlp.pte", "mlp_external.pte", "counter.pte", "counter_sixfold.pte"}) {
    const AlignedBytes file = golden(name);
    const auto program = read(file.bytes());
    ASSERT_EQ(message(program), "") << name;
    EXPECT_TRUE(verify(*program).ok()) << name << ": " << verify(*program).error().message();
    const AlignedBytes again(*write(*program));
    const auto copy = read(again.bytes());
    ASSERT_EQ(message(copy), "") << name;
    EXPECT_EQ(difference(*copy, *program), "") << name;
  }
}

TEST(PteGolden, counter_has_what_its_source_has) {
  const AlignedBytes file = golden("counter.pte");
  const Program program = *read(file.bytes());
  ASSERT_EQ(program.methods.size(), 3u);
  std::map<std::string, const Method*> methods;
  for (const Method& method : program.methods) methods[method.name] = &method;
  ASSERT_TRUE(methods.count("forward") && methods.count("get_n") && methods.count("get_name"));
  const auto output = [&](const char* name) {
    const Method& m = *methods[name];
    return m.values[static_cast<size_t>(m.outputs.at(0))];
  };
  EXPECT_EQ(output("get_n"), Value(int64_t{7}));
  EXPECT_EQ(output("get_name"), Value(std::string("counter")));
  const Method& forward = *methods["forward"];
  const auto& x = std::get<Tensor>(forward.values[static_cast<size_t>(forward.inputs.at(0))]);
  EXPECT_EQ(x.dynamism, Dynamism::bounded);
  EXPECT_EQ(x.sizes, (std::vector<int32_t>{6, 2}));
  ASSERT_EQ(program.mutable_data.size(), 2u);
  const float seen[] = {3, 4};
  EXPECT_TRUE(same(program.mutable_data[1], std::as_bytes(std::span(seen))));
}

TEST(Ptd, executorchs_file_has_the_tensors_that_its_program_names) {
  const AlignedBytes file = golden("mlp_external.ptd"), pte = golden("mlp_external.pte");
  const auto data = read_ptd(file.bytes());
  ASSERT_EQ(message(data), "");
  const Program program = *read(pte.bytes());
  size_t found = 0;
  for (const Value& value : program.methods[0].values) {
    const auto* tensor = std::get_if<Tensor>(&value);
    if (!tensor || tensor->location != Location::external) continue;
    const auto bytes = external_data(*data, *tensor);
    ASSERT_EQ(message(bytes), "");
    EXPECT_EQ(bytes->size(), *size_bytes(*tensor));
    ++found;
    Tensor other = *tensor;
    other.sizes.back() += 1;
    EXPECT_NE(message(external_data(*data, other)).find("in the data file, the program needs f32"),
              std::string::npos);
    other.name = "nobody";
    EXPECT_EQ(message(external_data(*data, other)), "the data files have no tensor \"nobody\"");
  }
  EXPECT_EQ(found, 2u);
}

TEST(Ptd, reads_back_what_was_written) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {1, 2, 3, 4};
  const std::string blob = "opaque";
  const std::vector<DataEntry> entries = {
      {"z", Sample::view(a), TensorLayout{DType::f32, {2, 2}, {1, 0}}},
      {"a", Sample::view(b), TensorLayout{DType::i32, {4}, {0}}},
      {"blob", Sample::view(blob), std::nullopt},
      {"empty", {}, TensorLayout{DType::f32, {0, 3}, {0, 1}}},
  };
  const AlignedBytes file(*write_ptd(entries));
  const auto data = read_ptd(file.bytes());
  ASSERT_EQ(message(data), "");
  ASSERT_EQ(data->entries.size(), entries.size());
  for (const DataEntry& entry : entries) {
    const DataEntry* found = data->find(entry.key);
    ASSERT_NE(found, nullptr) << entry.key;
    EXPECT_TRUE(same(found->data, entry.data)) << entry.key;
    EXPECT_EQ(found->layout, entry.layout) << entry.key;
  }
  EXPECT_EQ(data->find("z")->data.data(), data->find("a")->data.data());
  EXPECT_EQ(data->find("b"), nullptr);
}

TEST(Ptd, refuses_what_does_not_fit) {
  const std::vector<float> a = {1, 2, 3, 4};
  const auto refusal = [&](DataEntry entry) {
    const AlignedBytes file(*write_ptd({{entry}}));
    return message(read_ptd(file.bytes()));
  };
  const auto bytes = Sample::view(a);
  EXPECT_EQ(refusal({"w", bytes, TensorLayout{DType::f32, {4}, {0}}}), "");
  EXPECT_EQ(refusal({"w", bytes, TensorLayout{DType::f32, {5}, {0}}}),
            "it has 16 bytes, sizes [5] of f32 need 20 (while reading entry 0, \"w\")");
  EXPECT_NE(refusal({"w", bytes, TensorLayout{DType::f32, {4}, {1}}}).find("not a permutation"),
            std::string::npos);
  EXPECT_NE(refusal({"w", bytes, TensorLayout{DType::f32, {-4}, {0}}}).find("negative"), std::string::npos);
  EXPECT_NE(refusal({"", bytes, std::nullopt}).find("no key"), std::string::npos);
  const AlignedBytes twice(*write_ptd({{{"w", bytes, std::nullopt}, {"w", bytes, std::nullopt}}}));
  EXPECT_EQ(message(read_ptd(twice.bytes())), "the key \"w\" is there twice");
}

TEST(Bpte, executorchs_bundle_has_program_and_cases) {
  const AlignedBytes file = golden("mlp.bpte"), pte = golden("mlp.pte");
  const auto bundle = read_bpte(file.bytes());
  ASSERT_EQ(message(bundle), "");
  EXPECT_TRUE(same(bundle->program, pte.bytes()));
  ASSERT_EQ(bundle->suites.size(), 1u);
  EXPECT_EQ(bundle->suites[0].method, "forward");
  ASSERT_EQ(bundle->suites[0].cases.size(), 1u);
  const BundledCase& test = bundle->suites[0].cases[0];
  ASSERT_EQ(test.inputs.size(), 1u);
  EXPECT_EQ(std::get<BundledTensor>(test.inputs[0]).sizes, (std::vector<int32_t>{2, 4}));
  ASSERT_EQ(test.expected.size(), 2u);
  EXPECT_EQ(std::get<BundledTensor>(test.expected[0]).sizes, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(std::get<BundledTensor>(test.expected[1]).sizes, (std::vector<int32_t>{}));
}

TEST(Files, every_truncation_is_refused) {
  const auto check = [](const std::string& name,
                        const std::function<bool(std::span<const std::byte>)>& reads) {
    const AlignedBytes whole = golden(name);
    ASSERT_TRUE(reads(whole.bytes())) << name;
    for (size_t size = 0; size < whole.bytes().size(); ++size) {
      const AlignedBytes file(whole.bytes().first(size));
      EXPECT_FALSE(reads(file.bytes())) << name << ", " << size << " of " << whole.bytes().size() << " bytes";
    }
  };
  const auto pte = [](std::span<const std::byte> file) {
    const auto program = read(file);
    return program.ok() && verify(*program).ok();
  };
  const auto bpte = [&](std::span<const std::byte> file) {
    const auto bundle = read_bpte(file);
    return bundle.ok() && pte(bundle->program);
  };
  for (const char* name : {"mlp.pte", "mlp_external.pte", "counter.pte", "counter_sixfold.pte"})
    check(name, pte);
  check("mlp_external.ptd", [](std::span<const std::byte> file) { return read_ptd(file).ok(); });
  check("mlp.bpte", bpte);
}

EtDump some_events() {
  EtDump dump;
  dump.runs.push_back(
      {.name = "Default",
       .events = {ProfileEvent{.name = "Method::init", .instruction = 0, .start_ns = 5, .end_ns = 10}}});
  for (int run = 0; run < 2; ++run) {
    const LoggedTensor tensor{.dtype = DType::f32, .sizes = {2}, .strides = {1}, .offset = 0};
    auto& events = dump.runs.emplace_back().events;
    events.push_back(DebugEvent{.instruction = 0, .value = tensor});
    events.push_back(ProfileEvent{
        .name = "native_call_add.out", .chain = 0, .instruction = 0, .start_ns = 1000000, .end_ns = 3000000});
    events.push_back(ProfileEvent{
        .name = "OPERATOR_CALL", .chain = 0, .instruction = 0, .start_ns = 900000, .end_ns = 3100000});
    events.push_back(ProfileEvent{.chain = 0, .instruction = 1, .delegate_name = "inner (us)", .end_ns = 77});
    events.push_back(ProfileEvent{
        .name = "DELEGATE_CALL", .chain = 0, .instruction = 1, .start_ns = 3100000, .end_ns = 4100000});
    events.push_back(ProfileEvent{.name = "Method::execute", .start_ns = 900000, .end_ns = 5000000});
    events.push_back(DebugEvent{.chain = -1, .value = tensor, .is_output = true});
  }
  return dump;
}

// With SIXFOLD_ETDUMP set to a path the file is kept there: test_etdump.py opens it with the Inspector.
TEST(EtDump, is_a_flatbuffer_with_the_events) {
  const std::vector<std::byte> bytes = write_etdump(some_events());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  ASSERT_TRUE(etdump_wire::VerifySizePrefixedDumpBuffer(verifier));
  const etdump_wire::Dump& dump = *etdump_wire::GetSizePrefixedDump(data);
  ASSERT_EQ(dump.runs()->size(), 3u);
  const auto& events = *dump.runs()->Get(1)->events();
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events.Get(1)->profile()->name()->str(), "native_call_add.out");
  EXPECT_EQ(events.Get(1)->profile()->instruction(), 0);
  EXPECT_EQ(events.Get(6)->debug()->chain(), ~uint64_t{0});
  if (const char* path = std::getenv("SIXFOLD_ETDUMP")) {
    const std::span<const std::byte> parts[] = {bytes};
    ASSERT_TRUE(write_file(path, parts).ok());
  }
}

}  // namespace
}  // namespace sixfold::pte
