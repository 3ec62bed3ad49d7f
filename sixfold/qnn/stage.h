// What is asked of the vendor's library right now, in words that outlive the process: a page that it shares
// with a supervisor (tools/supervise.h), who tells when a crash of the library ended it.
#pragma once

#include <initializer_list>
#include <string_view>

namespace sixfold::qnn {

constexpr size_t kStageBytes = 256;

// kStageBytes of shared memory, zeroed; none until this is called.
void share_stage(char* page);

// What graphs are prepared in begins with this.
inline constexpr std::string_view kPreparing = "preparing graph ";

// The library crashed when this command was tried before: graphs are prepared in children from now on.
void note_crash();
bool crashed_before();

class Stage {
 public:
  explicit Stage(std::initializer_list<std::string_view> words);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
};

}  // namespace sixfold::qnn
