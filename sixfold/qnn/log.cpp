#include "sixfold/qnn/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

namespace sixfold::qnn {

// The list of captures. Never destroyed: workers of the library may log while the process ends.
struct LogSink {
  std::mutex mutex;
  std::vector<LogCapture*> captures;

  static LogSink& get() {
    static auto* sink = new LogSink;
    return *sink;
  }
  void add(std::string line) {
    const std::lock_guard lock(mutex);
    const auto own = std::find_if(captures.rbegin(), captures.rend(), [](const LogCapture* c) {
      return c->thread_ == std::this_thread::get_id();
    });
    if (own != captures.rend()) {
      (*own)->lines_.push_back(std::move(line));
    } else {
      for (LogCapture* c : captures) c->lines_.push_back(line);
    }
  }
};

namespace {

void on_log(const char* format, uint32_t, uint64_t, va_list arguments) {
  char line[8192];  // lists of supported types are up to about 3,000 characters
  if (std::vsnprintf(line, sizeof line, format, arguments) < 0) return;
  LogSink::get().add(clean_log_line(line));
}

// How many QuietOutput of a stream live, and where it really goes meanwhile.
struct Redirection {
  std::mutex mutex;
  int count = 0, saved = -1;
};
Redirection& redirection(const FILE* stream) {
  static auto* r = new Redirection[2];
  return r[stream == stderr];
}

}  // namespace

abi::LogFunction log_function() { return on_log; }

LogCapture::LogCapture() : thread_(std::this_thread::get_id()) {
  LogSink& sink = LogSink::get();
  const std::lock_guard lock(sink.mutex);
  sink.captures.push_back(this);
}

LogCapture::~LogCapture() {
  LogSink& sink = LogSink::get();
  const std::lock_guard lock(sink.mutex);
  std::erase(sink.captures, this);
}

std::vector<std::string> LogCapture::lines() const {
  const std::lock_guard lock(LogSink::get().mutex);
  return lines_;
}

std::string LogCapture::reason() const {
  for (std::string& line : lines()) {
    // Logged for every graph by some versions, and no failure.
    if (line.empty() || line.find("unexpected GraphHtpSettings option") != std::string::npos) continue;
    std::replace(line.begin(), line.end(), '\n', ' ');
    if (line.size() > 300) line = line.substr(0, 297) + "...";
    return line;
  }
  return "";
}

std::string clean_log_line(std::string_view line) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const auto trim = [&] {
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
  };
  trim();
  for (const std::string_view mark : {"<E>", "<W>", "<I>", "<V>", "<D>"})
    if (line.starts_with(mark)) line.remove_prefix(mark.size());
  trim();
  return std::string(line);
}

QuietOutput::QuietOutput(FILE* stream) : stream_(stream) {
  Redirection& r = redirection(stream);
  const std::lock_guard lock(r.mutex);
  if (r.count++ > 0) return;
  std::fflush(stream);  // ours, before it would be lost
  const int fd = ::fileno(stream), nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  r.saved = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (r.saved >= 0) ::dup2(nowhere, fd);  // closed before: stays closed
  ::close(nowhere);
}

QuietOutput::~QuietOutput() {
  Redirection& r = redirection(stream_);
  const std::lock_guard lock(r.mutex);
  if (--r.count > 0 || r.saved < 0) return;
  std::fflush(stream_);  // the library's, which shares the stream
  ::dup2(r.saved, ::fileno(stream_));
  ::close(r.saved);
  r.saved = -1;
}

}  // namespace sixfold::qnn
