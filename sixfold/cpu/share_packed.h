// Packed weights that models of one graph have in common: those of calibration's threads, of tries, of
// judges. Packing reads and writes as much memory as some runs do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sixfold/base/allocator.h"
#include "sixfold/base/tensor.h"

namespace sixfold::cpu {

// While one of these lives, what is packed of its constants stays for the next kernel that packs them alike.
class SharePacked {
 public:
  explicit SharePacked(std::vector<Tensor> constants);
  ~SharePacked();
  SharePacked(const SharePacked&) = delete;
  SharePacked& operator=(const SharePacked&) = delete;

 private:
  const std::vector<Tensor> constants_;  // their addresses are nobody else's meanwhile
};

// What pack gives for the constant at this address; of one that is shared, once for a key, which says how it
// is packed. Any number of threads: others wait for the one that packs.
Result<std::shared_ptr<const OwnedBlock>> share_packed(const void* constant,
                                                       const std::function<std::string()>& key,
                                                       const std::function<Result<OwnedBlock>()>& pack);

}  // namespace sixfold::cpu
