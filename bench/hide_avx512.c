/* Preloaded into a program, answers its CPUID without AVX-512, AVX-VNNI and AMX: what it then does is what it does on a CPU with
   AVX2 alone. Linux makes CPUID fault on request (arch_prctl ARCH_SET_CPUID), where the CPU can. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSetCpuid = 0x1012 };

static void answer(int number, siginfo_t* info, void* context) {
  greg_t* g = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* at = (const unsigned char*)g[REG_RIP];
  (void)info;
  if (at[0] != 0x0f || at[1] != 0xa2) { /* another fault: as ever */
    signal(number, SIG_DFL);
    return;
  }
  const unsigned leaf = (unsigned)g[REG_RAX], part = (unsigned)g[REG_RCX];
  unsigned a, b, c, d;
  syscall(SYS_arch_prctl, kSetCpuid, 1);
  __cpuid_count(leaf, part, a, b, c, d);
  syscall(SYS_arch_prctl, kSetCpuid, 0);
  if (leaf == 7 && part == 0) {
    b &= ~0xDC230000u; /* F, DQ, IFMA, PF, ER, CD, BW, VL */
    c &= ~0x00005842u; /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
    d &= ~0x03C0010Cu; /* 4VNNIW, 4FMAPS, VP2INTERSECT, AMX, FP16 */
  }
  if (leaf == 7 && part == 1) {
    a &= ~0x00800030u; /* AVX-VNNI, BF16, IFMA of AVX */
    d = 0;
  }
  g[REG_RAX] = a, g[REG_RBX] = b, g[REG_RCX] = c, g[REG_RDX] = d;
  g[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, 0);
  if (syscall(SYS_arch_prctl, kSetCpuid, 0) != 0) _exit(3);
}
