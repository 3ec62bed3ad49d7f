// Programs that are nearly right, loaded and run: refused or computed, never a crash, a hang or an allocation
// that a number of the file alone decides.
//
// SIXFOLD_INPUTS=1000000 tries as many. Under asan, ASAN_OPTIONS=max_allocation_size_mb=256 then makes an
// allocation above that an error.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sixfold/base/mapped_file.h"
#include "sixfold/execute/exercise.h"
#include "sixfold/pte/fields.h"
#include "sixfold/pte/write.h"

namespace sixfold {
namespace {

using pte::AlignedBytes;

bool thorough() { return std::getenv("SIXFOLD_INPUTS") != nullptr; }
size_t inputs_wanted() {
  return thorough() ? std::strtoul(std::getenv("SIXFOLD_INPUTS"), nullptr, 10) : 2000;
}

AlignedBytes golden(const std::string& name) {
  const auto file = MappedFile::open(SIXFOLD_SOURCE_DIR "/test/pte/" + name);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return AlignedBytes(file.ok() ? (*file)->bytes() : std::span<const std::byte>{});
}

// Two of ExecuTorch's, and two of ours with manifests; the last is too long for every byte of it.
const char* const kGoldens[] = {"mlp.pte", "counter.pte", "compiled/net_0.1.0.pte",
                                "compiled/layers_0.1.0.pte"};

// Counts inputs, and fails for one that takes long.
class DamagedPrograms : public testing::Test {
 protected:
  static constexpr double kMostSeconds = 10;

  void exercise(std::span<const std::byte> file) {
    const auto begin = std::chrono::steady_clock::now();
    const size_t n = exercise_methods(file);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    slowest_ = std::max(slowest_, seconds);
    finished_ += n > 0;
    ++inputs_;
  }
  void TearDown() override {
    EXPECT_LT(slowest_, kMostSeconds);
    EXPECT_GT(finished_, 0u);  // else only the reader was tried
    EXPECT_LT(finished_, inputs_);
    if (thorough())
      std::printf("%zu inputs, %zu ran to an end, the slowest took %.3f s\n", inputs_, finished_, slowest_);
  }
  size_t inputs_ = 0, finished_ = 0;
  double slowest_ = 0;
};

TEST(Goldens, run_as_they_are) {
  EXPECT_EQ(exercise_methods(golden("mlp.pte").bytes()), 1u);
  EXPECT_EQ(exercise_methods(golden("counter.pte").bytes()), 3u);
  EXPECT_EQ(exercise_methods(golden("counter_sixfold.pte").bytes()), 3u);
  EXPECT_EQ(exercise_methods(golden("compiled/net_0.1.0.pte").bytes()), 2u);
  EXPECT_EQ(exercise_methods(golden("compiled/layers_0.1.0.pte").bytes()), 1u);
}

// The walker is right: it finds what is known to be in the files, and resealing changes nothing.
TEST(Goldens, have_fields) {
  for (const char* name : kGoldens) {
    AlignedBytes file = golden(name);
    const auto fields = pte::FieldWalker::fields_of(file.bytes());
    EXPECT_GT(fields.size(), file.bytes().size() / 12) << name;
    for (const pte::Field& f : fields) ASSERT_LE(f.at + f.width, file.bytes().size()) << name;
    const std::vector<std::byte> before(file.bytes().begin(), file.bytes().end());
    pte::reseal(file.bytes());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), file.bytes().begin())) << name;
  }
}

// A seal that fits lets damage past the hashes.
TEST(Goldens, can_be_resealed) {
  AlignedBytes file = golden("compiled/net_0.1.0.pte");
  pte::Layout layout;
  ASSERT_TRUE(pte::read(file.bytes(), {}, &layout).ok());
  file.bytes()[layout.segments[0].offset] ^= std::byte{1};  // a weight
  EXPECT_EQ(exercise_methods(file.bytes()), 0u);
  pte::reseal(file.bytes());
  EXPECT_EQ(exercise_methods(file.bytes()), 2u);
}

// Every byte takes minutes; each run takes a share of them.
TEST_F(DamagedPrograms, bytes_with_several_values) {
  const size_t every = thorough() ? 1 : 41;
  for (size_t g = 0; g < 3; ++g) {
    AlignedBytes file = golden(kGoldens[g]);
    size_t n = 0;
    for_each_neighbour(file, [&](std::span<const std::byte> bytes) {
      if (++n % every != 0) return;
      exercise(bytes);
      if (g != 2) return;
      AlignedBytes sealed(bytes);
      pte::reseal(sealed.bytes());
      exercise(sealed.bytes());
    });
  }
}

TEST_F(DamagedPrograms, cut_off_anywhere) {
  for (size_t g = 0; g < 3; ++g) {
    const AlignedBytes whole = golden(kGoldens[g]);
    for (size_t n = 0; n <= whole.bytes().size(); n += thorough() ? 1 : 37)
      exercise(AlignedBytes(whole.bytes().first(n)).bytes());
    exercise(whole.bytes());
  }
}

TEST_F(DamagedPrograms, fields_headers_segments_and_manifests) {
  pte::Rng rng(1511);
  std::vector<AlignedBytes> files;
  std::vector<std::vector<pte::Field>> fields;
  for (const char* name : kGoldens) {
    files.push_back(golden(name));
    fields.push_back(pte::FieldWalker::fields_of(files.back().bytes()));
  }
  for (size_t n = 0; n < inputs_wanted() * 6 / 10; ++n) {
    const size_t g = n % files.size();
    exercise(pte::damaged_structure(rng, files[g].bytes(), fields[g]).bytes());
  }
}

TEST_F(DamagedPrograms, random_bytes_and_meanings) {
  pte::Rng rng(815);
  std::vector<AlignedBytes> files;
  for (const char* name : kGoldens) files.push_back(golden(name));
  for (size_t n = 0; n < inputs_wanted() * 3 / 10; ++n) {
    const AlignedBytes& whole = files[n % files.size()];
    if (n / files.size() % 4 == 0) {
      exercise(pte::damaged_bytes(rng, whole.bytes()).bytes());
      continue;
    }
    pte::Program program = *pte::read(whole.bytes());
    // Its hashes are those of the whole file.
    std::erase_if(program.named_data, [](const auto& item) { return item.key == pte::kManifestKey; });
    damage_meaning(rng, program);
    const auto bytes = pte::write(program);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message();
    exercise(AlignedBytes(*bytes).bytes());
  }
}

}  // namespace
}  // namespace sixfold
