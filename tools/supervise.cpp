#include "tools/supervise.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "sixfold/qnn/stage.h"

namespace sixfold::tools {
namespace {

int tell(int signal, const char* stage) {
  const char* while_what = stage[0] ? " while " : "";
  if (signal == SIGKILL)
    std::fprintf(stderr, "sixfold: killed%s%s, by the system if memory ran out\n", while_what, stage);
  else
    std::fprintf(stderr, "sixfold: %s crashed (signal %d, %s)%s%s\n",
                 stage[0] ? "Qualcomm's library" : "the command", signal, ::strsignal(signal), while_what,
                 stage);
  return 1;
}

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGABRT;
}

}  // namespace

int supervise(const std::function<int()>& command) {
  void* page = ::mmap(nullptr, qnn::kStageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return command();
  auto* stage = static_cast<char*>(page);
  const pid_t parent = ::getpid();
  for (bool again = false;; again = true) {
    const pid_t child = ::fork();
    if (child < 0) return command();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // who ends this process ends the work
      if (::getppid() != parent) ::_exit(1);
      qnn::share_stage(stage);
      if (again) qnn::note_crash();
      std::exit(command());
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) return 1;
    }
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    stage[qnn::kStageBytes - 1] = '\0';
    const int result = tell(WTERMSIG(status), stage);
    if (again || !is_crash(WTERMSIG(status)) || !std::string_view(stage).starts_with(qnn::kPreparing))
      return result;
    std::fprintf(stderr, "sixfold: trying again, to find out what it crashes on\n");
    stage[0] = '\0';
  }
}

}  // namespace sixfold::tools
