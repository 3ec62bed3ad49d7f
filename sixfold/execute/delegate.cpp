#include "sixfold/execute/delegate.h"

#include <map>
#include <memory>
#include <mutex>

namespace sixfold {
namespace {

struct Registry {
  std::mutex mutex;
  // Entries are never freed, so that a method may keep a pointer to one.
  std::map<std::string, std::unique_ptr<const DelegateFunctions>, std::less<>> known;
  std::vector<std::unique_ptr<const DelegateFunctions>> removed;
};
Registry& registry() {
  static auto* out = new Registry;
  return *out;
}

}  // namespace

Status register_delegate(std::string_view id, const DelegateFunctions& functions) {
  if (id.empty()) return invalid_argument("a delegate needs an id");
  if (!functions.init || !functions.execute || !functions.destroy)
    return invalid_argument("delegate ", id, " must have init, execute and destroy");
  const std::lock_guard lock(registry().mutex);
  const bool fresh =
      registry().known.emplace(id, std::make_unique<const DelegateFunctions>(functions)).second;
  if (!fresh) return invalid_argument("a delegate ", id, " is registered already");
  return {};
}

bool unregister_delegate(std::string_view id) {
  const std::lock_guard lock(registry().mutex);
  const auto it = registry().known.find(id);
  if (it == registry().known.end()) return false;
  registry().removed.push_back(std::move(it->second));
  registry().known.erase(it);
  return true;
}

const DelegateFunctions* find_delegate(std::string_view id) {
  const std::lock_guard lock(registry().mutex);
  const auto it = registry().known.find(id);
  return it == registry().known.end() ? nullptr : it->second.get();
}

}  // namespace sixfold
