#include "sixfold/import/import.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "sixfold/base/mapped_file.h"
#include "sixfold/import/origin.h"

namespace sixfold {
namespace {

const std::string kDigits = SIXFOLD_SOURCE_DIR "/demo/digits.pt2";

TEST(Import, the_demo_model_has_its_signature_weights_and_source_lines) {
  ImportInfo info;
  const auto graph = import_pt2(kDigits, {}, &info);
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  EXPECT_EQ(info.schema_major, 8);
  EXPECT_EQ(info.model, "model");
  EXPECT_EQ(graph->inputs.size(), 1u);
  EXPECT_EQ(graph->outputs.size(), 1u);
  EXPECT_TRUE(verify(*graph).ok());
  size_t constants = 0;
  for (const Value& v : graph->values()) constants += v.kind == ValueKind::constant;
  EXPECT_GT(constants, 3u);
  const Node& first = graph->node(graph->first());
  EXPECT_EQ(first.op, Op::call);
  EXPECT_NE(graph->origin(first).source.find(".py:"), std::string::npos);
}

TEST(Import, weights_are_bytes_of_the_file) {
  const auto file = MappedFile::open(kDigits);
  ASSERT_TRUE(file.ok());
  const auto bytes = (*file)->bytes();
  const auto graph = import_pt2(OwnedBytes{bytes, *file});
  ASSERT_TRUE(graph.ok());
  for (const Value& v : graph->values())
    if (v.kind == ValueKind::constant) {
      EXPECT_GE(v.constant.data, bytes.data()) << v.name;
      EXPECT_LE(v.constant.data + v.constant.size_bytes(), bytes.data() + bytes.size()) << v.name;
    }
}

TEST(Import, a_flipped_weight_is_found_when_asked_for) {
  const auto file = MappedFile::open(kDigits);
  const auto bytes = (*file)->bytes();
  const auto graph = import_pt2(OwnedBytes{bytes, *file});
  ASSERT_TRUE(graph.ok());
  size_t at = 0;
  for (const Value& v : graph->values())
    if (v.kind == ValueKind::constant) at = static_cast<size_t>(v.constant.data - bytes.data());
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  (*copy)[at] ^= std::byte{1};
  EXPECT_TRUE(import_pt2(OwnedBytes{*copy, copy}).ok());
  const auto checked = import_pt2(OwnedBytes{*copy, copy}, {.model = "", .check_crc = true});
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().message().find("checksum"), std::string::npos);
}

TEST(Import, what_is_no_model_says_so) {
  EXPECT_NE(import_pt2("/").error().message().find("directory"), std::string::npos);
  const auto missing = import_pt2(kDigits, {.model = "other", .check_crc = false});
  EXPECT_NE(missing.error().message().find("no model named other; it has model"), std::string::npos);
}

TEST(Origin, the_innermost_line_outside_torch_is_the_users) {
  EXPECT_EQ(user_line("File \"/home/me/net.py\", line 12, in forward\n    return self.conv(x)\n"
                      "  File \"/usr/lib/python3/site-packages/torch/nn/modules/conv.py\", line 554, in "
                      "forward\n    return F.conv2d()"),
            "net.py:12 in forward: return self.conv(x)");
  EXPECT_EQ(user_line("no traceback"), "");
  EXPECT_EQ(module_path("L__self__,,net.Net;L__self___features_0,features.0,torch.nn.modules.conv.Conv2d"),
            "features.0");
  EXPECT_EQ(module_path(""), "");
}

}  // namespace
}  // namespace sixfold
