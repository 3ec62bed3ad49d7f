#include "sixfold/base/zip.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "sixfold/base/mapped_file.h"
#include "sixfold/base/npy.h"

namespace sixfold {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string archive_text() {
  const std::string path = testing::TempDir() + "zip_test.zip";
  ZipWriter writer;
  writer.add("a/first", {bytes_of("hello "), bytes_of("world")});
  writer.add("a/empty", {});
  writer.add("a/last", {bytes_of("bye")});
  EXPECT_TRUE(writer.write(path).ok());
  const auto file = MappedFile::open(path);
  EXPECT_TRUE(file.ok());
  const auto bytes = (*file)->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The message of the first error while opening and reading everything; empty when all is well.
std::string error_of(const std::string& archive) {
  auto zip = ZipReader::open({bytes_of(archive), nullptr});
  if (!zip.ok()) return zip.error().message();
  for (const ZipMember& member : zip->members()) {
    const auto data = zip->read(member, /*check_crc=*/true);
    if (!data.ok()) return data.error().message();
  }
  return "";
}

TEST(Zip, what_is_written_is_read_in_place) {
  const std::string archive = archive_text();
  const auto zip = ZipReader::open({bytes_of(archive), nullptr});
  ASSERT_TRUE(zip.ok());
  ASSERT_EQ(zip->members().size(), 3u);
  const auto data = zip->read(*zip->find("a/first"), /*check_crc=*/true);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(data->bytes.data()), data->bytes.size()),
            "hello world");
  EXPECT_GE(data->bytes.data(), reinterpret_cast<const std::byte*>(archive.data()));
  EXPECT_EQ((data->bytes.data() - reinterpret_cast<const std::byte*>(archive.data())) % 64, 0);
  EXPECT_EQ(zip->find("a/none"), nullptr);
  EXPECT_EQ(error_of(archive), "");
}

TEST(Zip, every_truncation_is_an_error) {
  const std::string archive = archive_text();
  for (size_t size = 0; size < archive.size(); ++size)
    EXPECT_NE(error_of(archive.substr(0, size)), "") << size;
}

TEST(Zip, no_flipped_byte_is_followed_out_of_the_archive) {
  const std::string archive = archive_text();
  for (size_t at = 0; at < archive.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = archive;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      (void)error_of(damaged);  // asan watches the reads
    }
  }
}

TEST(Zip, two_members_with_one_name_are_refused) {
  const std::string path = testing::TempDir() + "zip_twice.zip";
  ZipWriter writer;
  writer.add("same", {bytes_of("1")});
  writer.add("same", {bytes_of("2")});
  ASSERT_TRUE(writer.write(path).ok());
  const auto file = MappedFile::open(path);
  const auto zip = ZipReader::open({(*file)->bytes(), *file});
  ASSERT_FALSE(zip.ok());
  EXPECT_NE(zip.error().message().find("two members named same"), std::string::npos);
}

TEST(MappedFile, says_what_is_wrong_with_the_path) {
  EXPECT_NE(MappedFile::open("/nowhere/x").error().message().find("cannot open /nowhere/x"),
            std::string::npos);
  EXPECT_NE(MappedFile::open("/tmp").error().message().find("is a directory"), std::string::npos);
}

TEST(Npy, arrays_come_back_from_npy_and_npz) {
  const std::string path = testing::TempDir() + "npy_test";
  std::byte* bytes = nullptr;
  const Tensor tensor = Tensor::allocate(DType::f32, {2, 3}, &bytes);
  const float values[] = {1, 2, 3, 4, 5, 6};
  std::memcpy(bytes, values, sizeof values);
  ASSERT_TRUE(write_npy(path + ".npy", tensor).ok());
  const auto one = read_npy(path + ".npy");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->shape, (Shape{2, 3}));
  EXPECT_EQ(one->values<float>()[5], 6.0f);

  NpzWriter writer;
  ASSERT_TRUE(writer.add("x", tensor).ok());
  ASSERT_TRUE(writer.add("n", Tensor::scalar(int64_t{7}, DType::i64)).ok());
  ASSERT_TRUE(writer.write(path + ".npz").ok());
  const auto npz = NpzReader::open(path + ".npz");
  ASSERT_TRUE(npz.ok());
  EXPECT_EQ(npz->names(), (std::vector<std::string>{"x", "n"}));
  EXPECT_EQ(element_integer(*npz->read("n"), 0), 7);
  EXPECT_EQ(npz->read("x")->values<float>()[0], 1.0f);
  EXPECT_EQ(npz->read("y").error().code(), Code::NotFound);
}

TEST(Npy, fortran_order_becomes_row_major) {
  std::string file = *npy_header(DType::i8, {2, 2});
  file.replace(file.find("False"), 5, "True ");
  file += {'\1', '\2', '\3', '\4'};
  const auto tensor = parse_npy({bytes_of(file), nullptr});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(element_integer(*tensor, 1), 3);
}

TEST(Npy, short_data_and_strange_dtypes_are_errors) {
  const std::string header = *npy_header(DType::f32, {1000});
  EXPECT_NE(parse_npy({bytes_of(header), nullptr}).error().message().find("the file has 0"),
            std::string::npos);
  std::string complex = header;
  complex.replace(complex.find("<f4"), 3, "<c8");
  EXPECT_EQ(parse_npy({bytes_of(complex), nullptr}).error().code(), Code::Unsupported);
  EXPECT_FALSE(npy_header(DType::bf16, {1}).ok());
}

}  // namespace
}  // namespace sixfold
