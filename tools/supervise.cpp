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

}  // namespace

int supervise(const std::function<int()>& command) {
  void* page = ::mmap(nullptr, qnn::kStageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return command();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return command();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // who ends this process ends the work
    if (::getppid() != parent) ::_exit(1);
    qnn::share_stage(static_cast<char*>(page));
    std::exit(command());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  auto* stage = static_cast<char*>(page);
  stage[qnn::kStageBytes - 1] = '\0';
  return WIFSIGNALED(status) ? tell(WTERMSIG(status), stage) : WEXITSTATUS(status);
}

}  // namespace sixfold::tools
