// For tests with Qualcomm's library, where there is one: skips with the reason where there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "sixfold/qnn/context.h"

namespace sixfold::qnn {

class QnnLive : public testing::Test {
 protected:
  void SetUp() override {
#ifndef __x86_64__
    GTEST_SKIP() << "the library that packages bring is for x86-64";
#endif
#ifdef SIXFOLD_SANITIZED
    GTEST_SKIP()
        << "the vendor's library was not tried under sanitizers; the fake provider's tests run there";
#endif
    // Tests run in the build tree; the environment of the tests is in the source tree.
    Result<std::string> folder = find_library_folder();
    if (!folder.ok() && !std::getenv("QNN_SDK_ROOT")) {
      ::setenv("VIRTUAL_ENV", SIXFOLD_SOURCE_DIR "/.venv", 1);
      folder = find_library_folder();
    }
    if (!folder.ok()) GTEST_SKIP() << folder.error().message();
    folder_ = *folder;
    Result<Library> library = Library::load(folder_);
    ASSERT_TRUE(library.ok()) << library.error().message();
    library_ = *library;
  }
  std::string folder_;
  Library library_;
};

}  // namespace sixfold::qnn
