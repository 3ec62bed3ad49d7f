// Damaged files: every one is refused or right, and none crashes, hangs or takes memory beyond its size.
//
// The number of random inputs is small here; SIXFOLD_INPUTS=1000000 and the asan preset do it thoroughly.

#include "sixfold/pte/mutate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "sixfold/base/mapped_file.h"
#include "sixfold/pte/exercise.h"
#include "sixfold/pte/write.h"

namespace sixfold::pte {
namespace {

size_t inputs_wanted() {
  const char* text = std::getenv("SIXFOLD_INPUTS");
  return text ? std::strtoul(text, nullptr, 10) : 4000;
}

AlignedBytes golden(const std::string& name) {
  const auto file = MappedFile::open(SIXFOLD_SOURCE_DIR "/test/pte/" + name);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return AlignedBytes(file.ok() ? (*file)->bytes() : std::span<const std::byte>{});
}

const char* const kGoldens[] = {"mlp.pte",          "mlp_external.pte", "counter.pte",
                                "mlp_external.ptd", "mlp.bpte",         "counter_sixfold.pte"};

TEST(PteMutations, every_byte_with_several_values) {
  for (const char* name : kGoldens) {
    AlignedBytes file = golden(name);
    size_t accepted = 0, tried = 0;
    for_each_neighbour(file, [&](std::span<const std::byte> bytes) {
      accepted += exercise(bytes);
      ++tried;
    });
    EXPECT_TRUE(exercise(file.bytes())) << name;
    EXPECT_LT(accepted, tried) << name;  // weights and names may be anything
  }
}

TEST(PteMutations, random_bytes_and_words) {
  Rng rng(4711);
  for (size_t n = 0; n < inputs_wanted(); ++n)
    exercise(damaged_bytes(rng, golden(kGoldens[n % std::size(kGoldens)]).bytes()).bytes());
}

TEST(PteMutations, random_meanings) {
  Rng rng(1147);
  size_t accepted = 0;
  for (size_t n = 0; n < inputs_wanted(); ++n) {
    const Sample sample;
    const AlignedBytes whole = golden(kGoldens[n % 3]);
    Program p = n % 4 == 3 ? sample.program : *read(whole.bytes());
    damage_meaning(rng, p);
    const auto bytes = write(p);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message();
    accepted += exercise(AlignedBytes(*bytes).bytes());
  }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace sixfold::pte
