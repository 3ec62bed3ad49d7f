#include "sixfold/base/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sixfold {
namespace {

std::span<const std::byte> view(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(Sha256, gives_the_standards_examples) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const auto& [text, digest] : cases) {
    EXPECT_EQ(sha256_hex(view(text)), digest);
    EXPECT_EQ(internal::sha256_hex_plain(view(text)), digest);
  }
}

TEST(Sha256, both_ways_agree_for_every_length_of_the_last_blocks) {
  std::string text;
  for (size_t size = 0; size < 260; ++size) {
    EXPECT_EQ(sha256_hex(view(text)), internal::sha256_hex_plain(view(text))) << size;
    text += static_cast<char>(size * 37);
  }
}

}  // namespace
}  // namespace sixfold
