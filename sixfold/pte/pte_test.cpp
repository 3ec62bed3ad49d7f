#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "sixfold/pte/header.h"
#include "sixfold/pte/read.h"
#include "sixfold/pte/testing.h"
#include "sixfold/pte/write.h"

namespace sixfold::pte {
namespace {

Program read_back(const AlignedBytes& file, Layout* layout = nullptr) {
  auto program = read(file.bytes(), {}, layout);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
  return program.ok() ? *program : Program{};
}

TEST(Pte, reads_back_what_was_written) {
  const Sample sample;
  const auto bytes = write(sample.program);
  ASSERT_TRUE(bytes.ok());
  const AlignedBytes file(*bytes);
  EXPECT_EQ(difference(read_back(file), sample.program), "");
}

TEST(Pte, reads_back_inlined_delegates) {
  Sample sample;
  sample.program.methods[0].delegates[0].inlined = true;
  const auto bytes = write(sample.program);
  ASSERT_TRUE(bytes.ok());
  const AlignedBytes file(*bytes);
  const Program program = read_back(file);
  EXPECT_EQ(difference(program, sample.program), "");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(program.methods[0].delegates[0].blob.data()) % 16, 0u);
}

TEST(Pte, equal_programs_give_equal_bytes) {
  const Sample a, b;
  EXPECT_EQ(*write(a.program), *write(b.program));
}

TEST(Pte, a_program_without_data_has_no_header) {
  Program program;
  program.methods.push_back(
      {.name = "get_n", .values = {int64_t{7}}, .outputs = {0}, .chains = {{}}, .buffer_sizes = {0}});
  const AlignedBytes file(*write(program));
  EXPECT_NE(std::memcmp(file.bytes().data() + 8, "eh00", 4), 0);
  EXPECT_EQ(difference(read_back(file), program), "");
}

TEST(Pte, segments_and_constants_are_aligned) {
  const Sample sample;
  for (const uint64_t alignment : {uint64_t{128}, kPageBytes}) {
    const AlignedBytes file(
        *write(sample.program, {.segment_alignment = alignment, .constant_alignment = 64}));
    Layout layout;
    const Program program = read_back(file, &layout);
    EXPECT_EQ(difference(program, sample.program), "");
    EXPECT_EQ(layout.segment_base % alignment, 0u);
    for (const Layout::Segment& segment : layout.segments) EXPECT_EQ(segment.offset % alignment, 0u);
    for (size_t i = 1; i < program.constants.size(); ++i)
      EXPECT_EQ((program.constants[i].data() - file.bytes().data()) % 64, 0);
  }
}

TEST(Pte, equal_bytes_are_stored_once) {
  Sample sample;
  Program& program = sample.program;
  const size_t size = write(program)->size();
  // A second delegate, a second name and a second constant, all of bytes that are there.
  program.methods[0].delegates.push_back(program.methods[0].delegates[0]);
  program.named_data.push_back({.key = "again", .data = program.named_data[0].data});
  program.constants.push_back(program.constants[1]);
  Tensor constant = std::get<Tensor>(program.methods[0].values[0]);
  constant.data_index = 3;
  program.methods[0].values.push_back(constant);
  const AlignedBytes file(*write(program));
  Layout layout;
  const Program again = read_back(file, &layout);
  EXPECT_EQ(difference(again, program), "");
  EXPECT_EQ(again.constants[3].data(), again.constants[1].data());
  EXPECT_EQ(layout.segments.size(), 4u);
  EXPECT_LT(file.bytes().size(), size + 512);
}

TEST(Pte, every_truncation_is_refused) {
  const Sample sample;
  const std::vector<std::byte> whole = *write(sample.program);
  for (size_t size = 0; size < whole.size(); ++size) {
    const AlignedBytes file(std::span<const std::byte>{whole.data(), size});
    EXPECT_FALSE(read(file.bytes()).ok()) << size << " of " << whole.size() << " bytes";
  }
}

TEST(Pte, lists_that_tables_share_do_not_multiply) {
  // One list in a hundred thousand values: 4 bytes of file each, 80 kB of memory if it were copied.
  const std::vector<std::byte> bytes = shared_list_file(/*values=*/100000, /*items=*/10000);
  const AlignedBytes file(bytes);
  const auto program = read(file.bytes());
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message().find("bytes of strings and lists"), std::string::npos)
      << program.error().message();
}

}  // namespace
}  // namespace sixfold::pte
