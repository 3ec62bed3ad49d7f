// JPEG and PNG files as inputs of a model: decoded, resized as Pillow does (a triangle as wide as the step),
// cropped from the middle, brought to the model's numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <csetjmp>
#include <cstdio>

#include "sixfold/base/mapped_file.h"
#include "sixfold/quantize/samples.h"

#if defined(SIXFOLD_IMAGES)
// clang-format off: it needs what <cstdio> declares
#include <jpeglib.h>
#include <png.h>
// clang-format on
#endif

namespace sixfold {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 26;

struct Image {  // RGB, 0 to 255
  int64_t width = 0, height = 0;
  std::vector<uint8_t> bytes;
};

Error too_large(int64_t width, int64_t height) {
  return invalid_argument("it has ", width, " x ", height, " pixels, the most are ", kMostPixels);
}

#if defined(SIXFOLD_IMAGES)

struct JpegError {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

// Everything that lives across the library's jumps is the caller's: a jump destroys nothing.
bool decode_jpeg(std::span<const std::byte> file, Image& out, JpegError& error,
                 jpeg_decompress_struct& jpeg) {
  if (setjmp(error.back)) return false;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&jpeg, TRUE);
  out.width = jpeg.image_width;
  out.height = jpeg.image_height;
  if (out.width * out.height > kMostPixels) return true;
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  out.bytes.resize(static_cast<size_t>(out.width * out.height * 3));
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row =
        out.bytes.data() + static_cast<size_t>(jpeg.output_scanline) * static_cast<size_t>(out.width) * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

Result<Image> read_jpeg(std::span<const std::byte> file) {
  Image out;
  JpegError error{};
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&error.base);
  error.base.error_exit = [](j_common_ptr info) {
    auto* e = reinterpret_cast<JpegError*>(info->err);
    info->err->format_message(info, e->text);
    std::longjmp(e->back, 1);
  };
  error.base.emit_message = [](j_common_ptr info, int level) {
    if (level < 0) ++info->err->num_warnings;  // damaged data, which the library would fill with grey
  };
  const bool ok = decode_jpeg(file, out, error, jpeg);
  const long warnings = error.base.num_warnings;
  jpeg_destroy_decompress(&jpeg);
  if (!ok) return invalid_argument("its JPEG data is wrong: ", error.text);
  if (out.width * out.height > kMostPixels) return too_large(out.width, out.height);
  if (warnings) return invalid_argument("its JPEG data is damaged or cut short");
  return out;
}

Result<Image> read_png(std::span<const std::byte> file) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&png, file.data(), file.size()))
    return invalid_argument("its PNG data is wrong: ", png.message);
  Image out{png.width, png.height, {}};
  if (out.width * out.height > kMostPixels) {
    png_image_free(&png);
    return too_large(out.width, out.height);
  }
  png.format = PNG_FORMAT_RGB;
  out.bytes.resize(PNG_IMAGE_SIZE(png));
  const png_color black{};
  if (!png_image_finish_read(&png, &black, out.bytes.data(), 0, nullptr))
    return invalid_argument("its PNG data is wrong: ", png.message);
  return out;
}

#else

Result<Image> read_jpeg(std::span<const std::byte>) {
  return unsupported("this build was made without libjpeg and libpng");
}
Result<Image> read_png(std::span<const std::byte> file) { return read_jpeg(file); }

#endif

// One axis: out[i] is a weighted mean of `taps` elements from first on.
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};
std::vector<Taps> triangle(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Taps> out(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(middle - reach + 0.5));
    const auto last = std::min<int64_t>(from, static_cast<int64_t>(middle + reach + 0.5));
    Taps& t = out[static_cast<size_t>(i)];
    t.first = first;
    double sum = 0;
    for (int64_t k = first; k < last; ++k) {
      const double w = std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - middle) / reach));
      t.weights.push_back(static_cast<float>(w));
      sum += w;
    }
    for (float& w : t.weights) w /= static_cast<float>(sum);
  }
  return out;
}

struct Pixels {
  int64_t width = 0, height = 0;
  std::vector<float> values;  // [height][width][3]
};

