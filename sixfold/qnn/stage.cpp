#include "sixfold/qnn/stage.h"

#include <algorithm>
#include <cstring>

namespace sixfold::qnn {
namespace {

char* shared = nullptr;
bool crashed = false;

}  // namespace

void share_stage(char* page) { shared = page; }

void note_crash() { crashed = true; }
bool crashed_before() { return crashed; }

Stage::Stage(std::initializer_list<std::string_view> words) {
  if (!shared) return;
  size_t at = 0;
  for (const std::string_view word : words) {
    const size_t n = std::min(word.size(), kStageBytes - 1 - at);
    std::memcpy(shared + at, word.data(), n);
    at += n;
  }
  shared[at] = '\0';
}

Stage::~Stage() {
  if (shared) shared[0] = '\0';
}

}  // namespace sixfold::qnn
