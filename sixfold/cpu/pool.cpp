#include "sixfold/cpu/pool.h"

#ifdef SIXFOLD_ONEDNN
#include <omp.h>
#endif
#ifdef SIXFOLD_THREADS
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>
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

static void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One job at a time. `state` is its number and the next task: (job << 32) | task. A thread that takes a task
// by compare-and-swap knows that the job was not done, so what it read of the job before holds.
struct Pool::Workers {
  std::vector<pthread_t> threads;
  std::mutex busy;  // a job is running
  std::atomic<uint64_t> state{0};
  std::atomic<uint32_t> tasks{0}, done{0};
  std::atomic<void (*)(void*, size_t)> task{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<uint32_t> wake{0};  // changes with every job
  std::atomic<uint32_t> sleeping{0};
  std::atomic<bool> stop{false};

  // Tasks of job `number` until there is none left.
  void work(uint32_t number) {
    while (true) {
      uint64_t seen = state.load(std::memory_order_acquire);
      const auto next = static_cast<uint32_t>(seen);
      if (seen >> 32 != number || next >= tasks.load(std::memory_order_acquire)) return;
      auto* const function = task.load(std::memory_order_relaxed);
      void* const with = context.load(std::memory_order_relaxed);
      if (!state.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      function(with, next);
      done.fetch_add(1, std::memory_order_release);
    }
  }

  void serve() {
    keep_openmp_single();
    constexpr int kSpins = 20000;  // about a millisecond: longer than what lies between the ops of a net
    uint32_t last = wake.load(std::memory_order_acquire);
    while (!stop.load(std::memory_order_acquire)) {
      work(static_cast<uint32_t>(state.load(std::memory_order_acquire) >> 32));
      int spins = 0;
      while (wake.load(std::memory_order_acquire) == last && spins < kSpins) {
        pause_briefly();
        ++spins;
      }
      if (spins == kSpins) {
        sleeping.fetch_add(1);
        wake.wait(last);
        sleeping.fetch_sub(1);
      }
      last = wake.load(std::memory_order_acquire);
    }
  }
  void call_all() {
    wake.fetch_add(1);
    if (sleeping.load() > 0) wake.notify_all();
  }
};

Pool::Pool(size_t threads) {
  keep_openmp_single();
  if (threads == 0) threads = static_cast<size_t>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
  if (threads > 1) workers_ = new Workers;
  for (size_t i = 1; i < threads; ++i) {
    pthread_t thread;
    const auto serve = [](void* w) -> void* {
      static_cast<Workers*>(w)->serve();
      return nullptr;
    };
    if (pthread_create(&thread, nullptr, serve, workers_) != 0) break;  // fewer do as well
    workers_->threads.push_back(thread);
  }
  threads_ = workers_ ? workers_->threads.size() + 1 : 1;
}

Pool::~Pool() {
  if (!workers_) return;
  workers_->stop.store(true);
  workers_->wake.fetch_add(1);
  workers_->wake.notify_all();
  for (const pthread_t thread : workers_->threads) pthread_join(thread, nullptr);
  delete workers_;
}

void Pool::run(void (*task)(void*, size_t), void* context, size_t tasks) {
  keep_openmp_single();
  Workers& w = *workers_;
  // Another thread's job has the workers: this one is the caller's alone.
  const std::unique_lock lock(w.busy, std::try_to_lock);
  if (!lock || tasks >= UINT32_MAX) {
    for (size_t i = 0; i < tasks; ++i) task(context, i);
    return;
  }
  const auto count = static_cast<uint32_t>(tasks);
  const auto number = static_cast<uint32_t>(w.state.load(std::memory_order_relaxed) >> 32) + 1;
  // No task can be taken while what describes the job changes.
  w.state.store(uint64_t{number} << 32 | UINT32_MAX, std::memory_order_relaxed);
  w.tasks.store(count, std::memory_order_release);
  w.done.store(0, std::memory_order_relaxed);
  w.task.store(task, std::memory_order_relaxed);
  w.context.store(context, std::memory_order_relaxed);
  w.state.store(uint64_t{number} << 32, std::memory_order_release);
  w.call_all();
  w.work(number);
  for (int spins = 0; w.done.load(std::memory_order_acquire) != count; ++spins) {
    if (spins < 1000)
      pause_briefly();
    else
      sched_yield();
  }
}
#endif

}  // namespace sixfold::cpu
