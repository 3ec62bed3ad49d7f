// What the library says: its log, which comes through a callback without a user pointer, and what it prints.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sixfold/qnn/abi.h"

namespace sixfold::qnn {

// The callback to create a log with.
abi::LogFunction log_function();

// Collects the lines that are logged while it lives. Lines of this thread go to the newest capture of this
// thread; lines of threads without one (the library's workers) to every capture there is.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<std::string> lines() const;  // without marks such as "<E>" and line ends
  // One sentence of them for an error: the first that says something, at most 300 characters. Lines of level
  // error do not mean a failure, so ask only after one.
  std::string reason() const;

 private:
  friend struct LogSink;
  std::thread::id thread_;
  std::vector<std::string> lines_;
};

// "  <E> graph prepare failed\n" -> "graph prepare failed"
std::string clean_log_line(std::string_view line);

// Standard output (or standard error) goes nowhere while one of these lives: versions of the library print at
// finalize, and one to standard error when it is loaded. Nothing of ours may print meanwhile.
class QuietOutput {
 public:
  explicit QuietOutput(FILE* stream = stdout);
  ~QuietOutput();
  QuietOutput(const QuietOutput&) = delete;
  QuietOutput& operator=(const QuietOutput&) = delete;

 private:
  FILE* stream_;
};

}  // namespace sixfold::qnn
