#include "sixfold/pte/manifest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sixfold/pte/json.h"
#include "sixfold/pte/open.h"
#include "sixfold/pte/testing.h"
#include "sixfold/pte/write.h"

namespace sixfold::pte {
namespace {

const Manifest kManifest{.tool = "sixfold 9.9",
                         .sources = {"00ff", "a \"quoted\"\nname"},
                         .precision = "fp32",
                         .target = "cpu",
                         .libraries = {{"qnn", "2.49"}, {"other", ""}}};

std::string refusal(const AlignedBytes& file, CheckData check = CheckData::small) {
  const auto program = open(file.bytes(), {.check_data = check});
  return program.ok() ? "" : program.error().message();
}

TEST(Manifest, reads_back_what_was_written) {
  const Sample sample;
  const AlignedBytes file(*write(sample.program, {.manifest = kManifest}));
  Layout layout;
  const auto program = open(file.bytes(), {}, &layout);
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(difference(*program, sample.program), "");
  const auto manifest = check_manifest(file.bytes(), layout, CheckData::all);
  ASSERT_TRUE(manifest.ok()) << manifest.error().message();
  EXPECT_EQ(*manifest, kManifest);
  EXPECT_EQ(*write(*program, {.manifest = kManifest}), *write(sample.program, {.manifest = kManifest}));
}

TEST(Manifest, a_file_without_one_is_fine) {
  const AlignedBytes file(*write(Sample().program));
  Layout layout;
  ASSERT_TRUE(open(file.bytes(), {}, &layout).ok());
  EXPECT_EQ(*check_manifest(file.bytes(), layout, CheckData::all), Manifest{});
}

TEST(Manifest, any_changed_byte_of_what_it_covers_is_found) {
  const Sample sample;
  const std::vector<std::byte> bytes = *write(sample.program, {.manifest = kManifest});
  Layout layout;
  AlignedBytes file(bytes);
  ASSERT_TRUE(open(file.bytes(), {}, &layout).ok());
  ASSERT_TRUE(layout.manifest);
  const auto covered = [&](size_t at) {
    if (at < layout.program_size) return true;
    for (size_t i = 0; i < layout.segments.size(); ++i)
      if (i != *layout.manifest && at - layout.segments[i].offset < layout.segments[i].size) return true;
    return false;
  };
  // A changed key is another key: then there is no manifest to check by.
  size_t flipped = 0, lost = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (!covered(at)) continue;
    file.bytes()[at] ^= std::byte{0x10};
    Layout found;
    const bool opened = open(file.bytes(), {}, &found).ok();
    EXPECT_TRUE(!opened || !found.manifest) << "byte " << at;
    lost += opened;
    file.bytes()[at] ^= std::byte{0x10};
    ++flipped;
  }
  EXPECT_GT(flipped, layout.program_size);
  EXPECT_LT(lost, 2 * kManifestKey.size());
  EXPECT_EQ(refusal(file), "");
}

TEST(Manifest, large_parts_are_checked_when_asked) {
  Sample sample;
  sample.weight.resize((kSmallPart + 1024) / sizeof(float));
  sample.program.constants[1] = Sample::view(sample.weight);
  std::get<Tensor>(sample.program.methods[0].values[0]).sizes = {
      2, static_cast<int32_t>(sample.weight.size() / 2)};
  AlignedBytes file(*write(sample.program, {.manifest = kManifest}));
  Layout layout;
  ASSERT_TRUE(open(file.bytes(), {.check_data = CheckData::all}, &layout).ok());
  file.bytes()[layout.segments[0].offset + 5] ^= std::byte{1};
  EXPECT_EQ(refusal(file), "");
  EXPECT_NE(refusal(file, CheckData::all).find("the hash of segment 0 (16778264 bytes) is"), std::string::npos)
      << refusal(file, CheckData::all);
}

TEST(Manifest, is_refused_when_it_does_not_say_what_it_must) {
  const Sealed sealed{kManifest, "p", {"a", ""}};
  const std::string json = to_json(sealed);
  const auto parsed = parse_manifest(json);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(parsed->manifest, kManifest);
  EXPECT_EQ(parsed->segments, sealed.segments);
  for (const char* key :
       {"manifest", "tool", "sources", "precision", "target", "libraries", "hash", "program", "segments"}) {
    std::string other = json;
    other[other.find(cat("\"", key, "\"")) + 1] = 'X';
    EXPECT_FALSE(parse_manifest(other).ok()) << key;
  }
  for (size_t size = 0; size < json.size(); ++size)
    EXPECT_FALSE(parse_manifest(json.substr(0, size)).ok()) << size;
  EXPECT_FALSE(parse_manifest(std::string(2000000, ' ')).ok());
}

TEST(Json, reads_what_json_allows_and_nothing_else) {
  for (const char* good :
       {"null", " [1, -2.5e3, {}]\n", "{\"a\":{\"b\":[]},\"c\":\"\\u0041\\n\\\"\"}", "true"})
    EXPECT_TRUE(parse_json(good).ok()) << good;
  for (const char* bad : {"", "[", "[1,]", "{\"a\"}", "{a:1}", "nul", "\"\n\"", "\"\\u00g0\"", "1 2", "[1}",
                          "-", "1.", "\"\\u"})
    EXPECT_FALSE(parse_json(bad).ok()) << bad;
  EXPECT_EQ(parse_json("\"\\u0041\\n\\\"\"")->text, "A\n\"");
  EXPECT_FALSE(parse_json(std::string(100000, '[')).ok());
  EXPECT_EQ(parse_json(json_text("a\x01\"\\b"))->text, "a\x01\"\\b");
}

}  // namespace
}  // namespace sixfold::pte