Pixels resized(const Image& image, int64_t width, int64_t height) {
  const std::vector<Taps> across = triangle(image.width, width), down = triangle(image.height, height);
  std::vector<float> rows(static_cast<size_t>(image.height * width * 3));
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const Taps& t = across[static_cast<size_t>(x)];
      float sum[3] = {};
      for (size_t k = 0; k < t.weights.size(); ++k)
        for (size_t c = 0; c < 3; ++c)
          sum[c] +=
              t.weights[k] *
              static_cast<float>(image.bytes[(static_cast<size_t>(y * image.width + t.first) + k) * 3 + c]);
      std::copy_n(sum, 3, &rows[static_cast<size_t>(y * width + x) * 3]);
    }
  Pixels out{width, height, std::vector<float>(static_cast<size_t>(height * width * 3))};
  const auto stride = static_cast<size_t>(width * 3);
  for (int64_t y = 0; y < height; ++y) {
    const Taps& t = down[static_cast<size_t>(y)];
    float* to = &out.values[static_cast<size_t>(y) * stride];
    for (size_t k = 0; k < t.weights.size(); ++k)
      for (size_t i = 0; i < stride; ++i)
        to[i] += t.weights[k] * rows[(static_cast<size_t>(t.first) + k) * stride + i];
    for (size_t i = 0; i < stride; ++i) to[i] = std::round(to[i]);  // images hold bytes
  }
  return out;
}

template <typename T>
bool parse_number(std::string_view text, T& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size();
}

bool parse_channels(std::string_view text, std::vector<float>& out) {
  out.clear();
  while (true) {
    const size_t end = std::min(text.find(':'), text.size());
    float x = 0;
    if (!parse_number(text.substr(0, end), x) || !std::isfinite(x)) return false;
    out.push_back(x);
    if (end == text.size()) return out.size() == 1 || out.size() == 3;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Result<Preprocess> parse_preprocess(std::string_view text) {
  Preprocess out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = std::min(item.find('='), item.size());
    const std::string_view key = item.substr(0, equals),
                           value = item.substr(std::min(equals + 1, item.size()));
    bool good = true;
    if (key == "resize" || key == "crop") {
      int& side = key == "resize" ? out.resize : out.crop;
      good = parse_number(value, side) && side >= 1 && side <= 8192;
    } else if (key == "mean") {
      good = parse_channels(value, out.mean);
    } else if (key == "std") {
      good =
          parse_channels(value, out.std) && std::find(out.std.begin(), out.std.end(), 0.0f) == out.std.end();
    } else if (key == "layout") {
      good = value == "nchw" || value == "nhwc";
      out.nhwc = value == "nhwc";
    } else if (key == "range") {
      good = value == "1" || value == "255";
      out.unit = value == "1";
    } else {
      return invalid_argument("--preprocess has '", item,
                              "', expected resize=, crop=, mean=, std=, layout= or range=");
    }
    if (!good)
      return invalid_argument("--preprocess has '", item,
                              "', expected sides of 1 to 8192, one or three numbers with : between, nchw or "
                              "nhwc, and a range of 1 or 255");
  }
  return out;
}

Result<Tensor> read_image(const std::string& path, const Preprocess& p) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  const auto begins = [&](std::string_view magic) {
    return bytes.size() > magic.size() &&
           std::string_view(reinterpret_cast<const char*>(bytes.data()), magic.size()) == magic;
  };
  auto image = begins("\xff\xd8")      ? read_jpeg(bytes)
               : begins("\x89PNG\r\n") ? read_png(bytes)
                                       : Result<Image>(invalid_argument("it is neither JPEG nor PNG"));
  if (!image.ok()) return image.take_error().during(cat("reading ", path));
  int64_t width = image->width, height = image->height;
  if (width < 1 || height < 1) return invalid_argument(path, " has no pixels");
  if (p.resize) {
    const int64_t side = std::min(width, height);
    const auto scaled = [&](int64_t x) { return std::max<int64_t>(x * p.resize / side, 1); };
    width = scaled(width);
    height = scaled(height);
    if (width * height > kMostPixels) return too_large(width, height).during(cat("resizing ", path));
  }
  const Pixels pixels = resized(*image, width, height);
  const int64_t w = p.crop ? p.crop : width, h = p.crop ? p.crop : height;
  if (w > width || h > height)
    return invalid_argument(path, " is ", width, " x ", height, " when it is cropped to ", w, " x ", h);
  const int64_t left = (width - w) / 2, top = (height - h) / 2;
  std::byte* data = nullptr;
  Tensor out = Tensor::allocate(DType::f32, p.nhwc ? Shape{1, h, w, 3} : Shape{1, 3, h, w}, &data);
  auto* to = reinterpret_cast<float*>(data);
  const auto of = [](const std::vector<float>& v, int64_t c, float none) {
    return v.empty() ? none : v[v.size() == 1 ? 0 : static_cast<size_t>(c)];
  };
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        float v =
            pixels.values[static_cast<size_t>((y + top) * width + x + left) * 3 + static_cast<size_t>(c)];
        if (p.unit) v /= 255;
        v = (v - of(p.mean, c, 0)) / of(p.std, c, 1);
        to[p.nhwc ? (y * w + x) * 3 + c : (c * h + y) * w + x] = v;
      }
  return out;
}

}  // namespace sixfold
