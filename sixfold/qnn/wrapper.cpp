#include "sixfold/qnn/wrapper.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace sixfold::qnn {
namespace {

constexpr uint32_t kMagic = 0x5678ABCD;

template <typename T>
T read_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

std::array<std::byte, kWrapperBytes> wrapper_of(std::span<const std::byte> binary) {
  const uint64_t signature = XXH3_64bits(binary.data(), binary.size()), size = binary.size();
  std::array<std::byte, kWrapperBytes> out{};
  std::memcpy(out.data(), &kMagic, 4);
  std::memcpy(out.data() + 4, &signature, 8);
  std::memcpy(out.data() + 12, &size, 8);
  return out;
}

bool is_wrapped(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && read_at<uint32_t>(bytes, 0) == kMagic;
}

Result<Wrapped> unwrap(std::span<const std::byte> bytes) {
  if (bytes.size() < kWrapperBytes)
    return invalid_model("a QNN payload has ", bytes.size(), " bytes, its header alone has ", kWrapperBytes);
  if (!is_wrapped(bytes))
    return invalid_model("a QNN payload begins with ", read_at<uint32_t>(bytes, 0), ", expected ", kMagic,
                         " of a prepared context binary");
  const auto size = read_at<uint64_t>(bytes, 12);
  const size_t there = bytes.size() - kWrapperBytes;
  if (size != there || size == 0)
    return invalid_model("a QNN payload says that its context binary has ", size, " bytes, there are ",
                         there);
  return Wrapped{read_at<int64_t>(bytes, 4), bytes.subspan(kWrapperBytes)};
}

}  // namespace sixfold::qnn
