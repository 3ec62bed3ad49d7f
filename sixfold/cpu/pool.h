// Threads for kernels. The caller works as well, and never waits for a worker that has not come: on busy
// cores a thread may be woken milliseconds late, which for nets of hundreds of short ops would be most of the
// time (pthreadpool, whose callers do wait, took a hundred times as long there).
//
// Work is split into tasks by shape alone, never by thread count, so results do not depend on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace sixfold::cpu {

class Pool {
 public:
  // threads 0: one per core. One thread runs everything in the caller.
  explicit Pool(size_t threads = 0);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  size_t threads() const { return threads_; }

  // f(i) for i in [0, tasks), in any order, in parallel; returns when all are done. f must not throw or nest.
  template <typename F>
  void for_each(size_t tasks, const F& f) {
    if (tasks == 0) return;
    if (tasks == 1 || threads_ == 1) {
      for (size_t i = 0; i < tasks; ++i) f(i);
      return;
    }
    run([](void* context, size_t i) { (*static_cast<const F*>(context))(i); },
        const_cast<void*>(static_cast<const void*>(&f)), tasks);
  }

  // f(begin, end) over ranges of [0, count) of at most `grain` each.
  template <typename F>
  void for_ranges(int64_t count, int64_t grain, const F& f) {
    grain = std::max<int64_t>(grain, 1);
    const auto tasks = static_cast<size_t>((count + grain - 1) / grain);
    for_each(tasks, [&](size_t i) {
      const int64_t begin = static_cast<int64_t>(i) * grain;
      f(begin, std::min(begin + grain, count));
    });
  }

 private:
  struct Workers;
  void run(void (*task)(void*, size_t), void* context, size_t tasks);
  size_t threads_;
  Workers* workers_ = nullptr;
};

}  // namespace sixfold::cpu
