// Context binaries: compiled once, kept by content.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sixfold/qnn/context.h"

namespace sixfold::tools {

// A folder with a file for each context. Its name is the hash of everything that decides its bytes: graphs
// with their static data, options, SoC and the library's build. Files are written beside and renamed, so that
// several processes may share the folder; what is read is checked, and made anew when it is damaged.
class ContextCache {
 public:
  explicit ContextCache(std::string folder) : folder_(std::move(folder)) {}  // empty: keeps nothing

  // With the header that ExecuTorch's runtime wants before it (qnn/wrapper.h).
  Result<Bytes> payload(const qnn::Backend& backend, std::span<const qnn::GraphSpec> graphs,
                        const qnn::ContextOptions& options);
  size_t hits() const { return hits_; }
  size_t misses() const { return misses_; }
  const std::vector<std::string>& notes() const { return notes_; }  // files that were damaged

 private:
  std::string folder_;
  size_t hits_ = 0, misses_ = 0;
  std::vector<std::string> notes_;
};

// The name of a context: 64 hexadecimal digits.
Result<std::string> content_key(const qnn::Backend& backend, std::span<const qnn::GraphSpec> graphs,
                                const qnn::ContextOptions& options);

}  // namespace sixfold::tools
