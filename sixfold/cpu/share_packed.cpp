#include "sixfold/cpu/share_packed.h"

#include <map>
#include <mutex>
#include <utility>

namespace sixfold::cpu {
namespace {

struct Packed {
  std::mutex mutex;  // held by who packs
  std::shared_ptr<const OwnedBlock> block;
};

struct Constant {
  int sharers = 0;
  std::map<std::string, std::shared_ptr<Packed>> packed;
};

struct Constants {
  std::mutex mutex;
  std::map<const void*, Constant> by_address;
};

Constants& constants() {
  static Constants shared;
  return shared;
}

// Null: nobody shares it.
std::shared_ptr<Packed> find(const void* constant, const std::function<std::string()>& key) {
  Constants& all = constants();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(constant);
  if (found == all.by_address.end()) return nullptr;
  std::shared_ptr<Packed>& packed = found->second.packed[key()];
  if (!packed) packed = std::make_shared<Packed>();
  return packed;
}

Result<std::shared_ptr<const OwnedBlock>> owned(Result<OwnedBlock> block) {
  if (!block.ok()) return block.take_error();
  return std::make_shared<const OwnedBlock>(std::move(block).value());
}

}  // namespace

SharePacked::SharePacked(std::vector<Tensor> constants) : constants_(std::move(constants)) {
  Constants& all = cpu::constants();
  const std::lock_guard lock(all.mutex);
  for (const Tensor& t : constants_) ++all.by_address[t.data].sharers;
}

SharePacked::~SharePacked() {
  Constants& all = constants();
  const std::lock_guard lock(all.mutex);
  for (const Tensor& t : constants_)
    if (const auto found = all.by_address.find(t.data); --found->second.sharers == 0)
      all.by_address.erase(found);
}

Result<std::shared_ptr<const OwnedBlock>> share_packed(const void* constant,
                                                       const std::function<std::string()>& key,
                                                       const std::function<Result<OwnedBlock>()>& pack) {
  const std::shared_ptr<Packed> packed = find(constant, key);
  if (!packed) return owned(pack());
  const std::lock_guard lock(packed->mutex);
  if (!packed->block) {
    SF_ASSIGN(packed->block, owned(pack()));
  }
  return packed->block;
}

}  // namespace sixfold::cpu
