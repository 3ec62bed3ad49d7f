// One owner for each kind of handle of the API: move-only, freed when it goes. A failure to free is ignored,
// as nothing could be done about it.
#pragma once

#include <utility>

#include "sixfold/qnn/library.h"

namespace sixfold::qnn {

template <void (*free_handle)(const abi::Functions&, abi::Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(const abi::Functions& functions, abi::Handle handle) : functions_(&functions), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : functions_(other.functions_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (!handle_) return;
    const LibraryTimer timer;
    free_handle(*functions_, handle_);
  }

  abi::Handle get() const { return handle_; }

 private:
  const abi::Functions* functions_ = nullptr;
  abi::Handle handle_ = nullptr;
};

namespace internal {
inline void free_log(const abi::Functions& f, abi::Handle h) { f.log_free(h); }
inline void free_backend(const abi::Functions& f, abi::Handle h) { f.backend_free(h); }
inline void free_device(const abi::Functions& f, abi::Handle h) { f.device_free(h); }
inline void free_context(const abi::Functions& f, abi::Handle h) { f.context_free(h, nullptr); }
inline void free_profile(const abi::Functions& f, abi::Handle h) { f.profile_free(h); }
}  // namespace internal

using LogHandle = Owned<internal::free_log>;
using BackendHandle = Owned<internal::free_backend>;
using DeviceHandle = Owned<internal::free_device>;
using ContextHandle = Owned<internal::free_context>;  // its graphs have no handles to free
using ProfileHandle = Owned<internal::free_profile>;

}  // namespace sixfold::qnn
