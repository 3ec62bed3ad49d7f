// numpy's files: one array (.npy) and named arrays in a zip (.npz).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/tensor.h"
#include "sixfold/base/zip.h"

namespace sixfold {

// any: elements may lie anywhere, for who copies some of them (with_alignment) before they are read.
enum class Alignment : uint8_t { natural, any };

// The array in bytes, in place where its order and alignment allow, else a copy. Little-endian bool, u8, i8,
// ..., f64.
Result<Tensor> parse_npy(const OwnedBytes& file, Alignment alignment = Alignment::natural);
Result<Tensor> read_npy(const std::string& path);
Tensor with_alignment(const Tensor& contiguous);  // itself, or a copy

// The bytes in front of a row-major array's data. numpy has no bf16: convert first.
Result<std::string> npy_header(DType dtype, const Shape& shape);
Status write_npy(const std::string& path, const Tensor& tensor);

class NpzReader {
 public:
  static Result<NpzReader> open(const std::string& path);
  const std::vector<std::string>& names() const {
    return names_;
  }  // without ".npy", in the order of the file
  Result<Tensor> read(std::string_view name, Alignment alignment = Alignment::natural) const;

 private:
  ZipReader zip_;
  std::string path_;
  std::vector<std::string> names_;
};

class NpzWriter {
 public:
  Status add(std::string_view name, const Tensor& tensor);  // shares the tensor's bytes until write()
  Status write(const std::string& path) const;

 private:
  struct Array {
    std::string name, header;
    Tensor tensor;
  };
  std::vector<Array> arrays_;
};

}  // namespace sixfold
