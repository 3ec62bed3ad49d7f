#include "sixfold/cpu/pool.h"

#ifdef SIXFOLD_ONEDNN
#include <omp.h>
#endif
#ifdef SIXFOLD_THREADS
#include <pthreadpool.h>
#endif

namespace sixfold::cpu {

#ifdef SIXFOLD_ONEDNN

// oneDNN as Debian builds it would start OpenMP threads of its own inside every primitive, and its spinning
// workers would fight ours for the cores. One OpenMP thread per thread of ours makes each primitive run where
// it is called; the setting belongs to the calling thread, so every worker makes it once.
static thread_local bool single_openmp_thread = false;
static void keep_openmp_single() {
  if (!single_openmp_thread) {
    omp_set_num_threads(1);
    single_openmp_thread = true;
  }
}
#else
static void keep_openmp_single() {}
#endif

#ifndef SIXFOLD_THREADS  // for_each calls run() with more than one thread alone
Pool::Pool(size_t) : threads_(1) { keep_openmp_single(); }
Pool::~Pool() = default;
void Pool::run(void (*)(void*, size_t), void*, size_t) {}
#else
Pool::Pool(size_t threads) {
  keep_openmp_single();
  if (threads != 1) pool_ = pthreadpool_create(threads);
  threads_ = pool_ ? pthreadpool_get_threads_count(pool_) : 1;
}

Pool::~Pool() {
  if (pool_) pthreadpool_destroy(pool_);
}

void Pool::run(void (*task)(void*, size_t), void* context, size_t tasks) {
  struct Work {
    void (*task)(void*, size_t);
    void* context;
  } work{task, context};
  pthreadpool_parallelize_1d(
      pool_,
      [](void* w, size_t i) {
        keep_openmp_single();
        const auto* work = static_cast<Work*>(w);
        work->task(work->context, i);
      },
      &work, tasks, 0);
}
#endif

}  // namespace sixfold::cpu
