// Several processes that mpirun started with one command: each calibrates with its part of the samples, and
// all go on with what all saw. Without mpirun there is one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold {

class Ranks {
 public:
  // Of this process. An error under mpirun where OpenMPI's library is not found: every process would do all
  // the work and write the same files.
  static Result<Ranks> get();

  size_t rank() const { return rank_; }
  size_t count() const { return count_; }
  bool writes() const { return rank_ == 0; }  // files, and what is printed
  // Ends all ranks, when one cannot go on: the others would wait for it.
  static void give_up();
  // What every rank gave, in their order, to all of them.
  std::vector<std::string> gather(const std::string& mine) const;

 private:
  size_t rank_ = 0, count_ = 1;
};

// Numbers one after another, between processes of one kind of machine.
class Packer {
 public:
  template <typename T>
  void add(const T& x) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  template <typename T>
  void add_list(const std::vector<T>& list) {
    add(static_cast<uint64_t>(list.size()));
    for (const T& x : list) add(x);
  }
  void add_text(const std::string& text) {
    add(static_cast<uint64_t>(text.size()));
    bytes += text;
  }
  std::string bytes;
};
class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T x{};
    if (sizeof x <= bytes_.size() - at_) {
      std::copy_n(bytes_.data() + at_, sizeof x, reinterpret_cast<char*>(&x));
      at_ += sizeof x;
    }
    return x;
  }
  template <typename T>
  std::vector<T> take_list() {
    std::vector<T> out(std::min<uint64_t>(take<uint64_t>(), (bytes_.size() - at_) / sizeof(T)));
    for (T& x : out) x = take<T>();
    return out;
  }
  std::string take_text() {
    const auto n = std::min<uint64_t>(take<uint64_t>(), bytes_.size() - at_);
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace sixfold
