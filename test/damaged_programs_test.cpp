// Programs that are nearly right, loaded and run: refused or computed, never a crash. SIXFOLD_INPUTS=n for
// more of them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "sixfold/base/mapped_file.h"
#include "sixfold/execute/exercise.h"
#include "sixfold/pte/mutate.h"
#include "sixfold/pte/read.h"
#include "sixfold/pte/write.h"

namespace sixfold {
namespace {

using pte::AlignedBytes;

size_t inputs_wanted() {
  const char* text = std::getenv("SIXFOLD_INPUTS");
  return text ? std::strtoul(text, nullptr, 10) : 2000;
}

AlignedBytes golden(const std::string& name) {
  const auto file = MappedFile::open(SIXFOLD_SOURCE_DIR "/test/pte/" + name);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return AlignedBytes(file.ok() ? (*file)->bytes() : std::span<const std::byte>{});
}

const char* const kGoldens[] = {"mlp.pte", "counter.pte", "counter_sixfold.pte"};

TEST(DamagedPrograms, the_goldens_themselves_run) {
  EXPECT_EQ(exercise_methods(golden("mlp.pte").bytes()), 1u);
  EXPECT_EQ(exercise_methods(golden("counter.pte").bytes()), 3u);
  EXPECT_EQ(exercise_methods(golden("counter_sixfold.pte").bytes()), 3u);
}

// Every byte takes minutes; each run takes another share of them.
TEST(DamagedPrograms, bytes_with_several_values) {
  const size_t every = std::getenv("SIXFOLD_INPUTS") ? 1 : 23;
  for (const char* name : kGoldens) {
    AlignedBytes file = golden(name);
    size_t n = 0;
    for_each_neighbour(file, [&](std::span<const std::byte> bytes) {
      if (++n % every == 0) exercise_methods(bytes);
    });
  }
}

TEST(DamagedPrograms, random_bytes_and_meanings) {
  pte::Rng rng(815);
  size_t finished = 0;
  for (size_t n = 0; n < inputs_wanted(); ++n) {
    const AlignedBytes whole = golden(kGoldens[n % 3]);
    if (n % 4 < 2) {
      finished += exercise_methods(pte::damaged_bytes(rng, whole.bytes()).bytes());
      continue;
    }
    pte::Program program = *pte::read(whole.bytes());
    damage_meaning(rng, program);
    finished += exercise_methods(AlignedBytes(*pte::write(program)).bytes());
  }
  EXPECT_GT(finished, 0u);
}

}  // namespace
}  // namespace sixfold
