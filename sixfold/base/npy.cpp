#include "sixfold/base/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "sixfold/base/mapped_file.h"

namespace sixfold {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;

struct DTypeName {
  DType dtype;
  std::string_view code;
};
constexpr DTypeName kCodes[] = {
    {DType::boolean, "b1"}, {DType::u8, "u1"},  {DType::i8, "i1"},  {DType::i16, "i2"},
    {DType::u16, "u2"},     {DType::i32, "i4"}, {DType::u32, "u4"}, {DType::i64, "i8"},
    {DType::u64, "u8"},     {DType::f16, "f2"}, {DType::f32, "f4"}, {DType::f64, "f8"},
};

// The value of a key in the header's Python dict, up to its comma, without spaces: {'descr': '<f4', ...}.
std::string_view value_of(std::string_view dict, std::string_view key) {
  size_t at = dict.find(cat("'", key, "'"));
  if (at == std::string_view::npos) return {};
  at = dict.find(':', at);
  if (at == std::string_view::npos) return {};
  std::string_view rest = dict.substr(at + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const char close = rest.starts_with('(') ? ')' : rest.starts_with('[') ? ']' : ',';
  const size_t end = rest.find(close);
  rest = rest.substr(0, end == std::string_view::npos ? end : end + (close == ',' ? 0 : 1));
  return rest.substr(0, rest.find_last_not_of(' ') + 1);
}

Result<DType> parse_descr(std::string_view text) {
  if (text.size() >= 4 && text.front() == '\'' && text.back() == '\'') {
    const std::string_view descr = text.substr(1, text.size() - 2);
    for (const auto& [dtype, code] : kCodes) {
      if (descr.substr(1) != code) continue;
      if (descr[0] == '<' || descr[0] == '|' || descr[0] == '=') return dtype;
      if (descr[0] == '>') return unsupported("the .npy array is big-endian (", descr, ")");
    }
  }
  return unsupported("the .npy array has dtype ", text,
                     ", expected bool, int, uint or float of 1 to 8 bytes");
}

Result<Shape> parse_shape(std::string_view text) {
  Shape shape;
  if (!text.starts_with('(') || !text.ends_with(')')) return invalid_model("the .npy header has no shape");
  text = text.substr(1, text.size() - 2);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return shape;
    int64_t extent = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || extent > (int64_t{1} << 40) || shape.size() == kMaxRank)
      return invalid_model("the .npy header has a wrong shape (", text, ")");
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    shape.push_back(extent);
  }
}

}  // namespace

Tensor with_alignment(const Tensor& contiguous) {
  if (reinterpret_cast<uintptr_t>(contiguous.data) % size_of(contiguous.dtype) == 0) return contiguous;
  std::byte* bytes = nullptr;
  Tensor copy = Tensor::allocate(contiguous.dtype, contiguous.shape, &bytes);
  std::memcpy(bytes, contiguous.data, contiguous.size_bytes());
  return copy;
}

Result<Tensor> parse_npy(const OwnedBytes& file, Alignment alignment) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 12) return invalid_model("not a .npy file");
  const int major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3)
    return unsupported("the .npy file has format version ", major, ", expected 1 to 3");
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data() + 8, major == 1 ? 2 : 4);
  const size_t begin = major == 1 ? 10 : 12;
  if (header_bytes > text.size() - begin) return invalid_model("the .npy header is cut short");
  const std::string_view dict = text.substr(begin, header_bytes);

  Tensor out;
  SF_ASSIGN(out.dtype, parse_descr(value_of(dict, "descr")));
  SF_ASSIGN(out.shape, parse_shape(value_of(dict, "shape")));
  const std::span<const std::byte> data = file.bytes.subspan(begin + header_bytes);
  if (out.count() > (int64_t{1} << 46) || out.size_bytes() > data.size())
    return invalid_model("the .npy array ", out.dtype, out.shape, " needs ", out.count(), " * ",
                         size_of(out.dtype), " bytes, the file has ", data.size());
  out.data = data.data();
  out.owner = file.owner;
  if (out.dtype == DType::boolean) SF_TRY(check_bools({out.data, out.size_bytes()}));
  if (value_of(dict, "fortran_order") == "True") {
    Shape strides = contiguous_strides(Shape(out.shape.rbegin(), out.shape.rend()));
    std::reverse(strides.begin(), strides.end());
    out.strides = std::move(strides);
    out = to_contiguous(out);
  }
  return alignment == Alignment::any ? out : with_alignment(out);
}

Result<Tensor> read_npy(const std::string& path) {
  SF_ASSIGN(auto file, MappedFile::open(path));
  auto tensor = parse_npy({file->bytes(), file});
  if (!tensor.ok()) return tensor.take_error().during(cat("reading ", path));
  return tensor;
}

Result<std::string> npy_header(DType dtype, const Shape& shape) {
  const auto* code =
      std::find_if(std::begin(kCodes), std::end(kCodes), [&](const auto& c) { return c.dtype == dtype; });
  if (code == std::end(kCodes)) return unsupported("numpy has no dtype ", dtype);
  std::string dict = cat("{'descr': '", size_of(dtype) == 1 ? "|" : "<", code->code,
                         "', 'fortran_order': False, 'shape': (");
  for (size_t i = 0; i < shape.size(); ++i) dict += cat(i ? ", " : "", shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  dict.append(63 - (10 + dict.size()) % 64, ' ').append("\n");
  const auto size = static_cast<uint16_t>(dict.size());
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(size & 0xff), static_cast<char>(size >> 8)};
  return out + dict;
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  const Tensor rows = to_contiguous(tensor);
  SF_ASSIGN(const std::string header, npy_header(rows.dtype, rows.shape));
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(header)),
                                              {rows.data, rows.size_bytes()}};
  return write_file(path, parts);
}

Result<NpzReader> NpzReader::open(const std::string& path) {
  SF_ASSIGN(auto file, MappedFile::open(path));
  auto zip = ZipReader::open({file->bytes(), file});
  if (!zip.ok()) return zip.take_error().during(cat("reading ", path));
  NpzReader out;
  out.zip_ = std::move(*zip);
  out.path_ = path;
  for (const ZipMember& member : out.zip_.members()) {
    const std::string_view name = member.name;
    if (name.ends_with(".npy")) out.names_.emplace_back(name.substr(0, name.size() - 4));
  }
  return out;
}

Result<Tensor> NpzReader::read(std::string_view name, Alignment alignment) const {
  const ZipMember* member = zip_.find(cat(name, ".npy"));
  if (!member) return fail(Code::NotFound, path_, " has no array named ", name);
  auto tensor = [&]() -> Result<Tensor> {
    SF_ASSIGN(const OwnedBytes bytes, zip_.read(*member, /*check_crc=*/true));
    return parse_npy(bytes, alignment);
  }();
  if (!tensor.ok()) return tensor.take_error().during(cat("reading ", name, " of ", path_));
  return tensor;
}

Status NpzWriter::add(std::string_view name, const Tensor& tensor) {
  SF_ASSIGN(std::string header, npy_header(tensor.dtype, tensor.shape));
  arrays_.push_back({cat(name, ".npy"), std::move(header), to_contiguous(tensor)});
  return ok_status();
}

Status NpzWriter::write(const std::string& path) const {
  ZipWriter zip;
  for (const Array& array : arrays_)
    zip.add(array.name,
            {std::as_bytes(std::span(array.header)), {array.tensor.data, array.tensor.size_bytes()}});
  return zip.write(path);
}

}  // namespace sixfold
