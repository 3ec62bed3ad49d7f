#include "sixfold/qnn/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "sixfold/qnn/stage.h"

namespace sixfold::qnn {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

int64_t now_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

void write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the parent is gone, or gave up
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

// One byte first: 0 and the bytes, or 1 + code and the message.
[[noreturn]] void be_child(int fd, const std::function<Result<Bytes>()>& body) {
  share_stage(nullptr);  // the parent tells what becomes of a child
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(SIGPIPE, SIG_IGN);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(s, SIG_DFL);
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, STDOUT_FILENO);
  Result<Bytes> result = body();
  const auto kind = static_cast<std::byte>(result.ok() ? 0 : 1 + static_cast<int>(result.error().code()));
  write_all(fd, {&kind, 1});
  write_all(fd, result.ok() ? std::span<const std::byte>(*result)
                            : std::as_bytes(std::span(result.error().message())));
  // No destructors and exit handlers: they are the parent's, and threads that they wait for are not here.
  ::_exit(0);
}

// Everything until the child closes its end. False when the time is over.
bool read_all(int fd, int64_t deadline_ms, Bytes& out) {
  for (;;) {
    pollfd p{fd, POLLIN, 0};
    const int64_t left = deadline_ms - now_ms();
    if (left <= 0) return false;
    const int ready = ::poll(&p, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready <= 0) continue;
    std::byte buffer[65536];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    out.insert(out.end(), buffer, buffer + n);
  }
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? cat("SIG", name) : cat("signal ", number);
}

}  // namespace

Result<Bytes> run_guarded(std::string_view what, double limit_s, const std::function<Result<Bytes>()>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(Code::Internal, "no pipe for a child process: ", std::strerror(errno));
  Descriptor read_end(ends[0]), write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail(Code::Internal, "no child process: ", std::strerror(errno));
  if (child == 0) be_child(write_end.get(), body);
  write_end.close();

  Bytes bytes;
  const bool in_time = read_all(read_end.get(), now_ms() + static_cast<int64_t>(limit_s * 1000), bytes);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return fail(Code::Device, "the QNN library did not end in ", limit_s, " s while ", what);
  if (WIFSIGNALED(status))
    return fail(Code::Device, "the QNN library crashed with ", signal_name(WTERMSIG(status)), " while ",
                what);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || bytes.empty())
    return fail(Code::Device, "the QNN library ended the process while ", what);
  const auto kind = static_cast<int>(bytes.front());
  bytes.erase(bytes.begin());
  if (kind == 0) return bytes;
  return Error(static_cast<Code>(kind - 1),
               std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace sixfold::qnn
