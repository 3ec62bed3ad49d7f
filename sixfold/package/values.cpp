#include "sixfold/package/values.h"

#include <bit>

#include "sixfold/base/cat.h"

namespace sixfold {
namespace {

template <typename List>
std::string key_of(const char* kind, const List& items) {
  std::string key = kind;
  for (const auto& item : items) key += cat(" ", item);
  return key;
}

}  // namespace

pte::Index Values::add(pte::Value value) {
  method_.values.push_back(std::move(value));
  return static_cast<pte::Index>(method_.values.size() - 1);
}

pte::Index Values::shared(std::string key, pte::Value value) {
  const auto [it, fresh] = known_.try_emplace(std::move(key), 0);
  if (fresh) it->second = add(std::move(value));
  return it->second;
}

pte::Index Values::integer(int64_t v) { return shared(cat("int ", v), v); }
pte::Index Values::real(double v) { return shared(cat("real ", std::bit_cast<uint64_t>(v)), v); }

pte::Index Values::ints(const std::vector<pte::Index>& items) {
  return shared(key_of("ints", items), pte::IntList{{items.begin(), items.end()}});
}
pte::Index Values::reals(const std::vector<double>& v) {
  std::vector<uint64_t> bits;
  for (const double x : v) bits.push_back(std::bit_cast<uint64_t>(x));
  return shared(key_of("reals", bits), v);
}
pte::Index Values::booleans(const std::vector<bool>& v) {
  std::string key = "booleans ";
  for (const bool b : v) key += b ? '1' : '0';
  return shared(std::move(key), v);
}
pte::Index Values::tensors(const std::vector<pte::Index>& items, bool optional) {
  return shared(key_of(optional ? "optional tensors" : "tensors", items), pte::TensorList{items, optional});
}

}  // namespace sixfold
